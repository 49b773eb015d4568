"""Observed scores in NumPy's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bnaudit.errors import BnauditError, UnreadableError
from bnaudit.observed.tables import MOST_VALUES, Table

_MOST_BYTES = 2**30
_PICKLED = ("allow_pickle", "Python objects", "pickled", "Object arrays")


def array_table(path: Path) -> Table:
    """The columns of a .npy (one array, or one with named fields) or .npz (an array for each).

    Raises UnreadableError for a damaged file, Python objects, and arrays of different numbers of rows.
    """
    import numpy as np

    try:
        if path.stat().st_size > _MOST_BYTES:
            raise _too_large(path)
        found = np.load(path, allow_pickle=False)
        arrays = _of_archive(found, path) if hasattr(found, "files") else _of_array(found)
    except BnauditError:
        raise
    except Exception as error:
        raise _refusal(path, error) from error
    return Table(path.name, arrays, _rows(arrays, path), has_names=list(arrays) != [""])


def _of_archive(archive: Any, path: Path) -> dict[str, Any]:
    with archive:
        if sum(entry.file_size for entry in archive.zip.infolist()) > _MOST_BYTES:
            raise _too_large(path)
        return {name: archive[name] for name in archive.files}


def _of_array(array: Any) -> dict[str, Any]:
    return {"": array} if array.dtype.names is None else {name: array[name] for name in array.dtype.names}


def _rows(arrays: dict[str, Any], path: Path) -> int:
    """What all arrays but `columns` have in common."""
    if not arrays:
        raise UnreadableError("the archive holds no array", where=path.name, remedy="save it again")
    for name, array in arrays.items():
        what = f"the array {name!r}" if name else "the array"
        if array.dtype.kind not in "fiubUSMm":
            raise UnreadableError(f"{what} holds no numbers but {array.dtype}", where=path.name, remedy="save numbers")
        if array.ndim == 0:
            raise UnreadableError(f"{what} is one value and has no rows", where=path.name, remedy="save an array")
        if array.size > MOST_VALUES:
            raise _too_large(path)
    lengths = {name: array.shape[0] for name, array in arrays.items() if name != "columns"}
    if len(set(lengths.values())) > 1:
        what = "the arrays have different numbers of rows: " + ", ".join(f"{n} {k}" for n, k in lengths.items())
        raise UnreadableError(what, where=path.name, remedy="save one row for each observation in every array")
    rows = next(iter(lengths.values()), 0)
    if not rows:
        raise UnreadableError("there is no observation", where=path.name, remedy="save at least one row")
    return rows


def _too_large(path: Path) -> UnreadableError:
    return UnreadableError("the observed scores are too many", where=path.name, remedy="give fewer rows")


def _refusal(path: Path, error: Exception) -> UnreadableError:
    if type(error).__name__ == "BadZipFile":  # NumPy opens archives; the readers of models import no zipfile
        what = "the zip archive is cut off or broken"
        return UnreadableError(what, where=path.name, remedy="copy or save the file again")
    text = str(error)
    if any(word in text for word in _PICKLED):
        what = "the observed scores hold Python objects, which would have to be unpickled"
        return UnreadableError(what, where=path.name, remedy="save plain arrays of numbers")
    why = " ".join(f"{type(error).__name__}: {error}".split())[:160]
    return UnreadableError(f"the observed scores cannot be read: {why}", where=path.name, remedy="save the file again")
