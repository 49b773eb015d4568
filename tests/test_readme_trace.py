"""The README's commands of `bnaudit trace` and `bnaudit reproduce` run and do what is said of them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from test_readme import README, ROOT, section

TEXT = README.read_text(encoding="utf-8")


def commands(name: str) -> list[str]:
    return [line for line in section(TEXT, name).splitlines() if line.startswith("bnaudit ")]


def run(command: str, *, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    arguments = [piece.replace("sample_models", str(ROOT / "sample_models")) for piece in shlex.split(command)[1:]]
    return subprocess.run(
        [sys.executable, "-m", "bnaudit", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )


@pytest.mark.parametrize("command", commands("trace"))
def test_a_channel_is_traced(command: str) -> None:
    done = run(command)
    assert done.returncode == 0, done.stderr
    assert "bnaudit.trace/1" in done.stdout or "y = gain · x + shift" in done.stdout
    assert ("What a training step on these inputs would store" in done.stdout) == ("--inputs" in command)


@pytest.mark.parametrize("command", commands("reproduce"))
def test_a_case_is_written_and_shows_the_defect(command: str, tmp_path: Path) -> None:
    done = run(command, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "BN301" in done.stdout
    shown = subprocess.run([sys.executable, "-I", str(tmp_path / "repro" / "repro.py")], check=False)
    assert shown.returncode == 1
