from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
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


@pytest.mark.skipif(os.name == "nt", reason="SIGINT is sent to a process here")
def test_ctrl_c_in_the_middle_of_a_run_reports_what_was_found(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW, encoding="utf-8")
    line = [sys.executable, "-m", "bnaudit", "inspect", "--model", "slow.py:Slow", "--format", "json"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as running:
        assert running.stderr is not None and running.stdout is not None
        while running.stderr.readline() != "forward 4\n":
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        document = json.loads(running.stdout.read())
        assert running.wait(60) == document["exit_code"] == 130
    assert document["interrupted"] is True
    (artifact,) = document["artifacts"]
    assert artifact["measured"]["interrupted"] is True
    assert 0 < artifact["measured"]["forwards"] <= 4, "one of them may have tried what inputs the model takes"


SLOW = """
import time
from torch import nn

class Slow(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm1d(4)
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        calls.append(1)
        print("forward", len(calls), flush=True)
        time.sleep(0 if len(calls) < 4 else 60)
        return self.fc(self.bn(x))

calls = []
"""


LOUD = """
import ctypes, os, sys, warnings
import torch

class Loud(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x):
        print("printed")
        os.write(1, b"written to the descriptor\\n")
        ctypes.CDLL(None).puts(b"written by C")
        warnings.warn("warned")
        return self.norm(x)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the C library is loaded by another name")
def test_stdout_is_the_reports_alone_whatever_a_model_writes(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(LOUD)
    command = [sys.executable, "-m", "bnaudit", "inspect", "--model", "loud.py:Loud", "--format", "json"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["artifacts"][0]["measured"]["forwards"] > 0
    for text in ("printed", "written to the descriptor", "written by C"):
        assert text in ran.stderr
    assert "warned" not in ran.stderr
