"""A seeded tenth of the fault matrix (`make faults` is the whole): recall, localisation, silence, no false alarm."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cache

import pytest
from fault_matrix.cells import all_cells, tenth
from fault_matrix.judging import judged
from fault_matrix.registry import ARCHITECTURES, FAULTS
from fault_matrix.values import Cell

from bnaudit.rules import rule_files


@cache
def _cells() -> Mapping[str, list[Cell]]:
    found: dict[str, list[Cell]] = defaultdict(list)
    for cell in tenth(all_cells()):
        found[cell.architecture].append(cell)
    return found


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_tenth_of_the_matrix_is_as_it_has_to_be(architecture: str) -> None:
    wrong = [outcome for outcome in map(judged, _cells()[architecture]) if not outcome.right]
    assert not wrong, "\n".join(f"{' / '.join(map(str, each.cell[:3]))}: {each.why}" for each in wrong)


def test_faults_name_rules_that_exist() -> None:
    rules = {fault.rule for fault in FAULTS.values()}
    assert rules <= set(rule_files())
    assert len(rules) >= 40
