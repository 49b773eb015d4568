"""BN106 and BN107: values in the statistics that no trained layer has."""

from __future__ import annotations

from fault_matrix.values import Facet, Fault, Planting, Scope

from bnaudit.results import Question, Severity


def nan_in_the_variance(planting: Planting) -> None:
    """A loss that overflowed once."""
    for norm in planting.modules:
        norm.running_var[planting.channels(norm)] = float("nan")


FAULTS = [
    Fault(
        "NaN in the variance",
        "BN106",
        nan_in_the_variance,
        Severity.ERROR,
        Question.BUFFERS,
        scope,
        needs=frozenset({Facet.STATISTICS}),
        also=("BN403", "BN404"),
    )
    for scope in (Scope.ALL, Scope.ONE, Scope.CHANNEL)
]
