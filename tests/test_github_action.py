"""The composite action: valid, safe from injection, and its scripts do what they say where a runner would run them."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import sample_repositories
import yaml

ROOT = Path(__file__).parent.parent
ACTION = ROOT / ".github" / "actions" / "gate" / "action.yml"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
DOCUMENT = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in DOCUMENT["runs"]["steps"]}
BASH = shutil.which("bash")
with_bash = pytest.mark.skipif(
    BASH is None or sys.platform == "win32", reason="the scripts need bash, and paths as it has them"
)


def validate(path: Path, schema: str) -> None:
    pytest.importorskip("check_jsonschema", reason="check-jsonschema holds the public schemas")
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_action_is_valid() -> None:
    validate(ACTION, "vendor.github-actions")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_the_projects_own_workflows_are_valid(path: Path) -> None:
    validate(path, "vendor.github-workflows")


def test_a_script_never_holds_an_expression() -> None:
    scripts = {name: step["run"] for name, step in STEPS.items() if "run" in step}
    assert scripts
    assert not [name for name, script in scripts.items() if "${{" in script]
    assert all(STEPS[name]["shell"] == "bash" for name in scripts)


def test_only_official_actions_are_used() -> None:
    used = [step["uses"] for step in STEPS.values() if "uses" in step]
    assert used
    assert all(re.fullmatch(r"(actions/[a-z-]+|github/codeql-action/[a-z-]+)@v\d+", name) for name in used)


def test_every_input_is_used_and_every_used_one_is_declared() -> None:
    used = set(re.findall(r"inputs\.([a-z-]+)", ACTION.read_text(encoding="utf-8")))
    assert used == set(DOCUMENT["inputs"])
    assert all(entry["description"] for entry in DOCUMENT["inputs"].values())


class Runner:
    """Runs the scripts of the action as a runner does, with a `bnaudit` and a `python` that note what they get."""

    def __init__(self, folder: Path, tools: Mapping[str, str]) -> None:
        self.folder = folder
        self.output, self.summary = folder / "output", folder / "summary"
        self.output.touch()
        self.summary.touch()
        (folder / "bin").mkdir()
        for name, script in tools.items():
            tool = folder / "bin" / name
            tool.write_text(f"#!{BASH}\n{script}\n", encoding="utf-8")
            tool.chmod(tool.stat().st_mode | stat.S_IEXEC)

    def run(self, step: str, **inputs: str) -> subprocess.CompletedProcess[str]:
        given = {name: entry["default"] for name, entry in DOCUMENT["inputs"].items()}
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        values = {f"inputs.{name}": value for name, value in given.items()}
        values |= {f"steps.gate.outputs.{name}": value for name, value in self.outputs.items()}
        values["github.action_path"] = str(ACTION.parent)
        own = {
            name: re.sub(r"\$\{\{ (\S+) \}\}", lambda found: values.get(found[1], ""), text)
            for name, text in STEPS[step].get("env", {}).items()
        }
        script = self.folder / "step.sh"
        script.write_text(STEPS[step]["run"], encoding="utf-8")
        return subprocess.run(
            [str(BASH), "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            env={
                **os.environ,
                "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
                "GITHUB_OUTPUT": str(self.output),
                "GITHUB_STEP_SUMMARY": str(self.summary),
                "GITHUB_WORKSPACE": str(self.folder),
                "PYTHONPATH": str(ROOT),
                **own,
            },
            cwd=self.folder,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )

    @property
    def outputs(self) -> dict[str, str]:
        lines = self.output.read_text(encoding="utf-8").splitlines()
        return {name: value for name, _, value in (line.partition("=") for line in lines)}

    @property
    def arguments(self) -> list[str]:
        return (self.folder / "arguments").read_text(encoding="utf-8").splitlines()


NOTES = 'printf "%s\\n" "$@" > arguments'


@with_bash
@pytest.mark.parametrize(
    ("inputs", "arguments"),
    [
        ({}, ["--output", "github", "--output=sarif=bnaudit.sarif", "--output=html=bnaudit.html", "--"]),
        ({"sarif": "", "html": ""}, ["--output", "github", "--"]),
        (
            {"sarif": "", "html": "", "paths": "models/\n\n  a model.pt  \n-x.pt\n*.onnx\n"},
            ["--output", "github", "--", "models/", "a model.pt", "-x.pt", "*.onnx"],
        ),
        (
            {"sarif": "", "html": "", "config": "ci/b.toml", "args": "--static\n--require  buffers,eval-mode\n"},
            ["--output", "github", "--config=ci/b.toml", "--static", "--require", "buffers,eval-mode", "--"],
        ),
        (
            {"sarif": "", "html": "", "args": "--intended BN302=my net.*", "paths": "$(touch hacked); `id` && \"'"},
            ["--output", "github", "--intended", "BN302=my net.*", "--", "$(touch hacked); `id` && \"'"],
        ),
    ],
)
def test_inputs_become_arguments(tmp_path: Path, inputs: dict[str, str], arguments: list[str]) -> None:
    runner = Runner(tmp_path, {"bnaudit": NOTES})
    done = runner.run("Gate", **inputs)
    assert done.returncode == 0, done.stderr
    assert runner.arguments == ["gate", *arguments]
    assert not (tmp_path / "hacked").exists()


@with_bash
@pytest.mark.parametrize("code", [0, 1, 2, 3, 130])
def test_the_code_of_the_gate_is_that_of_the_last_step(tmp_path: Path, code: int) -> None:
    runner = Runner(tmp_path, {"bnaudit": f"echo x > bnaudit.sarif; exit {code}"})
    (tmp_path / "bnaudit.html").write_text("of an earlier run", encoding="utf-8")
    assert runner.run("Gate").returncode == 0, "what was found is shown before the job fails"
    assert runner.outputs == {"exit-code": str(code), "sarif": "bnaudit.sarif"}
    assert runner.run("Pass or fail").returncode == code


@with_bash
def test_a_gate_that_did_not_run_does_not_pass(tmp_path: Path) -> None:
    assert Runner(tmp_path, {}).run("Pass or fail").returncode == 2


@with_bash
@pytest.mark.parametrize(
    ("inputs", "what"),
    [
        ({"install": "bnaudit[html]==0.1.0"}, "bnaudit[html]==0.1.0"),
        ({}, f"{ACTION.parent}/../../..[html]"),
        ({"html": ""}, f"{ACTION.parent}/../../.."),
    ],
)
def test_what_is_installed(tmp_path: Path, inputs: dict[str, str], what: str) -> None:
    runner = Runner(tmp_path, {"python": NOTES})
    assert runner.run("Install bnaudit", **inputs).returncode == 0
    assert runner.arguments == ["-m", "pip", "install", "--disable-pip-version-check", "--", what]
    assert (ACTION.parent / "../../.." / "pyproject.toml").is_file()


@with_bash
def test_a_runner_sees_annotations_a_summary_and_reports(tmp_path: Path) -> None:
    real = f'exec "{sys.executable}" -c "from bnaudit.__main__ import main; main()" "$@"'
    runner = Runner(tmp_path, {"bnaudit": real})
    shutil.copy(ROOT / "sample_models" / "defects" / "virgin_statistics.pt", tmp_path / "net.pt")
    done = runner.run("Gate", paths="net.pt", args="--static")
    assert done.returncode == 0, done.stderr
    assert runner.outputs == {"exit-code": "1", "sarif": "bnaudit.sarif", "html": "bnaudit.html"}, done.stderr
    assert "::error" in done.stdout and "BN103" in done.stdout
    assert "BN103" in runner.summary.read_text(encoding="utf-8")
    assert runner.run("Pass or fail").returncode == 1


@with_bash
def test_the_settings_say_what_is_gated_when_the_workflow_does_not(tmp_path: Path) -> None:
    real = f'exec "{sys.executable}" -c "from bnaudit.__main__ import main; main()" "$@"'
    runner = Runner(tmp_path, {"bnaudit": real})
    sample_repositories.make(tmp_path)
    done = runner.run("Gate", html="")
    assert runner.outputs == {"exit-code": "1", "sarif": "bnaudit.sarif"}, done.stderr
    errors = [line for line in done.stdout.splitlines() if line.startswith("::error")]
    assert errors and all("file=models/new.pt" in line for line in errors)
    assert "models/accepted.pt" in runner.summary.read_text(encoding="utf-8")
    sample_repositories.mend(tmp_path)
    runner.run("Gate", html="")
    assert runner.outputs["exit-code"] == "0"
