"""One shared set of reports that every renderer is tested on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from builders import batch_norm, description, part
from subjects import SAMPLES

import bnaudit
from bnaudit.auditing import conclude
from bnaudit.description import Gap
from bnaudit.results import Audit, Confidence, Finding, Question, Report, Severity, Unaudited
from bnaudit.settings import Settings

HOSTILE = "bn\x1b[2J\n\u202e[red]<b>"


@pytest.fixture(scope="session")
def samples() -> Report:
    """The models of the project, run where they can be run."""
    return bnaudit.audit(SAMPLES)


@pytest.fixture
def make_report() -> Callable[..., Report]:
    """A report from audits of hand-made parts, with findings put in by hand."""

    def make(*audits: Audit, **fields: Any) -> Report:
        return Report(version="0.1.0", audits=audits, **fields)

    return make


@pytest.fixture
def healthy() -> Audit:
    """Twelve healthy layers of a state dict."""
    layers = [batch_norm(f"layer{s}.{b}.bn{n}") for s in (1, 2) for b in range(3) for n in (1, 2)]
    return conclude(description(part(layers)), Settings(), [])


@pytest.fixture
def faulty() -> Audit:
    """Findings of each severity, on layers with hostile names too, and a gap."""
    layers = [batch_norm(f"layer1.{b}.bn1") for b in range(8)] + [batch_norm(HOSTILE)]
    base = conclude(description(part(layers), gaps=(Gap(where="data/7", why="sparse tensor"),)), Settings(), [])
    found = [finding(f"layer1.{b}.bn1", Severity.ERROR, value=float(b)) for b in (0, 1, 2, 5)]
    found += [finding("layer1.0.bn1", Severity.ERROR, value=float("nan"), rule="BN106")]
    found += [finding(HOSTILE, Severity.WARNING, rule="BN105"), finding(None, Severity.NOTE, rule="BN112")]
    return Audit(
        artifact=base.artifact,
        description=base.description,
        verdicts=base.verdicts,
        ledger=base.ledger,
        findings=tuple(found),
        skipped=(),
        failed=(),
        gaps=base.gaps,
    )


@pytest.fixture
def unreadable() -> Unaudited:
    """A file that should have been audited."""
    return Unaudited(path="broken.pt", why="broken.pt is truncated: copy it again", error=True)


def finding(layer: str | None, severity: Severity, rule: str = "BN101", value: float | None = None) -> Finding:
    """A finding with every field filled."""
    return Finding(
        rule=rule,
        name="missing-running-buffers",
        severity=severity,
        confidence=Confidence.HIGH,
        artifact="model.pt",
        part="",
        layer=layer,
        message="running_var is not in the file",
        value=value,
        limit=1.0 if value is not None else None,
        advice="save the whole state dict",
        channels=(3, 1),
        question=Question.BUFFERS,
        fails=severity >= Severity.WARNING,
        undecided="",
        fingerprint="0123456789abcdef",
    )
