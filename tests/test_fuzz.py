"""Samples of every format, damaged in thousands of ways, through the whole audit.

Whatever is left of a file, the audit gives a report in which it is audited or named with one sentence, in bounded
time, and executes nothing. All damage is drawn from seeds: a case that fails here fails again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import damage
import pytest
from subjects import SAMPLES, subject_id

import bnaudit
from bnaudit.reports import View, renderer
from bnaudit.results import Report

HEALTHY = sorted((SAMPLES / "healthy").iterdir())
HOSTILE = SAMPLES / "defects" / "hostile_pickle.pt"
FILES = [*(path for path in HEALTHY if path.is_file()), HOSTILE]
FOLDERS = [path for path in HEALTHY if path.is_dir()]
SECONDS = 5

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(autouse=True)
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails a test after which anything was created in the working directory."""
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    monkeypatch.chdir(cwd)
    yield
    assert list(cwd.iterdir()) == [], "something in a file was executed"


def cases(data: bytes, chance: Random) -> Iterator[bytes]:
    """About 300 damaged versions of a file."""
    yield from damage.truncations(data)
    for _ in range(150):
        yield damage.flips(data, chance)
    for _ in range(40):
        yield damage.chunks(data, chance)
    if data.startswith(b"PK"):
        for _ in range(60):
            yield damage.inside(data, chance)


def outcome(path: Path) -> str:
    """`audited` or `named`; fails the test when the audit broke, hung, said nothing or said too much."""
    started = time.process_time()
    report = bnaudit.audit(path)
    assert time.process_time() - started < SECONDS
    assert renderer("json").render(report, View())
    check_complete(report, path)
    return "audited" if report.audits else "named"


def check_complete(report: Report, path: Path) -> None:
    shown = [*(audit.artifact.path for audit in report.audits), *(entry.path for entry in report.unaudited)]
    if path.is_file():
        assert shown == [str(path)]
    else:  # what is left of a folder may be no model folder, and its files are then found one by one
        assert shown and all(Path(entry) == path or path in Path(entry).parents for entry in shown)
    for unaudited in report.unaudited:
        assert "internal failure" not in unaudited.why
        assert unaudited.why and len(unaudited.why.splitlines()) == 1 and len(unaudited.why) < 1000
    for audit in report.audits:
        assert not audit.failed


@pytest.mark.parametrize("path", FILES, ids=subject_id)
def test_damaged_files_are_audited_or_named(path: Path, tmp_path: Path) -> None:
    target = tmp_path / f"damaged{path.suffix}"
    outcomes = set()
    for data in cases(path.read_bytes(), Random(path.name)):
        target.write_bytes(data)
        outcomes.add(outcome(target))
    assert outcomes == {"audited", "named"}


@pytest.mark.parametrize("path", FOLDERS, ids=subject_id)
def test_damaged_folders_are_audited_or_named(path: Path, tmp_path: Path) -> None:
    chance = Random(path.name)
    folder = tmp_path / path.name
    shutil.copytree(path, folder)
    outcomes = set()
    for target in sorted(folder.iterdir()):
        whole = target.read_bytes()
        for data in chance.sample(list(cases(whole, chance)), 60):
            target.write_bytes(data)
            outcomes.add(outcome(folder))
        target.write_bytes(whole)
    assert "audited" in outcomes
