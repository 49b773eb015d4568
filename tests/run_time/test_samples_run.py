"""Every sample that can run says, run on the digits, what its table says; and running changes no sample."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from run_time.subjects_of_runs import failed, loud, undecided

import bnaudit
from bnaudit.results import Audit
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings
from sample_models.catalogue import HEALTHY, SAMPLES
from sample_models.expected import Run

SAMPLES_AT = Path(__file__).parents[2] / "sample_models"
RUNNABLE = {name: sample.run for name, sample in SAMPLES.items() if sample.run is not None}


def run_of(name: str, run: Run) -> Audit:
    options = RunOptions(
        model=str(SAMPLES_AT / run.model) if run.model else None,
        inputs=str(SAMPLES_AT / "digits.npz"),
        run=run.allowed == "run",
        trust_pickle=run.allowed == "trust_pickle",
    )
    report = bnaudit.audit(SAMPLES_AT / name, Settings(run=options, intended=run.intended))
    assert report.unaudited == ()
    (audit,) = report.audits
    assert not audit.failed
    assert audit.measured is not None, audit.not_run
    return audit


def digest(path: Path) -> str:
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


@pytest.mark.parametrize("name", RUNNABLE)
def test_a_run_finds_what_the_table_says_and_nothing_else(name: str) -> None:
    run, before = RUNNABLE[name], digest(SAMPLES_AT / name)
    audit = run_of(name, run)
    found: dict[str, list[str | None]] = {}
    for finding in loud(audit):
        found.setdefault(finding.rule, []).append(finding.layer)
    expected = {entry.rule: entry.layers for entry in (*SAMPLES[name].findings, *run.findings)}
    required = {entry.rule for entry in run.findings}
    assert required <= found.keys() <= expected.keys() | set(run.also), found
    for rule in required:
        assert expected[rule] is None or found[rule] == list(expected[rule] or ()), (rule, found[rule])
    assert failed(audit) == set(run.fails)
    assert undecided(audit).keys() == set(run.open), undecided(audit)
    assert digest(SAMPLES_AT / name) == before


@pytest.mark.parametrize("name", [name for name in HEALTHY if name in RUNNABLE])
def test_a_healthy_sample_takes_no_more_forwards_than_the_plan(name: str) -> None:
    measured = run_of(name, RUNNABLE[name]).measured
    assert measured is not None
    assert measured.forwards <= 8
    assert measured.extra_forwards == 0
