"""Opens a file of observed scores: by its suffix, compressed or not."""

from __future__ import annotations

from pathlib import Path

from bnaudit.errors import BnauditError, UnreadableError, UsageError
from bnaudit.observed.arrays import array_table
from bnaudit.observed.csv_tables import csv_table
from bnaudit.observed.json_tables import json_table
from bnaudit.observed.tables import MOST_BYTES, Table

_GIVE = "give .npz, .npy, .csv or .jsonl"
_TEXTS = {".csv": csv_table, ".tsv": csv_table, ".txt": csv_table, ".jsonl": json_table, ".json": json_table}
_TEXTS[".ndjson"] = json_table
_ARRAYS = (".npy", ".npz")


def table(path: Path) -> Table:
    """The columns of a file.

    Raises UsageError for a file that is not there or of another kind, UnreadableError for one that cannot be read.
    """
    suffix = Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()
    where = f"--observed {path}"
    if path.is_dir():
        raise UsageError("a folder holds no observed scores", where=where, remedy=_GIVE)
    if suffix not in _TEXTS and (suffix not in _ARRAYS or path.suffix.lower() == ".gz"):
        raise UsageError(f"scores cannot be read from a {suffix or 'file without a suffix'}", where=where, remedy=_GIVE)
    if not path.is_file():
        raise UsageError("there is no such file of observed scores", where=where, remedy="check the path")
    try:
        if path.stat().st_size == 0:
            raise UnreadableError("the file of observed scores is empty", where=path.name, remedy="save it again")
        if suffix in _ARRAYS:
            return array_table(path)
        return _TEXTS[suffix](_text(path), path.name)
    except BnauditError:
        raise
    except (OSError, EOFError) as error:
        why = getattr(error, "strerror", None) or str(error)
        what = f"the observed scores cannot be read: {why}"
        raise UnreadableError(what, where=path.name, remedy="check the file") from error
    except (MemoryError, RecursionError) as error:
        what = "the observed scores are too large or too deeply nested to be read"
        raise UnreadableError(what, where=path.name, remedy="give fewer rows") from error


def _text(path: Path) -> str:
    """The whole text: UTF-8 with or without a byte order mark, or UTF-16 with one."""
    with path.open("rb") as file:
        held = file.read(MOST_BYTES + 1)
    if held[:2] == b"\x1f\x8b":
        held = _unpacked(path)
    if len(held) > MOST_BYTES:
        what = f"the observed scores are more than {MOST_BYTES // 2**20} MB of text"
        raise UnreadableError(what, where=path.name, remedy="give fewer rows, or save them as .npz")
    encoding = "utf-16" if held[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return held.decode(encoding)
    except UnicodeDecodeError as error:
        line = held[: error.start].count(b"\n") + 1
        what = f"the text is not {'UTF-16' if encoding == 'utf-16' else 'UTF-8'}: byte 0x{held[error.start]:02x}"
        raise UnreadableError(what, where=f"{path.name}, line {line}", remedy="save it as UTF-8") from error


def _unpacked(path: Path) -> bytes:
    import gzip
    import zlib

    try:
        with gzip.open(path) as file:
            return file.read(MOST_BYTES + 1)
    except (zlib.error, EOFError, gzip.BadGzipFile) as error:
        what = f"the compressed file is damaged: {error}"
        raise UnreadableError(what, where=path.name, remedy="copy or save the file again") from error
