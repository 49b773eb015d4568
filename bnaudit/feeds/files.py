"""Inputs from files: .npy, .npz, .pt and .safetensors, each with the loader that runs no code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bnaudit.errors import BnauditError, UnreadableError, UsageError, not_installed

_GIVE = "give .npy, .npz, .pt, .safetensors, file.py:callable or package.module:callable"


def read(path: Path) -> Any:
    """The arrays of a file: one array, a dict by name, or whatever tree a .pt holds.

    Raises UsageError for a file that is not there or of another kind, UnreadableError for one that cannot be read.
    """
    reader = _READERS.get(path.suffix.lower())
    if path.is_dir() or reader is None:
        kind = "a folder" if path.is_dir() else f"a {path.suffix or 'file without a suffix'}"
        raise UsageError(f"{kind} cannot be read as inputs", where=str(path), remedy=_GIVE)
    if not path.is_file():
        raise UsageError("there is no such file of inputs", where=str(path), remedy=_GIVE)
    if path.stat().st_size == 0:
        raise UnreadableError("the file of inputs is empty", where=str(path), remedy="save it again")
    try:
        return reader(path)
    except BnauditError:
        raise
    except Exception as error:
        lacking = not_installed(error) if isinstance(error, ModuleNotFoundError) else None
        raise lacking or _refusal(path, error) from error


def _refusal(path: Path, error: Exception) -> UnreadableError:
    if type(error).__name__ == "BadZipFile":  # NumPy opens archives; the readers of models import no zipfile
        what = "the zip archive is cut off or broken"
        return UnreadableError(what, where=path.name, remedy="copy or save the file again")
    text = str(error)
    if any(word in text for word in ("allow_pickle", "Python objects", "weights_only", "Weights only")):
        what = "the inputs cannot be read: they hold Python objects, which would have to be unpickled"
        return UnreadableError(what, where=path.name, remedy="save plain arrays or tensors, in tuples or dicts")
    why = f"{type(error).__name__}: {error}".partition("\n")[0]
    return UnreadableError(f"the inputs cannot be read: {why}", where=path.name, remedy="save the file again")


def _npy(path: Path) -> Any:
    """Mapped, so that only the samples which are drawn are read."""
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _npz(path: Path) -> Any:
    with np.load(path, allow_pickle=False) as archive:
        if not archive.files:
            raise UnreadableError("the archive holds no array", where=path.name, remedy="save it again")
        return {name: archive[name] for name in archive.files}


def _pt(path: Path) -> Any:
    import torch

    return torch.load(path, map_location="cpu", weights_only=True)


def _safetensors(path: Path) -> Any:
    """Through NumPy where NumPy has the types, else (bfloat16, eight-bit floats) through torch."""
    try:
        from safetensors.numpy import load_file

        found: dict[str, Any] = load_file(path)
    except (TypeError, KeyError, AttributeError):
        from safetensors.torch import load_file as load_tensors

        found = dict(load_tensors(path))
    if not found:
        raise UnreadableError("the file holds no array", where=path.name, remedy="save it again")
    return found


_READERS: dict[str, Callable[[Path], Any]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".pt": _pt,
    ".pth": _pt,
    ".safetensors": _safetensors,
}
