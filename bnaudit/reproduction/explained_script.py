"""The text of repro.py for an explanation: eval as saved, and what production did, against the observed scores."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bnaudit import __version__
from bnaudit.description import Carrier, Part
from bnaudit.diagnosis import FLOOR_FACTOR
from bnaudit.reproduction.explanation import Explanation
from bnaudit.reproduction.fitting_code import FITTED, called, needs_fitting
from bnaudit.reproduction.loading_code import Loading, loading
from bnaudit.reproduction.model_source import ModelSource
from bnaudit.reproduction.quoted import Call, literal, prose
from bnaudit.reproduction.variation_code import VariationCode
from bnaudit.session import NotPossibleError


class ExplainedScript(NamedTuple):
    """The text and the two files that it reads."""

    text: str
    inputs: dict[str, NDArray[Any]]
    production: dict[str, NDArray[Any]]


def explained_script(
    found: Explanation, source: ModelSource, other: ModelSource | None, part: Part, folder: Path, runner: str
) -> ExplainedScript:
    """`other`: how the other part is loaded, where production loaded that one.

    Raises NotPossibleError where a graph would have to be changed.
    """
    graph = source.carrier is Carrier.GRAPH
    variation = found.hypothesis.variation
    if graph and (variation.layers or variation.dtype):
        what = f"{found.hypothesis.claim}: a script of onnxruntime alone cannot change the graph so"
        raise NotPossibleError(what, remedy="reproduce it with the PyTorch model")
    code = VariationCode(variation, part)
    wrap = "" if graph else "torch.from_numpy"
    sample, batch = (Call(pool, wrap, some=False) for pool in (found.sample, found.batch))
    loaded = loading(source, folder, evaluates=True, parts=other is not None)
    pieces = [
        _constants(found, loaded, other),
        loaded.functions.strip("\n"),
        "" if graph else _as_in_production(found, code, other),
        _run(found, batch, graph, source.device),
        _scores(found),
        _main(found, graph, source),
        'if __name__ == "__main__":\n    sys.exit(main())',
    ]
    head = f"{_head(found, runner)}\n\n{_imports(loaded)}\n\n"
    text = head + "\n\n\n".join(piece for piece in pieces if piece) + "\n"
    return ExplainedScript(text, dict(sample.arrays), {**batch.arrays, **code.arrays})


def _head(found: Explanation, runner: str) -> str:
    said = textwrap.wrap(prose(f"Why production's scores differ: {found.hypothesis.claim}."), 100)
    lines = [
        f'"""{said[0]}',
        *said[1:],
        "",
        "    python repro.py",
        "",
        "exits with 1 while eval as saved does not give the observed scores, 0 when it does, 2 when the model",
        "cannot be found. Put production's new scores of this sample into OBSERVED to see whether it is mended.",
        f"Found by bnaudit {__version__}, {prose(runner)}.",
        '"""',
    ]
    return "\n".join(lines)


def _imports(loaded: Loading) -> str:
    standard = sorted(name for name in loaded.imports if name in ("hashlib", "importlib", "sys"))
    others = sorted(name for name in loaded.imports if name not in standard)
    lines = [f"import {name}" for name in standard]
    return "\n".join([*lines, "from pathlib import Path", "", *(f"import {name}" for name in others)])


def _constants(found: Explanation, loaded: Loading, other: ModelSource | None) -> str:
    observed = [float(value) for value in found.observed]
    values = textwrap.fill(
        ", ".join(_number(value) for value in observed), 96, initial_indent="    ", subsequent_indent="    "
    )
    floor = f"FLOOR = {found.floor:.3g}  # what the precision of the observed scores leaves of a residual"
    lines = ["HERE = Path(__file__).resolve().parent", *loaded.constants, "", "OBSERVED = [", f"{values},", "]", floor]
    lines.append(f"ROW = {found.row}  # of production.npz, the batch that production ran")
    if other is not None:
        lines.append(
            f"OTHER_HEAD = {literal(other.head)}  # what the names of the part that production loaded begin with"
        )
    return "\n".join(lines)


def _number(value: float) -> str:
    return 'float("nan")' if np.isnan(value) else repr(value)


def _as_in_production(found: Explanation, code: VariationCode, other: ModelSource | None) -> str:
    load = "    model = load()" if other is None else "    model = load(OTHER_HEAD)"
    body = "\n".join([load, *code.lines, "    return model"])
    return f'''@torch.no_grad()
def as_in_production():
    """What production did: {prose(found.hypothesis.claim)}."""
{body}'''


def _run(found: Explanation, call: Call, graph: bool, device: str) -> str:
    if graph:
        return f'''def run(model, file):
    """The output that was observed, on the batch in this file."""
    data = np.load(HERE / file)
{call.lines}
    names = [each.name for each in model.get_inputs() if each.name not in kwargs]
    return model.run(None, {{**dict(zip(names, args)), **kwargs}})[{found.scoring.output}].astype(np.float64)'''
    fits = bool(found.hypothesis.variation.dtype) or needs_fitting(found.compute_dtype, device)
    fitting, to_array = called(fits)
    return f'''{FITTED if fits else ""}def leaves(value):
    """Every tensor that the model returned, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)
    elif hasattr(value, "values"):
        yield from leaves(list(value.values()))


@torch.no_grad()
def run(model, file):
    """The output that was observed, on the batch in this file."""
    data = np.load(HERE / file)
{call.lines}
{fitting}    return list(leaves(model(*args, **kwargs)))[{found.scoring.output}]{to_array}'''


_FORMS = {
    "as returned": "",
    "softmax": "    scores = np.exp(scores - scores.max())\n    scores = scores / scores.sum()\n",
    "sigmoid": "    scores = 1 / (1 + np.exp(-scores))\n",
    "labels": "    scores = np.array([scores.argmax()])\n",
    "signs": "    scores = (scores[:1] > 0) * 1.0\n",
    "halves": "    scores = (scores[:1] > 0.5) * 1.0\n",
}


def _scores(found: Explanation) -> str:
    scoring = found.scoring
    form = _FORMS[scoring.form]
    columns = f"    scores = scores[{list(scoring.columns)}]\n" if scoring.columns is not None else ""
    take = "[row]" if scoring.axis == 0 else f".take(row, axis={scoring.axis})"
    return f'''def scores_of(output, row):
    """One row of the output in the form in which scores were observed: {prose(scoring.said)}."""
    scores = output{take}.ravel()
{form}{columns}    return scores


def residual(scores):
    """Root mean square of (observed - computed), over what was observed."""
    return np.sqrt(np.nanmean((np.array(OBSERVED) - scores) ** 2))'''


def _main(found: Explanation, graph: bool, source: ModelSource) -> str:
    model = "load()" if graph else "as_in_production()"
    notice = "    notice()\n" if source.file is not None else ""
    return f"""def main():
{notice}    as_saved = scores_of(run(load(), "inputs.npz"), 0)
    in_production = scores_of(run({model}, "production.npz"), ROW)
    print(f"observed:             {{np.array(OBSERVED)[:4]}}")
    print(f"eval as saved:        {{as_saved[:4]}}, residual {{residual(as_saved):.2g}}")
    print(f"as the cause has it:  {{in_production[:4]}}, residual {{residual(in_production):.2g}}")
    print(f"the precision of the observed scores leaves {{FLOOR:.2g}}")
    if residual(as_saved) <= {FLOOR_FACTOR:g} * FLOOR:
        print("mended: the observed scores are those of eval as saved")
        return 0
    if residual(in_production) <= {FLOOR_FACTOR:g} * FLOOR:
        print({literal(_claim(found))})
    else:
        print("the observed scores are neither: the cause is another one now")
    return 1"""


def _claim(found: Explanation) -> str:
    from bnaudit.printable import printable

    return f"explained: {printable(found.hypothesis.claim)}"
