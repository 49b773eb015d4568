"""The README's commands of `bnaudit compare` run and end as their comments say."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest
from test_readme import README, ROOT, section

TEXT = README.read_text(encoding="utf-8")


def commands() -> list[tuple[str, str]]:
    """(command line, its comment)."""
    lines = section(TEXT, "compare").splitlines()
    return [(line.partition(" # ")[0], line.partition(" # ")[2]) for line in lines if line.startswith("bnaudit ")]


@pytest.mark.parametrize(("command", "comment"), commands(), ids=[command for command, _ in commands()])
def test_a_command_runs_and_says_what_its_comment_says(command: str, comment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bnaudit", *shlex.split(command)[1:], "--format", "json"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    (artifact,) = json.loads(done.stdout)["artifacts"]
    comparison = artifact["comparison"]
    assert comparison["compared"] and comparison["conclusion"]
    said = "; ".join(comparison["conclusion"])
    assert all(word.strip() in said for word in comment.split(",")), said
    assert ("--inputs" in command) == (comparison["run"] is not None or comparison["round_trip"] is not None)
    assert not artifact["run_failed"]


def test_the_commands_show_every_use() -> None:
    every = [command for command, _ in commands()]
    assert any("#" in command for command in every) and any("--roundtrip" in command for command in every)
    assert any("--model" in command and "--roundtrip" not in command for command in every)
