"""Every sample's file says what its table says, and looking at one executes nothing and loads no framework."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import bnaudit
from bnaudit.results import Audit, Outcome, Question, Severity
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings
from sample_models.catalogue import CONTROLS, DEFECTS, HEALTHY, Expected
from sample_models.compare_catalogue import COMPARE

SAMPLES = Path(__file__).parent.parent / "sample_models"
EVERY = {**HEALTHY, **DEFECTS, **CONTROLS, **COMPARE}


def audit_of(name: str) -> Audit:
    (audit,) = bnaudit.audit(SAMPLES / name, Settings(run=RunOptions(static=True))).audits
    return audit


def fits(expected: Expected, layers: list[str | None], audit: Audit) -> bool:
    if expected.layers is None:
        return bool(layers)
    return layers == list(expected.layers)


@pytest.mark.parametrize("name", EVERY)
def test_a_sample_has_the_findings_of_its_table_and_no_other(name: str) -> None:
    audit = audit_of(name)
    assert not audit.failed
    found: dict[str, list[str | None]] = {}
    for finding in audit.findings:
        if finding.severity >= Severity.WARNING:
            found.setdefault(finding.rule, []).append(finding.layer)
    expected = {entry.rule: entry for entry in EVERY[name].findings}
    assert found.keys() == expected.keys()
    for rule, layers in found.items():
        assert fits(expected[rule], layers, audit), (rule, layers)
    assert set(EVERY[name].notes) <= {finding.rule for finding in audit.findings}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_sample_passes_or_says_what_is_missing(name: str) -> None:
    audit = audit_of(name)
    outcomes = {verdict.question: verdict.outcome for verdict in audit.verdicts}
    folded = any(part.folded for part in audit.description.parts)
    assert outcomes[Question.BUFFERS] is (Outcome.NOT_CHECKED if folded else Outcome.PASSED)
    assert set(outcomes.values()) <= {Outcome.PASSED, Outcome.NOT_CHECKED}
    assert all(verdict.needs for verdict in audit.verdicts if verdict.outcome is Outcome.NOT_CHECKED)
    assert audit.looked
    assert not audit.gaps


BLOCK = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "onnx", "onnxruntime", "safetensors"}:
            raise ImportError(f"{name} is not needed here")
sys.meta_path.insert(0, Refuse())
from bnaudit.__main__ import main
sys.argv = ["bnaudit", "inspect", "--static", "--format", "json", *sys.argv[1:]]
main()
"""


def test_the_static_audit_runs_without_any_framework(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCK, *(str(SAMPLES / name) for name in EVERY)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SAMPLES.parent)},
        check=False,
    )
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert len(document["artifacts"]) == len(EVERY)
    assert document["not_audited"] == []
    assert list(tmp_path.iterdir()) == [], "the hostile sample left something behind"


def test_all_samples_together_stay_small() -> None:
    size = sum(path.stat().st_size for path in SAMPLES.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert size < 3_000_000
