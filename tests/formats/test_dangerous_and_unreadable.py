"""Pickles that run code and then break off: the error says so, because unpickling would come that far."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import bnaudit
from bnaudit.results import Unaudited

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C


def hostile(canary: Path) -> bytes:
    """The opcodes of `os.mkdir(canary)`, and then one that does not exist."""

    class Payload:
        def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
            return os.mkdir, (str(canary),)

    return pickle.dumps(Payload(), 2)[:-1] + b"\xff"


def zipped(opcodes: bytes) -> bytes:
    """A torch.save archive with this data.pkl."""
    saved = io.BytesIO()
    torch.save({"a": 1}, saved)
    made = io.BytesIO()
    with zipfile.ZipFile(saved) as before, zipfile.ZipFile(made, "w") as after:
        for name in before.namelist():
            after.writestr(name, opcodes if name.endswith("/data.pkl") else before.read(name))
    return made.getvalue()


def legacy(opcodes: bytes) -> bytes:
    """A file of torch's old format with this as its object."""
    return b"".join(pickle.dumps(value, 2) for value in (MAGIC_NUMBER, 1001, {})) + opcodes


def placed(kind: str, opcodes: bytes, folder: Path) -> Path:
    """The opcodes in an artifact of this kind."""
    folder.mkdir()
    if kind == "distributed":
        (folder / ".metadata").write_bytes(opcodes)
        (folder / "__0_0.distcp").write_bytes(b"")
        return folder
    name, data = {
        "pickle": ("m.pkl", opcodes),
        "zip": ("m.pt", zipped(opcodes)),
        "legacy": ("m.pth", legacy(opcodes)),
    }.get(kind, ("m.bin", zipped(opcodes)))
    (folder / name).write_bytes(data)
    if kind == "shards":
        index = folder / "pytorch_model.bin.index.json"
        index.write_text(json.dumps({"weight_map": {"bn.weight": name}}))
        return index
    if kind == "folder":
        (folder / name).rename(folder / "pytorch_model.bin")
        (folder / "config.json").write_text("{}")
        return folder
    return folder / name


def failure(path: Path) -> str:
    """The sentence for the one artifact, which cannot be audited."""
    report = bnaudit.audit(path)
    (entry,) = report.unaudited
    assert isinstance(entry, Unaudited) and entry.error
    return entry.why


@pytest.mark.parametrize("kind", ["pickle", "zip", "legacy", "shards", "folder", "distributed"])
def test_what_breaks_off_after_a_dangerous_call_names_it(kind: str, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    why = failure(placed(kind, hostile(canary), tmp_path / "artifact"))
    assert why.endswith(f"; loading it would also call {os.mkdir.__module__}.mkdir")
    assert "\n" not in why
    assert not canary.exists()


def test_python_comes_that_far(tmp_path: Path) -> None:
    canary, path = tmp_path / "canary", tmp_path / "m.pkl"
    path.write_bytes(hostile(canary))
    code = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))"
    result = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, check=False)
    assert result.returncode != 0
    assert canary.is_dir()


@pytest.mark.parametrize("kind", ["pickle", "zip", "legacy"])
def test_a_whole_pickle_without_a_model_names_it_too(kind: str, tmp_path: Path) -> None:
    opcodes = hostile(tmp_path / "canary")[:-1] + b"."
    more = pickle.dumps([], 2) if kind == "legacy" else b""
    assert "; loading it would also call " in failure(placed(kind, opcodes + more, tmp_path / "artifact"))


@pytest.mark.parametrize(
    ("opcodes", "danger"),
    [
        (b"\x80\x04cos\nenviron\nK\x01K\x02s\xff", "change os.environ"),
        (b"\x80\x04cbuiltins\ngetattr\ncglob\nescape\n\x8c\x0b__globals__\x86R\xff", "reach glob.escape.__globals__"),
        (b"\x80\x04\x8c\x03a\nb\x8c\x0c\x1b.os.system()\x93)R\xff", None),
        (b"\x80\x04\x8c\x03a\nb\x8c\x0b\x1b.os.system\x93)R\xff", "call a\\nb.\\x1b.os.system"),
    ],
)
def test_the_danger_is_named_in_one_clean_line(opcodes: bytes, danger: str | None, tmp_path: Path) -> None:
    why = failure(placed("pickle", opcodes, tmp_path / "artifact"))
    assert why.isprintable()
    assert why.endswith(f"; loading it would also {danger}") if danger else "loading" not in why


@pytest.mark.parametrize("kind", ["pickle", "zip", "legacy"])
def test_a_pickle_that_is_only_broken_is_no_danger(kind: str, tmp_path: Path) -> None:
    harmless = pickle.dumps(torch.nn.BatchNorm1d(2), 2)[:-1] + b"\xff"
    assert "loading" not in failure(placed(kind, harmless, tmp_path / "artifact"))
