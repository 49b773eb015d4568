"""The plugin as users have it: pytest in a process of its own, the plugin found through its entry point."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib.metadata import entry_points
from pathlib import Path
from xml.etree import ElementTree

import pytest

SAMPLES = Path(__file__).parent.parent / "sample_models"
ONNX, VIRGIN = SAMPLES / "healthy" / "norms_kept.onnx", SAMPLES / "defects" / "virgin_statistics.pt"
TESTS = f"""
import pytest
import bnaudit as module

def test_healthy(bnaudit):
    bnaudit.assert_deployable({str(ONNX)!r})

def test_virgin(bnaudit):
    bnaudit.assert_deployable({str(VIRGIN)!r}, require="buffers")

def test_with_the_function():
    module.assert_deployable({str(VIRGIN)!r}, require="buffers")

def test_expected(bnaudit):
    with pytest.raises(AssertionError) as raised:
        bnaudit.assert_deployable({str(VIRGIN)!r}, require="buffers")
    assert raised.value.report.worst is bnaudit.Severity.ERROR

def test_fixture_stands_for_the_module(bnaudit):
    assert bnaudit.audit({str(VIRGIN)!r}).exit_code() == 1
    assert bnaudit.describe is module.describe
    with pytest.raises(AttributeError):
        bnaudit.no_such_name
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_models.py").write_text(TESTS, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", ".", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
        check=False,
    )


def test_pytest_finds_the_plugin() -> None:
    (entry,) = entry_points(group="pytest11", name="bnaudit")
    assert entry.value == "bnaudit.pytest_plugin"


def test_a_failure_is_the_report_without_a_traceback(tmp_path: Path) -> None:
    done = run(tmp_path, "--color=yes", f"--junit-xml={tmp_path / 'out.xml'}")
    assert done.returncode == 1 and "2 failed" in done.stdout and "3 passed" in done.stdout
    (case,) = ElementTree.parse(tmp_path / "out.xml").iterfind(".//testcase[@name='test_virgin']")
    text = case.findtext("failure") or ""
    assert text.startswith("not deployable: findings at or above warning")
    assert text.rstrip().endswith("6 errors · exit 1: findings at or above warning")
    assert "virgin-statistics (BN103) in 6 layers" in text and "→ measure the statistics" in text
    assert "Traceback" not in text and "\x1b" not in text and "#x1B" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_function_shows_the_line_of_the_test_and_nothing_of_bnaudit(tmp_path: Path) -> None:
    shown = run(tmp_path, "-k", "function").stdout
    assert ">       module.assert_deployable(" in shown
    assert "deployable.py" not in shown


def test_it_works_in_workers(tmp_path: Path) -> None:
    done = run(tmp_path, "-n", "2")
    assert "2 failed" in done.stdout and "3 passed" in done.stdout
    assert "6 errors · exit 1: findings at or above warning" in done.stdout


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    shown = run(tmp_path, "-p", "no:bnaudit", "-k", "test_healthy").stdout
    assert "fixture 'bnaudit' not found" in shown


def test_it_costs_nothing_unused(tmp_path: Path) -> None:
    (tmp_path / "test_models.py").write_text("", encoding="utf-8")
    code = (
        "import os, sys, pytest; pytest.main(['--collect-only', '-c', os.devnull, '-p', 'no:hypothesispytest'])\n"
        "roots = ('torch', 'numpy', 'rich', 'typer', 'onnx', 'safetensors')\n"
        "print('LOADED', sorted(m for m in sys.modules if m.split('.')[0] in roots or m.startswith('bnaudit')))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "LOADED ['bnaudit', 'bnaudit.pytest_plugin']" in shown.stdout


def test_importing_it_takes_milliseconds() -> None:
    code = (
        "import pytest, time; begin = time.perf_counter(); import bnaudit.pytest_plugin; "
        "print(time.perf_counter() - begin)"
    )
    taken = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(taken) < 0.02


@pytest.fixture
def started() -> float:
    return time.perf_counter()


def test_the_fixture_is_there_in_this_suite_too(bnaudit: object, started: float) -> None:
    assert hasattr(bnaudit, "assert_deployable")
