"""The README shows what the tool shows. `python tests/test_readme.py` writes the generated sections anew."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import fault_matrix.summary
import pytest
from readme_sections import write_section

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
EXAMPLE = """inspect sample_models/defects/virgin_statistics.pt \\
    --model sample_models/digits.py:build --inputs sample_models/digits.npz"""
COMPARISON = "compare sample_models/compare/trained.pt sample_models/compare/stray_forward.pt"

TRIAGE = "triage --observed sample_models/scores/requests.csv"


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "bnaudit", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def test_the_commands_at_the_top_exist_and_all_that_answer_something_are_there() -> None:
    from bnaudit.plugins import names

    top = README.read_text(encoding="utf-8").partition("## Use")[0]
    shown = re.findall(r"^\| `bnaudit (\w+)", top, re.MULTILINE)
    assert set(shown) == set(names("bnaudit.commands")) - {"baseline", "init", "rules"}


def example() -> str:
    return shown(EXAMPLE)


def comparison() -> str:
    return shown(COMPARISON)


def triage_of_a_log() -> str:
    return shown(TRIAGE)


def shown(command: str) -> str:
    return f"```\n$ bnaudit {command}\n{run(*command.replace(chr(92), '').split())}```\n"


def steady(text: str) -> str:
    """Without the lines on the run: seconds and versions."""
    return re.sub(r"^  run: .*?\n\n", "", text, flags=re.DOTALL | re.MULTILINE)


def rules() -> str:
    return run("rules", "--markdown")


def samples() -> str:
    from sample_models.catalogue import COMPARE, SAMPLES

    rows = ["| file | what it is | found in the file | when it runs |", "|---|---|---|---|"]
    for name, sample in SAMPLES.items():
        if name in COMPARE:
            continue
        found = ", ".join(dict.fromkeys([*(entry.rule for entry in sample.findings), *sample.notes])) or "nothing"
        ran = "" if sample.run is None else ", ".join(entry.rule for entry in sample.run.findings) or "nothing more"
        rows.append(f"| {name} | {sample.about} | {found} | {ran} |")
    rows += ["", "| file | what it is | compared with | found |", "|---|---|---|---|"]
    for name, sample in COMPARE.items():
        against = sample.against
        found = "" if against is None else ", ".join([*(e.rule for e in against.findings), *against.notes]) or "nothing"
        rows.append(f"| {name} | {sample.about} | {'' if against is None else against.baseline} | {found} |")
    return "\n".join(rows) + "\n"


def bench() -> str:
    """Of the figures that `make bench` wrote: no figure is measured here."""
    from bench.against import rendering

    return rendering.markdown(json.loads((ROOT / "tests" / "bench" / "rivals.json").read_text(encoding="utf-8")))


def faults() -> str:
    """Of the figures that `make faults` wrote."""
    told = (ROOT / "tests" / "fault_matrix" / "results.json").read_text(encoding="utf-8")
    return fault_matrix.summary.section(json.loads(told))


SECTIONS = {
    "example": example,
    "comparison": comparison,
    "triage-log": triage_of_a_log,
    "rules": rules,
    "samples": samples,
    "faults": faults,
    "bench": bench,
}


def section(text: str, name: str) -> str:
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", text, re.DOTALL)
    assert found is not None
    return found.group(1)


@pytest.mark.parametrize("name", SECTIONS)
def test_a_generated_section_is_current(name: str) -> None:
    assert steady(section(README.read_text(encoding="utf-8"), name)) == steady(SECTIONS[name]())


def commands() -> list[tuple[str, str]]:
    """(folder, command line) of what the README runs."""
    folder, found = ".", []
    for line in section(README.read_text(encoding="utf-8"), "runs").splitlines():
        for command in line.partition("#")[0].strip().split(" && "):
            if command.startswith("cd "):
                folder = os.path.normpath(Path(folder) / command[3:])
            elif command.startswith("bnaudit "):
                found.append((folder, command))
    return found


@pytest.mark.parametrize(("folder", "command"), commands())
def test_a_command_that_runs_a_model_does_so(folder: str, command: str) -> None:
    script = "from bnaudit.__main__ import main; main()"  # as the installed script, which adds no folder to sys.path
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, *command.split()[1:], "--format", "json"]
        if sys.version_info >= (3, 11)
        else [sys.executable, "-m", "bnaudit", *command.split()[1:], "--format", "json"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=ROOT / folder,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (artifact,) = json.loads(done.stdout)["artifacts"]
    assert artifact["measured"]["forwards"] <= 8
    assert artifact["measured"]["synthetic"] is ("--inputs" not in command)


def test_the_python_of_the_readme_runs() -> None:
    code = section(README.read_text(encoding="utf-8"), "python").replace("```python", "").replace("```", "")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr


def test_every_option_in_the_readme_exists() -> None:
    text = README.read_text(encoding="utf-8")
    commands = (
        "inspect",
        "rules",
        "explain",
        "gate",
        "compare",
        "triage",
        "trace",
        "reproduce",
        "baseline create",
        "init",
    )
    shown = "".join(run(*command.split(), "--help") for command in commands)
    named = set(re.findall(r"bnaudit [^\n#`]*?(--[a-z-]+)", text)) | {"--cap", "--fail-on"}
    assert named
    assert all(option in shown for option in named)


def write() -> None:
    for name, make in SECTIONS.items():
        write_section(README, name, make())


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    write()
