"""Every planted defect is named, with its rule and its layer, in every carrier that can hold it."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_time.planted import PLANTED, Planted
from run_time.run_carriers import written
from run_time.subjects_of_runs import audited, failed, fitted, images, loud, stands_at
from run_time.symptoms import SYMPTOMS

from bnaudit.results import Severity
from sample_models.digits import build_finetune

CASES = [
    pytest.param(planted, carrier, id=f"{planted.name}, {carrier}")
    for planted in PLANTED
    for carrier in planted.carriers
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("planted")


@pytest.mark.parametrize(("planted", "carrier"), [case for case in CASES if case.values[0].symptom != "none"])
def test_it_is_there_when_the_carrier_runs_by_itself(planted: Planted, carrier: str, folder: Path) -> None:
    given = written(planted, carrier, folder)
    assert SYMPTOMS[planted.symptom](carrier, given, planted.inputs()) > 1e-4


@pytest.mark.parametrize(("planted", "carrier"), CASES)
def test_it_is_found(planted: Planted, carrier: str, folder: Path) -> None:
    audit = audited(written(planted, carrier, folder), planted.inputs())
    found = [finding for finding in loud(audit) if finding.rule in planted.rules]
    assert found, [(finding.rule, finding.layer, finding.message) for finding in audit.findings]
    if planted.layer is not None and carrier not in planted.nameless:
        assert any(stands_at(finding, planted.layer) for finding in found), [finding.layer for finding in found]
    if planted.alone:
        assert all(stands_at(finding, planted.layer or "") for finding in found), [finding.layer for finding in found]
    assert {finding.rule for finding in loud(audit)} <= {*planted.rules, *planted.also}
    assert set(planted.fails) <= failed(audit)


@pytest.mark.parametrize(("size", "severity"), [(1, Severity.ERROR), (4, Severity.WARNING), (16, None)])
def test_a_small_training_batch_leaves_a_norm_too_few_values(size: int, severity: Severity | None) -> None:
    net = fitted(build_finetune)
    found = [finding for finding in loud(audited(net, images(), training_batch_size=size)) if finding.rule == "BN405"]
    assert [(finding.layer, finding.severity) for finding in found] == ([("fc.1", severity)] if severity else [])
