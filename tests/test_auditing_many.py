from __future__ import annotations

import gc
from pathlib import Path

import pytest
import torch
from state_dicts import batch_norm

from bnaudit import auditing, worker_process
from bnaudit.auditing import Examined, audit_targets, examine
from bnaudit.errors import UsageError
from bnaudit.progress import Progress, Silent
from bnaudit.records import replace
from bnaudit.results import Unaudited
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings
from bnaudit.targets import Targets

STATIC = Settings(run=RunOptions(static=True))


@pytest.fixture
def given(tmp_path: Path) -> Targets:
    """Four small state dicts."""
    paths = []
    for number in range(4):
        paths.append(tmp_path / f"{number}.pt")
        torch.save(batch_norm("bn", 4, torch.float32, 100 + number), paths[-1])
    return Targets(tuple(paths), (), 0)


def test_a_state_dict_leaves_no_garbage_that_memory_would_grow_by(given: Targets) -> None:
    # Where thousands of files are audited, the collector runs seldom: what it alone can free adds up until then.
    path = given.paths[0]
    examine(path, STATIC, Silent())
    gc.collect()
    gc.disable()
    try:
        examine(path, STATIC, Silent())
        assert gc.collect() == 0
    finally:
        gc.enable()


class Listening(Silent):
    """Whom the audit tells what it does; presses Ctrl-C after so many artifacts."""

    def __init__(self, presses_after: int = 99) -> None:
        self.told: list[str] = []
        self._left = presses_after

    def artifact(self, path: Path, position: int, total: int) -> None:
        self.told.append(f"{path.name} {position}/{total}")

    def finished(self, code: int) -> None:
        self.told.append(f"exit {code}")
        self._left -= 1
        if not self._left:
            raise KeyboardInterrupt


def test_who_listens_is_told_what_begins_and_what_ends(given: Targets) -> None:
    listening = Listening()
    audit_targets(given, lambda path: STATIC, listening)
    assert listening.told[:4] == ["0.pt 0/4", "exit 0", "1.pt 1/4", "exit 0"]
    listening = Listening()
    audit_targets(given, lambda path: STATIC, listening, jobs=2)
    assert sorted(listening.told) == ["0.pt 0/4", "1.pt 1/4", "2.pt 2/4", "3.pt 3/4", *["exit 0"] * 4]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_leaves_what_was_found_until_then(jobs: int, given: Targets) -> None:
    report = audit_targets(given, lambda path: STATIC, Listening(2), jobs=jobs)
    assert (len(report.audits), report.interrupted, report.exit_code()) == (2, True, 130)


def test_an_interrupt_before_anything_was_found_is_passed_on(given: Targets) -> None:
    class Impatient(Silent):
        def artifact(self, path: Path, position: int, total: int) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        audit_targets(given, lambda path: STATIC, Impatient())


def test_a_live_model_is_never_sent_to_another_process(given: Targets, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(worker_process, "Worker", refuse)
    live = Settings(run=RunOptions(model=lambda: torch.nn.BatchNorm1d(4)))
    listening = Listening()
    report = audit_targets(given, lambda path: live if path.name == "2.pt" else STATIC, listening, jobs=2)
    assert len(report.audits) == 4
    assert listening.told[-2:] == ["3.pt 3/4", "exit 0"]
    with pytest.raises(AssertionError, match="a process was started"):
        audit_targets(given, lambda path: STATIC, Silent(), jobs=2)


def test_one_path_tells_how_it_goes_however_many_jobs_there_are(
    given: Targets, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Progress] = []

    def examined(path: Path, settings: Settings, progress: Progress) -> Examined:
        told.append(progress)
        return examine(path, settings, progress)

    monkeypatch.setattr(auditing, "examine", examined)
    listening = Listening()
    audit_targets(given._replace(paths=given.paths[:1]), lambda path: STATIC, listening, jobs=2)
    assert told == [listening]


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_path_has_its_settings_and_wrong_rules_are_told(given: Targets, jobs: int) -> None:
    def settings_for(path: Path) -> Settings:
        return replace(STATIC, layers=("none",)) if path.name == "1.pt" else STATIC

    report = audit_targets(given, settings_for, Silent(), jobs)
    assert [len(audit.ledger) for audit in report.audits] == [1, 0, 1, 1]
    with pytest.raises(UsageError, match="no rule has an id that starts with 'BX'"):
        audit_targets(given, lambda path: replace(STATIC, select=("BX",)), Silent(), jobs)


def test_an_internal_failure_after_reading_costs_its_file_alone(
    given: Targets, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = auditing.conclude

    def broken(description: object, *more: object) -> object:
        if description.artifact.path.endswith("1.pt"):  # type: ignore[attr-defined]
            raise ZeroDivisionError("by nothing")
        return whole(description, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(auditing, "conclude", broken)
    report = audit_targets(given, lambda path: STATIC, Silent())
    (failed,) = report.unaudited
    assert isinstance(failed, Unaudited)
    assert failed.why.startswith("internal failure while auditing (ZeroDivisionError: by nothing at test_auditing_many")
    assert (len(report.audits), report.exit_code()) == (3, 2)
