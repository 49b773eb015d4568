"""BN303 and BN305: a batch of one, and equal rows, that are treated in a way of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from fault_matrix.faults.places import BEYOND_ROUNDING, Share, Symptom, always, classifiers, put_behind, without_draws
from fault_matrix.faults.saved_state import IN_PYTHON
from fault_matrix.values import Facet, Fault, Inputs, Planting, Scope
from run_time.more_nets import OneIsSpecial
from run_time.symptoms import one, rows
from torch import nn

from bnaudit.results import Question, Severity
from sample_models.digit_defects import RowNumber

_RUNS = frozenset({Facet.FORWARD, Facet.RUNS})
_KEEPS_CONDITIONS = IN_PYTHON | {"scripted"}
"""A trace and a graph hold the branch that was taken when they were made."""


class Squeezed(nn.Module):
    """squeeze() without an axis: the batch axis goes, too, when the batch is one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.squeeze()


class Refused(nn.Module):
    """Raises for one sample, as a comparison of neighbours does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] < 2:
            raise ValueError("at least two samples are needed")
        return x


class OneIsABitSpecial(nn.Module):
    """Another kernel for one sample that computes a ten-thousandth less."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.9999 * x if x.shape[0] == 1 else x


class OneInAnotherOrder(nn.Module):
    """Another path for one sample that gives the same but for rounding."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 3.0) / 3.0 if x.shape[0] == 1 else x


class RowsOfItsOwn(nn.Module):
    """The healthy twin of the row number: a code over the features."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.05 * torch.arange(x.shape[1], dtype=x.dtype) / x.shape[1]


def differs_alone(net: nn.Module, inputs: Inputs) -> bool:
    return one("live", net, inputs) > BEYOND_ROUNDING


def differs_by_row(net: nn.Module, inputs: Inputs) -> bool:
    return rows("live", net, inputs) > BEYOND_ROUNDING


def _fault(
    rule: str,
    name: str,
    module: Callable[[], nn.Module],
    shows: Symptom,
    severity: Severity | None = Severity.ERROR,
    **more: Any,
) -> Fault:
    def plant(planting: Planting) -> None:
        put_behind(planting, lambda shape: module(), shows)

    fields = {"needs": _RUNS, "targets": without_draws, "whole": True, **more}
    return Fault(name, rule, plant, severity, Question.NEIGHBOURS, Scope.ONE, measured=True, **fields)


def _one(name: str, module: Callable[[], nn.Module], severity: Severity | None = Severity.ERROR, **more: Any) -> Fault:
    return _fault(
        "BN303", name, module, differs_alone if severity else always, severity, **{"only": _KEEPS_CONDITIONS, **more}
    )


_BY_NEIGHBOURS = ("BN301",)
"""Where other samples matter, one alone, or two equal ones with others before them, may differ for that reason."""

FAULTS = [
    _one("squeeze() without an axis", Squeezed, targets=classifiers),
    _one("one sample is special", OneIsSpecial, hidden_by=_BY_NEIGHBOURS),
    _one("one sample is special, by a ten-thousandth", OneIsABitSpecial, hidden_by=_BY_NEIGHBOURS),
    _one("one sample raises", Refused),
    _one("one sample in another order of operations", OneInAnotherOrder, None),
    _fault("BN305", "the row's number", lambda: Share(RowNumber(), 0.1), differs_by_row, hidden_by=_BY_NEIGHBOURS),
    _fault(
        "BN305",
        "the row's number, weakly",
        lambda: Share(RowNumber(), 0.01),
        differs_by_row,
        hidden_by=_BY_NEIGHBOURS,
    ),
    _fault("BN305", "the feature's number", lambda: Share(RowsOfItsOwn(), 0.05), always, None),
]
