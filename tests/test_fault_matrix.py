"""A seeded tenth of the fault matrix (`make faults` is the whole): recall, localisation, silence, no false alarm."""

from __future__ import annotations

import pytest
from fault_matrix.cells import possible_cells, share_of
from fault_matrix.judging import judged
from fault_matrix.registry import ARCHITECTURES, FAULTS

from bnaudit.rules import rule_files


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_tenth_of_the_matrix_is_as_it_has_to_be(architecture: str) -> None:
    cells = share_of(possible_cells(architecture), density=0.1)
    wrong = [outcome for outcome in map(judged, cells) if not outcome.right]
    assert not wrong, "\n".join(f"{' / '.join(map(str, each.cell[:3]))}: {each.why}" for each in wrong)


def test_faults_name_rules_that_exist() -> None:
    rules = {fault.rule for fault in FAULTS.values()}
    assert rules <= set(rule_files())
    assert len(rules) >= 40
