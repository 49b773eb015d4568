"""The part of a script that loads the model, as a careful colleague would write it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from bnaudit.description import Carrier
from bnaudit.reproduction.model_source import ModelSource
from bnaudit.reproduction.quoted import literal, place
from bnaudit.user_code import package_of


class Loading(NamedTuple):
    """Pieces of a script."""

    imports: tuple[str, ...]
    constants: tuple[str, ...]
    functions: str


def loading(source: ModelSource, folder: Path, *, evaluates: bool, parts: bool = False) -> Loading:
    """`evaluates`: the model is put into eval mode, as it is judged in. `parts`: load() can load another part."""
    if source.carrier is Carrier.GRAPH:
        return _graph(source, folder)
    return _torch(source, folder, evaluates, parts)


_FIND = '''
def there(path):
    """The path; without the file there is nothing to show."""
    if not path.exists():
        print(f"{path} is not there: change its path at the top of {__file__}", file=sys.stderr)
        raise SystemExit(2)
    return path
'''
_NOTICE = '''
def notice():
    """Say it when the file is not the one that the defect was found in. It may be the mended one."""
    if hashlib.sha256(there(MODEL).read_bytes()).hexdigest() != DIGEST:
        print(f"{MODEL.name} has changed since the defect was found in it")
'''


def _graph(source: ModelSource, folder: Path) -> Loading:
    assert source.file is not None
    libraries = "".join(
        f"    options.register_custom_ops_library(str(there({place(Path(library), folder)})))\n"
        for library in source.custom_ops
    )
    functions = f'''{_FIND}
{_NOTICE}

def load():
    """The graph as it is now, computed as written: without optimizations."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
{libraries}    return onnxruntime.InferenceSession(str(there(MODEL)), options, providers=["CPUExecutionProvider"])
'''
    constants = (f"MODEL = {place(source.file, folder)}", f"DIGEST = {literal(source.digest)}")
    return Loading(("hashlib", "sys", "numpy as np", "onnxruntime"), constants, functions)


def _torch(source: ModelSource, folder: Path, evaluates: bool, parts: bool) -> Loading:
    imports = ["sys", "numpy as np", "torch"]
    constants, functions = [], _FIND
    if source.file is not None:
        imports.insert(0, "hashlib")
        constants += [f"MODEL = {place(source.file, folder)}", f"DIGEST = {literal(source.digest)}"]
        functions += f"\n{_NOTICE}"
    lines: list[str] = []
    if source.code:
        imports.insert(0, "importlib")
        constants += _code_constants(source, folder)
        lines += _built(source)
        if source.file is not None:
            functions += _checkpoint(source)
            lines += ["    read_into(model, head)" if parts else "    read_into(model)"]
    else:
        lines += _whole(source)
        if source.carrier is Carrier.MODULE:
            constants.append(f"CODE = {place(Path.cwd(), folder)}  # where the classes of the pickle are imported from")
    if source.device != "cpu":
        lines.append(f"    model.to({literal(source.device)})")
    lines.append("    model.eval()" if evaluates else "    # eval() is not called: this is the mode that it comes in")
    if source.carrier is Carrier.PROGRAM or (source.carrier is Carrier.SCRIPT and not evaluates):
        lines[-1] = "    # its modes are in its graph"
    head = "The model as it is now" + (", in eval mode." if lines[-1].strip() == "model.eval()" else ".")
    body = "\n".join([f'def load({"head=HEAD" if parts else ""}):\n    """{head}"""', *lines, "    return model"])
    text = f"{functions}\n\n{body}\n"
    if parts:
        text = text.replace("def read_into(model):", "def read_into(model, head):").replace("len(HEAD)", "len(head)")
        text = text.replace("name.startswith(HEAD)", "name.startswith(head)")
    return Loading(tuple(imports), tuple(constants), text)


def _code_constants(source: ModelSource, folder: Path) -> list[str]:
    where, _, name = source.code.rpartition(":")
    if where.endswith(".py"):
        root, module = package_of(Path(where).expanduser().resolve())
        found = [f"CODE = {place(root, folder)}  # where {_comment(Path(where).name)} is imported from"]
    else:
        module, found = where, [f"CODE = {place(Path.cwd(), folder)}  # where {_comment(where)} is imported from"]
    return [*found, f"FACTORY = {literal(module)}, {literal(name)}"]


def _comment(text: str) -> str:
    return ascii(text)[1:-1]


def _built(source: ModelSource) -> list[str]:
    arguments = f"**{literal(dict(source.arguments))}" if source.arguments else ""
    return [
        "    sys.path.insert(0, str(there(CODE)))",
        "    made = importlib.import_module(FACTORY[0])",
        '    for name in FACTORY[1].split("."):',
        "        made = getattr(made, name)",
        f"    model = made if isinstance(made, torch.nn.Module) else made({arguments})",
    ]


_READS = {
    "torch": 'torch.load(there(MODEL), map_location="cpu", weights_only={safe})',
    "safetensors": "load_file(there(MODEL))",
    "npz": "{{name: torch.from_numpy(array) for name, array in np.load(there(MODEL)).items()}}",
}


def _checkpoint(source: ModelSource) -> str:
    """Tensors by their names in the file, the prefix of the part and of wrappers taken off."""
    read = _READS[source.reads].format(safe=not source.trusted)
    lazily = "    from safetensors.torch import load_file\n\n" if source.reads == "safetensors" else ""
    own = f"{literal(source.added)} + name[len(HEAD) :]" if source.added else "name[len(HEAD) :]"
    return f'''

HEAD = {literal(source.head)}  # what the names in the file have in front


def tensors(value, name=""):
    """Every tensor of the file with its name."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif hasattr(value, "state_dict"):
        yield from tensors(value.state_dict(), name)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from tensors(item, f"{{name}}.{{key}}" if name else str(key))


def read_into(model):
    """Load what the file has of the model's tensors; what it lacks stays as the code makes it."""
{lazily}    found = {read}
    state = {{{own}: tensor for name, tensor in tensors(found) if name.startswith(HEAD)}}
    own = model.state_dict()
    state = {{name: tensor for name, tensor in state.items() if name in own and tensor.shape == own[name].shape}}
    if not state:
        print(f"not one tensor of {{MODEL}} fits into the model", file=sys.stderr)
        raise SystemExit(2)
    model.load_state_dict(state, strict=False)
'''


def _whole(source: ModelSource) -> list[str]:
    if source.carrier is Carrier.SCRIPT:
        return ['    model = torch.jit.load(there(MODEL), map_location="cpu")']
    if source.carrier is Carrier.PROGRAM:
        return ["    model = torch.export.load(there(MODEL)).module()"]
    keys = [f"    model = model[{literal(key)}]" for key in source.part.split(".")] if source.part else []
    return [
        "    sys.path.insert(0, str(CODE))",
        '    model = torch.load(there(MODEL), map_location="cpu", weights_only=False)',
        *keys,
    ]
