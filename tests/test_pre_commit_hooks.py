"""The hooks for pre-commit: valid, for every file that bnaudit reads, and they stop a commit of a bad model."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from bnaudit.formats import formats

ROOT = Path(__file__).parent.parent
MANIFEST = ROOT / ".pre-commit-hooks.yaml"
HOOKS = {hook["id"]: hook for hook in yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))}
SAMPLES = ROOT / "sample_models"
TYPESCRIPT = {".ts"}
"""Read, and not gated by itself: in most repositories it is another language."""


def test_the_manifest_is_valid() -> None:
    pytest.importorskip("pre_commit", reason="pre-commit checks its manifests")
    done = subprocess.run(
        [sys.executable, "-m", "pre_commit", "validate-manifest", str(MANIFEST)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_pattern_fits_every_ending_that_is_read_and_no_other() -> None:
    read = {suffix for entry in formats() if entry.is_read for suffix in entry.suffixes}
    (endings,) = re.findall(r"\(\?i\)\\\.\((.*)\)\$", HOOKS["bnaudit"]["files"])
    assert {f".{ending}".replace("\\", "") for ending in endings.split("|")} == read - TYPESCRIPT


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("models/net.PT", True),
        ("a.pth.tar", True),
        ("model.safetensors.index.json", True),
        ("net.ts", False),
        ("net.pt.txt", False),
        ("opt", False),
        ("package.json", False),
    ],
)
def test_which_files_are_gated(name: str, fits: bool) -> None:
    assert bool(re.search(HOOKS["bnaudit"]["files"], name)) is fits


def test_settings_are_checked_where_they_may_stand() -> None:
    pattern = HOOKS["bnaudit-settings"]["files"]
    assert all(re.search(pattern, name) for name in ("bnaudit.toml", "pyproject.toml", "sub/bnaudit.toml"))
    assert not re.search(pattern, "mybnaudit.toml")


class Repository:
    """A Git repository with the hooks as local ones: what pre-commit would install is here already."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "-q")
        script = folder / "bnaudit_here.py"
        script.write_text("from bnaudit.__main__ import main\nmain()\n", encoding="utf-8")
        local = [self._local(hook, script) for hook in HOOKS.values()]
        config = {"repos": [{"repo": "local", "hooks": local}]}
        (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")

    def _local(self, hook: dict[str, Any], script: Path) -> dict[str, Any]:
        own = {key: value for key, value in hook.items() if key != "minimum_pre_commit_version"}
        command = f'"{Path(sys.executable).as_posix()}" "{script.as_posix()}"'
        return {**own, "language": "system", "entry": own["entry"].replace("bnaudit", command, 1)}

    def git(self, *arguments: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *arguments], cwd=self.folder, check=True, capture_output=True)

    def add(self, source: Path, name: str) -> None:
        shutil.copy(source, self.folder / name)
        self.git("add", "--", name)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")
        self.git("add", name)

    def run(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pre_commit", "run", "--color", "never"],
            cwd=self.folder,
            env={**os.environ, "PRE_COMMIT_HOME": str(self.folder / ".cache"), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    pytest.importorskip("pre_commit", reason="pre-commit runs the hooks")
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    return Repository(tmp_path)


def test_a_bad_model_is_not_committed(repository: Repository) -> None:
    repository.add(SAMPLES / "healthy" / "state_dict.pt", "good.pt")
    repository.add(SAMPLES / "defects" / "virgin_statistics.pt", "bad.pt")
    done = repository.run()
    assert done.returncode == 1
    assert re.search(r"bnaudit gate\.+Failed", done.stdout)
    assert "- exit code: 1" in done.stdout
    assert "error BN103 virgin-statistics" in done.stdout and "bad.pt" in done.stdout
    assert "exit 1: findings at or above warning" in done.stdout


def test_a_good_model_is(repository: Repository) -> None:
    repository.add(SAMPLES / "healthy" / "state_dict.pt", "a good.pt")
    repository.add(SAMPLES / "healthy" / "state_dict.pt", "--exit-zero.pt")
    repository.write("notes.txt", "nothing to audit")
    done = repository.run()
    assert done.returncode == 0, done.stdout
    assert re.search(r"bnaudit gate\.+Passed", done.stdout)
    assert re.search(r"bnaudit settings\.+\(no files to check\)Skipped", done.stdout)


def test_a_commit_without_models_is_not_looked_at(repository: Repository) -> None:
    repository.write("notes.txt", "nothing to audit")
    assert re.search(r"bnaudit gate\.+\(no files to check\)Skipped", repository.run().stdout)


def test_settings_that_do_not_load_are_not_committed(repository: Repository) -> None:
    repository.write("bnaudit.toml", 'fail-onn = "warning"\n')
    done = repository.run()
    assert done.returncode == 1
    assert re.search(r"bnaudit settings\.+Failed", done.stdout)
    assert "fail-onn" in done.stdout and "fail-on" in done.stdout
    repository.write("bnaudit.toml", 'fail-on = "warning"\n')
    assert re.search(r"bnaudit settings\.+Passed", repository.run().stdout)


def test_a_gap_that_the_settings_require_waits_for_ci(repository: Repository) -> None:
    repository.add(SAMPLES / "healthy" / "state_dict.pt", "good.pt")
    repository.write("bnaudit.toml", 'max-gap = 0.01\nrequire = ["buffers", "eval-mode"]\n')
    done = repository.run()
    assert re.search(r"bnaudit gate\.+Passed", done.stdout), done.stdout
