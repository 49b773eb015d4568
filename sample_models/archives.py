"""Rewrites saved files so that they hold no paths of the machine that made them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

ALIGNMENT = 64
LOCAL_HEADER = 30


def rewrite_zip(path: Path, edit: Callable[[str, bytes], bytes | None]) -> None:
    """Replace every member by `edit(name without the root folder, bytes)`; None leaves it out.

    Keeps order, compression and PyTorch's alignment of stored members.
    """
    with zipfile.ZipFile(path) as old:
        members = [(info, old.read(info)) for info in old.infolist()]
    with zipfile.ZipFile(path, "w") as new:
        for info, data in members:
            edited = edit(info.filename.partition("/")[2], data)
            if edited is not None:
                new.writestr(_aligned(info, new.start_dir), edited)


def _aligned(old: zipfile.ZipInfo, offset: int) -> zipfile.ZipInfo:
    new = zipfile.ZipInfo(old.filename)
    new.compress_type = old.compress_type
    if old.compress_type == zipfile.ZIP_STORED:
        start = offset + LOCAL_HEADER + len(old.filename.encode()) + 4
        padding = -start % ALIGNMENT
        new.extra = b"FB" + padding.to_bytes(2, "little") + b"Z" * padding
    return new


def drop_debug_files(path: Path) -> None:
    """TorchScript: leave out the tables that map code to source files."""
    rewrite_zip(path, lambda name, data: None if name.endswith(".debug_pkl") else data)


def drop_stack_traces(path: Path) -> None:
    """torch.export archives: leave the stack trace out of every node's metadata."""
    rewrite_zip(path, lambda name, data: without_traces(data) if name == "models/model.json" else data)


def without_traces(document: bytes) -> bytes:
    """The JSON document of an exported program without the stack traces of its nodes."""
    program = json.loads(document)
    for node in program["graph_module"]["graph"]["nodes"]:
        node["metadata"].pop("stack_trace", None)
    return json.dumps(program).encode()
