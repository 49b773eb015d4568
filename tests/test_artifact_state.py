from __future__ import annotations

import os
from pathlib import Path

import pytest

from bnaudit.artifact_state import neighbours, settings_digest, state
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def digest(model: str, inputs: str | None = None) -> str:
    return settings_digest(Settings(run=RunOptions(model=model, inputs=inputs)))


@pytest.mark.parametrize(
    ("model", "file"),
    [
        ("net.py:build", "net.py"),
        ("net.py:build", "layers.py"),
        ("net:build", "net.py"),
        ("package.net:build", "package/net.py"),
        ("package.net:build", "package/layers.py"),
        ("package:build", "package/__init__.py"),
    ],
)
def test_settings_change_with_the_code_that_they_name(
    model: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("net.py", "layers.py", "package/__init__.py", "package/net.py", "package/layers.py"):
        write(tmp_path / name, "def build(): ...\n")
    before = digest(model)
    assert digest(model) == before
    write(tmp_path / file, "def build(): return None\n")
    assert digest(model) != before


def test_a_callable_of_inputs_counts_and_a_module_that_is_not_there_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "data.py", "def batches(): ...\n")
    before = digest("nowhere.net:build", "data:batches")
    write(tmp_path / "data.py", "def batches(): return []\n")
    assert digest("nowhere.net:build", "data:batches") != before


@pytest.mark.parametrize("name", ["weights.bin", "weights/part.bin"])
def test_what_a_file_refers_to_may_stand_beside_it_or_in_a_folder_there(name: str, tmp_path: Path) -> None:
    graph = write(tmp_path / "graph.onnx", "x")
    write(tmp_path / name, "1")
    before = neighbours(graph)
    assert neighbours(graph) == before
    write(tmp_path / name, "12")
    assert neighbours(graph) != before


def test_a_folder_is_looked_at_to_any_depth_and_its_reports_are_not(tmp_path: Path) -> None:
    deep = write(tmp_path / "a" / "b" / "c" / "w.bin", "1")
    before = state(tmp_path, "")
    write(tmp_path / "results.jsonl", "{}")
    assert state(tmp_path, "") == before
    os.utime(deep, (1, 1))
    assert state(tmp_path, "") != before
