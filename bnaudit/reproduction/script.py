"""The text of repro.py: plain PyTorch or onnxruntime, nothing of bnaudit."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import NamedTuple

from bnaudit import __version__
from bnaudit.description import Carrier
from bnaudit.reproduction.demonstration import Demonstration, Kind
from bnaudit.reproduction.fitting_code import FITTED, called, needs_fitting
from bnaudit.reproduction.loading_code import Loading, loading
from bnaudit.reproduction.model_source import ModelSource
from bnaudit.reproduction.quoted import Call, literal, prose
from bnaudit.reproduction.words import summary
from bnaudit.session import Mode


class Script(NamedTuple):
    """The text, and what it reads."""

    text: str
    call: Call


def script(found: Demonstration, source: ModelSource, folder: Path, runner: str) -> Script:
    """`folder`: where it will stand. `runner`: name and version of what ran the model."""
    graph = source.carrier is Carrier.GRAPH
    call = Call(found.pool, "" if graph else "torch.from_numpy")
    evaluates = found.mode is Mode.INFERENCE and not source.as_is
    loaded = loading(source, folder, evaluates=evaluates)
    pieces = [
        _constants(found, loaded),
        loaded.functions.strip("\n"),
        _graph_run(found, call, source) if graph else _torch_run(found, call, source),
        _main(found, graph, notices=source.file is not None),
        'if __name__ == "__main__":\n    sys.exit(main())',
    ]
    head = f"{_head(found, runner)}\n\n{_imports(found, loaded)}\n\n"
    return Script(head + "\n\n\n".join(pieces) + "\n", call)


def _head(found: Demonstration, runner: str) -> str:
    said = textwrap.wrap(prose(summary(found)), 100)
    return "\n".join(
        [
            f'"""{said[0]}',
            *said[1:],
            "",
            "    python repro.py",
            "",
            "exits with 1 while the defect is there, 0 when it is mended, 2 when the model cannot be found.",
            f"It reads the model where it is: mend that, and run it again. Found by bnaudit {__version__},",
            f"{prose(runner)}.",
            '"""',
        ]
    )


def _imports(found: Demonstration, loaded: Loading) -> str:
    names = set(loaded.imports)
    if found.fresh:
        names.add("copy")
    standard = sorted({name for name in names if name in ("copy", "hashlib", "importlib", "sys")})
    others = sorted(name for name in names if name not in standard)
    lines = [f"import {name}" for name in standard]
    return "\n".join([*lines, "from pathlib import Path", "", *(f"import {name}" for name in others)])


def _constants(found: Demonstration, loaded: Loading) -> str:
    lines = ["HERE = Path(__file__).resolve().parent", *loaded.constants, ""]
    if found.kind is Kind.NEIGHBOURS:
        lines += [
            f"FIRST = {list(found.batches[0])}  # rows of inputs.npz in one batch",
            f"SECOND = {list(found.batches[1])}  # the same sample with other companions",
            f"SAMPLE = {found.anchor}  # where the compared sample stands in both",
        ]
    elif found.kind is Kind.SIZE:
        lines += [f"ALONE = {list(found.batches[0])}  # rows of inputs.npz", f"AMONG = {list(found.batches[1])}"]
    else:
        lines += [f"BATCH = {list(found.batches[0])}  # rows of inputs.npz in one batch"]
    if found.statistics is not None:
        case = found.statistics
        lines += [
            f"LAYER = {literal(case.layer)}",
            f"MEAN_LIMIT, VARIANCE_LIMIT = {case.shift_limit:g}, {case.ratio_limit:g}  # deviations, a factor",
        ]
    elif found.kind is not Kind.STATE:
        lines += [f"LIMIT = {found.limit:.3g}  # what rounding can make: 64 epsilons of the output's scale"]
        if found.kind is not Kind.SIZE or not found.raised:
            lines += [
                f"FOUND = {literal(float(f'{found.difference:.6g}'))}  # the difference when the defect was found"
            ]
    if _seeded(found):
        lines += [f"SEED = {found.seed}"]
    return "\n".join(lines)


def _seeded(found: Demonstration) -> bool:
    """Whether generators are set before each forward: what draws would hide what is compared."""
    return found.seed is not None and found.kind is not Kind.RANDOM


def _torch_run(found: Demonstration, call: Call, source: ModelSource) -> str:
    text = ""
    if found.outputs > 1 or found.output_name:
        text = '''def leaves(value):
    """Every tensor that the model returned, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict) or hasattr(value, "items"):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)


'''
        taken = f"list(leaves(output))[{found.output}]"
    else:
        taken = "output"
    fits = needs_fitting(found.compute_dtype, source.device)
    fitting, to_array = called(fits)
    seed = "    torch.manual_seed(SEED)\n" if _seeded(found) else ""
    model = "copy.deepcopy(model)" if found.fresh else "model"
    why = "\n\n    A forward changes the model: each begins from a copy." if found.fresh else ""
    stop = "    " if why else ""
    return f'''{FITTED if fits else ""}{text}@torch.no_grad()
def run(model, rows):
    """The output on these rows of inputs.npz, as an array.{why}{chr(10) + stop if why else ""}"""
    data = np.load(HERE / "inputs.npz")
{call.lines}
{fitting}{seed}    output = {model}(*args, **kwargs)
    return {taken}{to_array}'''


def _graph_run(found: Demonstration, call: Call, source: ModelSource) -> str:
    begin = "    onnxruntime.set_seed(SEED)\n    model = load()  # what draws begins anew with a session\n"
    seed = begin if _seeded(found) else ""
    return f'''def run(model, rows):
    """The output on these rows of inputs.npz."""
    data = np.load(HERE / "inputs.npz")
{call.lines}
{seed}    names = [each.name for each in model.get_inputs() if each.name not in kwargs]
    return model.run(None, {{**dict(zip(names, args)), **kwargs}})[{found.output}].astype(np.float64)'''


def _main(found: Demonstration, graph: bool, *, notices: bool) -> str:
    notice = "    notice()\n" if notices else ""
    body = {
        Kind.NEIGHBOURS: _neighbours,
        Kind.REPEAT: _repeat,
        Kind.RANDOM: _random,
        Kind.STATE: _state,
        Kind.SIZE: _size,
        Kind.COPIES: _copies,
        Kind.STATISTICS: _statistics,
    }[found.kind](found, graph)
    return f"def main():\n{notice}{body}"


_VERDICT = """    print(f"largest difference {difference:.6g}; rounding can make {LIMIT:.2g}; it was {FOUND:.6g}")
    if difference <= LIMIT:
        print("MENDED_SENTENCE")
        return 0
    print("DEFECT_SENTENCE")
    return 1"""


def _verdict(mended: str, defect: str) -> str:
    return _VERDICT.replace("MENDED_SENTENCE", mended).replace("DEFECT_SENTENCE", defect)


def _row(index: str, axis: int | None) -> str:
    """What takes one sample of an output."""
    return f"[{index}]" if axis == 0 else f".take({index}, axis={axis})"


def _neighbours(found: Demonstration, graph: bool) -> str:
    take = _row("SAMPLE", found.axis)
    return f"""    model = load()
    first, second = run(model, FIRST){take}, run(model, SECOND){take}
    difference = np.abs(first - second).max()
    print(f"the sample in row {{FIRST[SAMPLE]}}, with the companions of FIRST:  {{first.ravel()[:4]}}")
    print(f"the same sample, with those of SECOND:         {{second.ravel()[:4]}}")
{_verdict("mended: its output does not depend on its companions", "the same sample has two outputs")}"""


def _repeat(found: Demonstration, graph: bool) -> str:
    return f"""    model = load()
    first, second = run(model, BATCH), run(model, BATCH)
    difference = np.abs(first - second).max()
    print(f"the first time:  {{first.ravel()[:4]}}")
    print(f"the second time: {{second.ravel()[:4]}}")
{_verdict("mended: both are the same", "the same batch has another output the second time")}"""


def _random(found: Demonstration, graph: bool) -> str:
    seed = "onnxruntime.set_seed(0)" if graph else "torch.manual_seed(0)"
    return f"""    {seed}
    model = load()
    outputs = [run(model, BATCH) for _ in range(8)]
    difference = max(np.abs(outputs[0] - other).max() for other in outputs[1:])
    print(f"the first time:  {{outputs[0].ravel()[:4]}}")
    print(f"the second time: {{outputs[1].ravel()[:4]}}")
{_verdict("mended: nothing is drawn", "the same batch has other outputs, by chance")}"""


def _state(found: Demonstration, graph: bool) -> str:
    return """    model = load()
    before = {name: tensor.clone() for name, tensor in [*model.named_buffers(), *model.named_parameters()]}
    run(model, BATCH)
    after = dict([*model.named_buffers(), *model.named_parameters()])
    changed = [name for name, tensor in before.items() if not torch.equal(tensor, after[name])]
    if not changed:
        print("mended: a forward changes nothing")
        return 0
    for name in changed[:8]:
        print(f"{ascii(name)[1:-1]}: {before[name].flatten()[:3].tolist()} became {after[name].flatten()[:3].tolist()}")
    print(f"one forward changed {len(changed)} buffers or parameters")
    return 1"""


def _copies(found: Demonstration, graph: bool) -> str:
    return f"""    output = run(load(), BATCH)
    first, last = output{_row("0", found.axis)}, output{_row("-1", found.axis)}
    difference = np.abs(first - last).max()
    print(f"the first of {{len(BATCH)}} copies: {{first.ravel()[:4]}}")
    print(f"the last of them:   {{last.ravel()[:4]}}")
{_verdict("mended: copies have one output", "copies of one sample have different outputs")}"""


def _statistics(found: Demonstration, graph: bool) -> str:
    assert found.statistics is not None
    return """    model = load()
    norm = dict(model.named_modules())[LAYER]
    mean, var = norm.running_mean.double().cpu().numpy(), norm.running_var.double().cpu().numpy()
    for module in model.modules():  # as in training, so that only the guilty layer looks so
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.train()
    seen = []
    norm.register_forward_pre_hook(lambda module, args: seen.append(args[0].double().cpu().numpy()))
    run(model, BATCH)
    values = np.moveaxis(seen[0], 1, 0).reshape(len(mean), -1)
    live = (var > norm.eps) & (values.var(axis=1) > 1e-12 * var)
    mean, var, values = mean[live], var[live], values[live]
    shift = np.sqrt(np.mean((values.mean(axis=1) - mean) ** 2 / var))
    ratio = np.exp(np.median(np.abs(np.log((values.var(axis=1, ddof=1) + norm.eps) / (var + norm.eps)))))
    print(f"{len(BATCH)} samples, {values.shape[1]} values for each of {len(mean)} channels")
    print(f"the received mean is {shift:.3g} stored standard deviations away; {MEAN_LIMIT:g} is the limit")
    print(f"the received variance is off by a factor of {ratio:.3g}; {VARIANCE_LIMIT:g} is the limit")
    if shift <= MEAN_LIMIT and ratio <= VARIANCE_LIMIT:
        print("mended: the stored statistics fit")
        return 0
    print("the stored statistics do not fit what the layer receives")
    return 1"""


def _size(found: Demonstration, graph: bool) -> str:
    axis = found.axis or 0
    verdict = (
        _verdict("mended: it has the output that it has among others", "alone it has another output")
        if not found.raised
        else """    print(f"largest difference {difference:.6g}; rounding can make {LIMIT:.2g}")
    print("mended: it runs alone")
    return 0"""
    )
    return f"""    model = load()
    among = run(model, AMONG)
    try:
        alone = run(model, ALONE)
    except Exception as error:
        print(f"{{len(AMONG)}} samples run; the first one alone raises {{type(error).__name__}}: {{error}}")
        return 1
    expected = among.take([0], axis={axis})
    if alone.shape != expected.shape:
        print(f"alone its output has the shape {{alone.shape}} instead of {{expected.shape}}")
        return 1
    difference = np.abs(alone - expected).max()
    print(f"alone:         {{alone.ravel()[:4]}}")
    print(f"among others:  {{expected.ravel()[:4]}}")
{verdict}"""
