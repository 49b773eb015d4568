"""The README's commands of `bnaudit triage` run and end as their comments say."""

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
    lines = section(TEXT, "triage").splitlines()
    return [(line.partition(" # ")[0], line.partition(" # ")[2]) for line in lines if line.startswith("bnaudit ")]


@pytest.mark.parametrize(("command", "comment"), commands(), ids=[str(i) for i in range(len(commands()))])
def test_a_command_runs_and_concludes_what_its_comment_says(command: str, comment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bnaudit", *shlex.split(command)[1:], "--format", "json"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        check=False,
    )
    diagnosis = json.loads(done.stdout)
    assert diagnosis["conclusion"] == comment.strip()
    assert done.returncode == diagnosis["exit_code"] == (0 if comment.strip().startswith("the scores are") else 1)
    assert (diagnosis["forwards"] > 0) == ("--inputs" in command)


def test_the_table_names_every_conclusion() -> None:
    from bnaudit.diagnosis import Conclusion

    said = TEXT.partition("## Triage")[2].partition("\n## ")[0].replace("*", "")
    for conclusion in Conclusion:
        assert conclusion.value in said, conclusion
