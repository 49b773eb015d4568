"""Where the model of a script comes from: the user's own code and files, by path."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from bnaudit.description import Carrier, Part
from bnaudit.errors import UsageError
from bnaudit.records import Record
from bnaudit.run_options import RunOptions
from bnaudit.session import NotPossibleError, Session

_WEIGHTS = ("model.safetensors", "diffusion_pytorch_model.safetensors", "pytorch_model.bin")
"""What a folder of Hugging Face's libraries keeps its weights in."""


class ModelSource(Record, eq=False):
    """Everything that a script has to know to load it."""

    carrier: Carrier
    file: Path | None
    """The artifact; None: the model is what the code builds."""
    digest: str = ""
    """SHA-256 of that file when the case was found."""
    reads: str = ""
    """How tensors are read from it: `torch`, `safetensors`, `npz`; "" for what is loaded whole."""
    part: str = ""
    head: str = ""
    """What stands before the names of the part's tensors in the file, wrappers included: `state_dict.module.`"""
    added: str = ""
    """What the model's names have in front of that."""
    trusted: bool = False
    code: str = ""
    """`file.py:callable` or `package.module:callable`."""
    arguments: Mapping[str, object] = {}
    as_is: bool = False
    """eval() is not called: the model is judged in the modes that it comes in."""
    device: str = "cpu"
    custom_ops: tuple[str, ...] = ()


def model_source(path: Path | None, session: Session, options: RunOptions) -> ModelSource:
    """Raises UsageError for a live model, NotPossibleError for a checkpoint that a short script cannot load."""
    if options.model is not None and not isinstance(options.model, str):
        raise UsageError("a script cannot load a live model", remedy="give it as file.py:callable")
    part = session.part
    file = _file(path) if path is not None else None
    is_checkpoint = file is not None and session.carrier is Carrier.MODULE and options.model is not None
    head, added = _prefixes(part) if is_checkpoint else ("", "")
    return ModelSource(
        carrier=session.carrier,
        file=file,
        digest=_digest(file) if file is not None else "",
        reads=_reads(file) if is_checkpoint and file is not None else "",
        part=part.name,
        head=head,
        added=added,
        trusted=options.trust_pickle,
        code=options.model if isinstance(options.model, str) else "",
        arguments=options.model_args,
        as_is=options.as_is,
        device=options.device,
        custom_ops=options.custom_ops,
    )


def _file(path: Path) -> Path:
    if not path.is_dir():
        return path
    found = next((path / name for name in _WEIGHTS if (path / name).is_file()), None)
    if found is None:
        raise _several_files(path)
    return found


def _reads(file: Path) -> str:
    if file.name.endswith(".index.json"):
        raise _several_files(file)
    with file.open("rb") as opened:
        head = opened.read(16)
    if head[8:9] == b"{":
        return "safetensors"
    return "npz" if file.suffix == ".npz" else "torch"


def _several_files(path: Path) -> NotPossibleError:
    what = "a checkpoint of several files is not loaded by a short script"
    return NotPossibleError(what, where=str(path), remedy="save the weights as one file")


def _digest(file: Path) -> str:
    found = hashlib.sha256()
    with file.open("rb") as opened:
        while block := opened.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def _prefixes(part: Part) -> tuple[str, str]:
    """(what the file's names have in front, what the model's have), from the first norm layer that was loaded."""
    local = part.name.rpartition(":")[2]
    start = f"{local}." if local else ""
    for layer in part.layers:
        for tensor in layer.tensors:
            own = f"{layer.name}.{tensor.name.rpartition('.')[2]}" if layer.name else tensor.name
            if tensor.name.endswith(own):
                return start + tensor.name[: len(tensor.name) - len(own)], ""
            if own.endswith(tensor.name):
                return start, own[: len(own) - len(tensor.name)]
    return start, ""
