"""What the README says of workflows, pre-commit and pytest is valid, names what exists, and runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_github_action import DOCUMENT, validate
from test_pre_commit_hooks import HOOKS
from test_readme import README, ROOT, section


def block(name: str, language: str) -> str:
    found = re.fullmatch(rf"```{language}\n(.*)```\n", section(README.read_text(encoding="utf-8"), name), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_workflow_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "workflow.yml"
    path.write_text(block("workflow", "yaml"), encoding="utf-8")
    validate(path, "vendor.github-workflows")


def test_the_workflow_gives_the_action_what_it_takes() -> None:
    workflow: Any = yaml.safe_load(block("workflow", "yaml"))
    (job,) = workflow["jobs"].values()
    (step,) = (each for each in job["steps"] if "bnaudit" in each["uses"])
    folder = re.fullmatch(r"OWNER/bnaudit/(\S+)@v[0-9.]+", step["uses"])
    assert folder is not None and (ROOT / folder[1] / "action.yml").is_file()
    assert set(step["with"]) <= set(DOCUMENT["inputs"])
    assert workflow["permissions"]["security-events"] == "write"


def test_the_hooks_exist(tmp_path: Path) -> None:
    text = block("pre-commit", "yaml")
    (repository,) = yaml.safe_load(text)["repos"]
    assert {hook["id"] for hook in repository["hooks"]} == set(HOOKS)
    pytest.importorskip("pre_commit", reason="pre-commit checks configurations")
    path = tmp_path / ".pre-commit-config.yaml"
    path.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pre_commit", "validate-config", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_test_passes(tmp_path: Path) -> None:
    path = tmp_path / "test_readme_sample.py"
    path.write_text(block("pytest", "python"), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(path)]
    done = subprocess.run([*command, "-c", os.devnull], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout
