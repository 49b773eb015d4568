from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from new_rule import ROOT, next_free, write_skeletons

UNWRITTEN = "\u2039"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the package, and of what the registry tests need."""
    shutil.copytree(ROOT / "bnaudit", tmp_path / "bnaudit", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests" / "rules").mkdir(parents=True)
    for name in ("conftest.py", "builders.py", "rules/test_registry.py"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests" / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def test_the_skeletons_fail_until_they_are_written_and_then_fit_the_registry(project: Path) -> None:
    rule, tests = write_skeletons(project, "BN198", "some-defect")
    assert (rule.name, tests.name) == ("bn198_some_defect.py", "test_bn198_some_defect.py")
    failing = run(project, "tests/rules/test_bn198_some_defect.py")
    assert failing.returncode == 1 and "3 failed" in failing.stdout, failing.stdout

    condition = 'raise NotImplementedError("‹the condition›")'
    written = rule.read_text(encoding="utf-8").replace(condition, "return layer.eps == 0.5")
    rule.write_text(re.sub("‹[^›]*›", "Some words on it.", written), encoding="utf-8")
    given = tests.read_text(encoding="utf-8").replace('batch_norm("bn1")', 'batch_norm("bn1", eps=0.5)')
    tests.write_text(re.sub(r" +pytest\.fail\(.*\)\n", "", given), encoding="utf-8")
    done = run(project, "tests/rules", "-k", "bn198 or unique")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("id", "name", "said"),
    [
        ("", "", "no rule id"),
        ("bn198", "some-defect", "no rule id"),
        ("BN1198", "some-defect", "no rule id"),
        ("BN198", "", "no rule name"),
        ("BN198", "Some-Defect", "no rule name"),
        ("BN198", "defect", "no rule name"),
        ("BN198", "../../some-defect", "no rule name"),
        ("BN198", "avoid-some-defect", "allow some-defect"),
        ("BN101", "some-defect", "BN101 is taken by missing-running-buffers"),
        ("BN198", "missing-running-buffers", "a rule named missing-running-buffers already"),
    ],
)
def test_ids_and_names_that_no_rule_may_have_are_refused_in_one_sentence(
    project: Path, id: str, name: str, said: str
) -> None:
    before = sorted(project.rglob("*"))
    with pytest.raises(SystemExit) as refused:
        write_skeletons(project, id, name)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert sorted(project.rglob("*")) == before


def test_the_next_free_number_is_in_the_same_family() -> None:
    assert next_free("BN101", {"BN101", "BN102", "BN104"}) == "BN103"
    assert next_free("BN205", {"BN205"}) == "BN201"


def test_no_rule_and_no_test_of_one_is_left_unwritten() -> None:
    for folder in (ROOT / "bnaudit" / "rules", ROOT / "tests" / "rules"):
        for path in folder.glob("*.py"):
            assert UNWRITTEN not in path.read_text(encoding="utf-8"), path


def test_the_makefile_runs_it() -> None:
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nnew-rule:")[2].partition("\n\n")[0]
    assert 'tests/new_rule.py "$(ID)" "$(NAME)"' in recipe
