from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from builders import batch_norm, description, part

from bnaudit import inspection
from bnaudit.auditing import conclude
from bnaudit.results import Report, Severity
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings


def report(**fields: Any) -> Report:
    audit = conclude(description(part([batch_norm()])), Settings(), [])
    return Report(version="0", audits=(audit,), **fields)


def auditing(monkeypatch: pytest.MonkeyPatch, result: Report, print_: str = "") -> list[tuple[Any, ...]]:
    asked: list[tuple[Any, ...]] = []

    def audit(subject: Sequence[str] | None, settings: Settings, progress: object) -> Report:
        asked.append((subject, settings))
        if print_:
            print(print_)  # noqa: T201
        return result

    monkeypatch.setattr(inspection, "audit", audit)
    return asked


def test_an_interrupted_audit_prints_what_was_found_and_exits_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    auditing(monkeypatch, report(interrupted=True))
    assert inspection.inspect(["model.pt"], "terminal", Settings(fail_on=Severity.NOTE)) == 130
    shown = capsys.readouterr().out
    assert "buffers complete" in shown
    assert shown.splitlines()[-1].endswith("exit 130: interrupted, this is what was found so far")
    assert inspection.inspect(["model.pt"], "json", Settings()) == 130
    document = json.loads(capsys.readouterr().out)
    assert (document["interrupted"], document["exit_code"]) == (True, 130)


def test_what_a_model_prints_does_not_reach_the_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    auditing(monkeypatch, report(), print_="epoch 3: loss 0.1")
    assert inspection.inspect(["model.pt"], "json", Settings()) == 0
    captured = capsys.readouterr()
    json.loads(captured.out)
    assert captured.err == "epoch 3: loss 0.1\n"


def test_a_model_without_a_file_is_audited_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = auditing(monkeypatch, report())
    settings = Settings(run=RunOptions(model="net.py:build"))
    inspection.inspect([], "terminal", settings)
    inspection.inspect(["a.pt"], "terminal", settings)
    assert asked == [(None, settings), (["a.pt"], settings)]
    capsys.readouterr()
