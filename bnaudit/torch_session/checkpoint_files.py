"""The tensors of a checkpoint by their full names, whatever kind of file holds them; nothing in it is executed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn

from bnaudit.errors import NotAuditedError, UnreadableError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.folders.weight_index import read_index
from bnaudit.torch_session.failures import first_line
from bnaudit.torch_session.pickled import unpickled, unpickled_arrays

Tensors = dict[str, torch.Tensor]

_DEEPEST = 12
_GLOBAL = re.compile(r"(?:GLOBAL|global:?|class(?: type)?) ([\w.]+\.[\w.]+)")
WEIGHT_FILES = (
    "model.safetensors",
    "diffusion_pytorch_model.safetensors",
    "open_clip_model.safetensors",
    "adapter_model.safetensors",
    "pytorch_model.bin",
    "diffusion_pytorch_model.bin",
    "adapter_model.bin",
)
"""What weights are called in the folders of Hugging Face's libraries."""
INDEX = ".index.json"
_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""How files of torch.save before PyTorch 1.6 begin: a pickle of its magic number."""
_TRUST = "--trust-pickle unpickles it, which executes whatever the file says"


def checkpoint_tensors(path: Path, *, trusted: bool) -> Tensors:
    """Every tensor of a file, a sharded checkpoint or a Hugging Face folder: `state_dict.layer1.weight` → tensor.

    `trusted`: classes in a pickle may be unpickled. Raises UnreadableError and NotAuditedError.
    """
    if (path / ".metadata").is_file():
        return _distributed(path, trusted)
    if path.is_dir():
        return _folder(path, trusted)
    if path.name.endswith(INDEX):
        return _sharded(path, trusted)
    return _file(path, trusted)


def _file(path: Path, trusted: bool) -> Tensors:
    head = _head(path)
    if path.suffix == ".npz" or (head.startswith(b"PK") and path.suffix not in _TORCH and _is_npz(path)):
        return _npz(path)
    if head[8:9] == b"{":
        return _safetensors(path)
    if head.startswith(b"\x80") and not head.startswith(_LEGACY):
        return dict(_flattened(_plain(path, trusted), ""))
    return dict(_flattened(_loaded(path, trusted, is_zip=head.startswith(b"PK")), ""))


_TORCH = (".pt", ".pth", ".ckpt", ".bin", ".tar")


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(16)
    except OSError as error:
        raise UnreadableError(f"{path} cannot be opened", where=str(error.strerror), remedy="check the path") from error


def _is_npz(path: Path) -> bool:
    try:
        with np.load(path) as arrays:
            return bool(arrays.files)
    except (OSError, ValueError):
        return False


def _npz(path: Path) -> Tensors:
    with np.load(path, allow_pickle=False) as arrays:
        return {
            name: torch.from_numpy(np.array(arrays[name]))
            for name in arrays.files
            if arrays[name].dtype.kind in "biufc"
        }


def _safetensors(path: Path) -> Tensors:
    try:
        from safetensors.torch import load_file

        found: Tensors = load_file(path)
        return found
    except Exception as error:
        raise UnreadableError(f"safetensors refused the file: {first_line(error)}", where=path.name) from error


def _plain(path: Path, trusted: bool) -> object:
    """A pickle that torch.save did not write, mostly of NumPy arrays."""
    if not trusted:
        raise UnreadableError("the checkpoint is a pickle that torch cannot load", where=path.name, remedy=_TRUST)
    return unpickled_arrays(path)


def _loaded(path: Path, trusted: bool, *, is_zip: bool) -> object:
    if trusted:
        return unpickled(path, "cpu")
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except Exception as error:
        named = _GLOBAL.search(str(error))
        if "weights_only" in str(error) or "Weights only" in str(error):
            which = f"objects of class {named.group(1)}" if named else "more than tensors"
            remedy = "--trust-pickle unpickles them, which executes whatever the file says"
            raise UnreadableError(f"the checkpoint holds {which}", where=path.name, remedy=remedy) from error
        raise UnreadableError(f"torch.load refused the checkpoint: {first_line(error)}", where=path.name) from error


def _sharded(path: Path, trusted: bool) -> Tensors:
    with ByteSource.open(path) as source:
        index = read_index(source)
    found: Tensors = {}
    for shard in index.shards:
        found.update(_file(path.parent / shard, trusted))
    return found


def _distributed(path: Path, trusted: bool) -> Tensors:
    """A folder of torch.distributed.checkpoint; torch unpickles its metadata."""
    if not trusted:
        raise UnreadableError("the metadata of the folder are a pickle", where=path.name, remedy=_TRUST)
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    with TemporaryDirectory() as folder:
        whole = Path(folder) / "whole.pt"
        try:
            dcp_to_torch_save(path, whole)
        except Exception as error:
            raise UnreadableError(f"torch refused the folder: {first_line(error)}", where=path.name) from error
        return dict(_flattened(_loaded(whole, trusted, is_zip=False), ""))


def _folder(path: Path, trusted: bool) -> Tensors:
    names = sorted(entry.name for entry in path.iterdir())
    for name in WEIGHT_FILES:
        if name in names:
            return _file(path / name, trusted)
        if f"{name}{INDEX}" in names:
            return _sharded(path / f"{name}{INDEX}", trusted)
    raise NotAuditedError(
        "no weights in the folder can be loaded into a model", where=path.name, remedy="give the checkpoint itself"
    )


def _flattened(value: object, path: str, depth: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors under their dotted path, as the reader of checkpoints names them."""
    if isinstance(value, torch.Tensor):
        yield path, value
        return
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        yield path, torch.from_numpy(value.copy())
        return
    if isinstance(value, nn.Module):
        value = value.state_dict()
    if depth > _DEEPEST:
        return
    for key, item in _entries(value):
        yield from _flattened(item, f"{path}.{key}" if path else str(key), depth + 1)


def _entries(value: Any) -> Iterator[tuple[object, object]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, (list, tuple)):
        yield from enumerate(value)
    elif isinstance(getattr(value, "__dict__", None), dict):
        yield from vars(value).items()
