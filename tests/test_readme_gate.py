"""The README, `--help` and the policy's table of keys agree about the gate, and its commands run."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from test_readme import README, ROOT, section

from bnaudit import plugins
from bnaudit.cli import COMMANDS, app
from bnaudit.policy.keys import KEYS

TEXT = README.read_text(encoding="utf-8")


def every_option() -> dict[str, dict[str, str]]:
    """Command → option → its help, taken from the commands that are built."""
    found: dict[str, dict[str, str]] = {}

    def walk(command: Any, name: str) -> None:
        for inner, each in getattr(command, "commands", {}).items():
            walk(each, f"{name} {inner}".strip())
        found[name] = {
            option: parameter.help or ""
            for parameter in command.params
            for option in (*parameter.opts, *parameter.secondary_opts)
            if option.startswith("--")
        }

    walk(typer.main.get_command(app([])), "")
    return found


OPTIONS = every_option()
GATE = ("gate", "baseline create", "init")


@pytest.mark.parametrize("command", GATE)
def test_every_option_is_explained(command: str) -> None:
    assert OPTIONS[command]
    silent = [option for option, help in OPTIONS[command].items() if len(help) < 10]
    assert not silent


@pytest.mark.parametrize("command", GATE)
def test_help_shows_every_option_and_says_what_exit_codes_mean(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bnaudit", *command.split(), "--help"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "COLUMNS": "200", "PYTHONIOENCODING": "utf-8"},
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not [option for option in OPTIONS[command] if option not in done.stdout]
    if command == "gate":
        assert "Exit codes: 0 passed" in " ".join(done.stdout.split())


def test_every_option_in_the_readme_exists_somewhere() -> None:
    known = {option for options in OPTIONS.values() for option in options}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT))
    assert named - known - OF_OTHER_TOOLS == set()


OF_OTHER_TOOLS: set[str] = set()


def test_every_option_of_a_policy_is_a_key_of_the_settings() -> None:
    only_typed = {"--config", "--output", "--show-accepted", "--all-layers", "--exit-zero", "--show-settings"}
    only_typed |= {"--jobs", "--resume", "--help"}
    assert set(OPTIONS["gate"]) - only_typed == {
        key.option for key in KEYS.values() if key.name not in ("paths", "accept", "files")
    }


@pytest.mark.parametrize("name", plugins.names("bnaudit.reports"))
def test_every_format_is_in_the_readme(name: str) -> None:
    assert f"`{name}`" in TEXT


@pytest.mark.parametrize("name", plugins.names(COMMANDS))
def test_every_command_is_in_the_readme(name: str) -> None:
    assert f"bnaudit {name}" in TEXT


def commands() -> list[str]:
    lines = (line.partition("#")[0].strip() for line in section(TEXT, "gate").splitlines())
    return [line for line in lines if line.startswith("bnaudit ")]


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "sample_models", folder / "sample_models", ignore=ignore)
    return folder


def test_the_commands_of_the_readme_run_one_after_the_other(samples: Path) -> None:
    assert len(commands()) > 4
    for command in commands():
        done = subprocess.run(
            [sys.executable, "-c", "from bnaudit.__main__ import main; main()", *shlex.split(command)[1:]],
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=samples,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr}"
        for path in re.findall(r"--output \w+=(\S+)|-o (\S+)", command):
            assert (samples / next(filter(None, path))).stat().st_size > 0


def test_no_public_text_of_a_command_is_missing() -> None:
    for name in plugins.names(COMMANDS):
        module = plugins.load(COMMANDS, name)
        for command in [module.command] if hasattr(module, "command") else module.SUBCOMMANDS.values():
            assert inspect.getdoc(command)
