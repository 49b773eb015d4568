"""The index of a sharded checkpoint: which file holds which tensor (`model.safetensors.index.json`)."""

from __future__ import annotations

from bnaudit.errors import MalformedError, UnsafePathError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.json_text import as_object, parse_json


class WeightIndex:
    """`files` gives the file of every tensor; `shards` are the files in the order in which they are first named."""

    __slots__ = ("files", "shards")

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files
        self.shards = tuple(dict.fromkeys(files.values()))


def read_index(source: ByteSource) -> WeightIndex:
    """Read an index.

    Raises MalformedError when it has no weight_map from names to files, UnsafePathError when a file name leads out
    of the folder.
    """
    weight_map = as_object(as_object(parse_json(source), source.name).get("weight_map"), f"weight_map of {source.name}")
    files: dict[str, str] = {}
    for name, file in weight_map.items():
        if not isinstance(file, str):
            raise MalformedError("a tensor without a file name", where=f"{source.name}, {name[:80]}")
        files[name] = file
    for file in set(files.values()):
        _check(file, source.name)
    if not files:
        raise MalformedError("the index names no tensor", where=source.name)
    return WeightIndex(files)


def _check(file: str, index: str) -> None:
    if file in ("", ".", "..") or any(character in file for character in '/\\:\0"<>|*?\n'):
        raise UnsafePathError(
            f"the index refers to {file[:80]!r}, which is not a file beside it",
            where=index,
            remedy="do not trust this index",
        )
