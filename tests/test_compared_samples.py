"""Every sample that says something beside another one says what its table says."""

from __future__ import annotations

from pathlib import Path

import pytest

import bnaudit
from bnaudit.results import Audit, Severity
from sample_models.compare_catalogue import COMPARE
from sample_models.expected import Against

SAMPLES = Path(__file__).parent.parent / "sample_models"
COMPARED = {name: sample.against for name, sample in COMPARE.items() if sample.against is not None}


def audit_of(name: str, against: Against) -> Audit:
    report = bnaudit.compare(SAMPLES / against.baseline, SAMPLES / name)
    assert report.unaudited == ()
    (audit,) = report.audits
    return audit


@pytest.mark.parametrize("name", COMPARED)
def test_a_comparison_finds_what_the_table_says_and_nothing_else(name: str) -> None:
    against = COMPARED[name]
    audit = audit_of(name, against)
    assert not audit.failed and audit.looked
    found: dict[str, list[str | None]] = {}
    for finding in audit.findings:
        if finding.severity >= Severity.WARNING:
            found.setdefault(finding.rule, []).append(finding.layer)
    assert found == {entry.rule: [None] if entry.layers is None else list(entry.layers) for entry in against.findings}
    assert set(against.notes) <= {finding.rule for finding in audit.findings}


@pytest.mark.parametrize("name", COMPARED)
def test_the_other_way_round_is_as_loud(name: str) -> None:
    """What differs, differs: only a stray forward's direction shows, in the counters."""
    against = COMPARED[name]
    back = audit_of(against.baseline, against._replace(baseline=name))
    loud = {finding.rule for finding in back.findings if finding.severity >= Severity.WARNING}
    assert loud == {entry.rule for entry in against.findings}


@pytest.mark.parametrize("name", COMPARE)
def test_alone_none_of_them_looks_suspicious(name: str) -> None:
    assert COMPARE[name].findings == ()


def test_every_static_rule_on_two_artifacts_has_a_sample() -> None:
    shown = {entry.rule for against in COMPARED.values() for entry in against.findings}
    shown |= {note for against in COMPARED.values() for note in against.notes}
    assert {"BN601", "BN602", "BN603", "BN604", "BN605", "BN607", "BN608"} <= shown
