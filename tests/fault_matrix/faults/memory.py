"""BN306: what one batch leaves behind for the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from fault_matrix.faults.places import always, differs_in_a_row, layers, put_behind, without_draws
from fault_matrix.faults.saved_state import IN_PYTHON
from fault_matrix.values import Facet, Fault, Planting, Scope
from run_time.more_nets import CallCounter, HistoryList
from torch import nn

from bnaudit.results import Question, Severity

_WITH_ATTRIBUTES = IN_PYTHON | {"scripted"}
"""A trace and a graph hold the value that an attribute had when they were made."""


class Carrying(nn.Module):
    """Keeps the last batch's mean in a plain attribute and adds some of it to the next answer."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.last, self.share = torch.zeros(1), share

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer = x + self.share * self.last
        self.last = x.detach().mean().reshape(1)
        return answer


class LastBatch(nn.Module):
    """Keeps the last batch itself and compares with its first sample."""

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.zeros(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer = x if self.last.numel() == 0 else x + 0.05 * self.last[:1].mean()
        self.last = x.detach().clone()
        return answer


class HiddenBuffer(nn.Module):
    """A buffer that no state dict has moves with every forward."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(1), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer = x - 0.05 * self.centre
        self.centre.mul_(0.9).add_(0.1 * x.detach().mean())
        return answer


class Ahead(nn.Module):
    """The healthy twin: keeps a table that depends on the shape alone."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.zeros(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.table.numel() != x.shape[1]:
            self.table = 0.01 * torch.arange(x.shape[1], dtype=x.dtype) / x.shape[1]
        return x + self.table.reshape([1, -1] + [1] * (x.dim() - 2))


class Watched(nn.Module):
    """Keeps the last batch for a debugger, and uses nothing of it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = torch.zeros(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen = x.detach().clone()
        return x


def _fault(
    name: str,
    module: Callable[[], nn.Module],
    severity: Severity | None = Severity.ERROR,
    scope: Scope = Scope.ONE,
    only: frozenset[str] = _WITH_ATTRIBUTES,
    **more: Any,
) -> Fault:
    def plant(planting: Planting) -> None:
        put_behind(planting, lambda shape: module(), differs_in_a_row if severity else always)

    return Fault(
        name,
        "BN306",
        plant,
        severity,
        Question.EVAL_MODE,
        scope,
        needs=frozenset({Facet.FORWARD, Facet.RUNS}),
        measured=True,
        only=only,
        # Where a net calls it twice per forward, the second call has something of the first one's batch, or of its
        # first sample, which a batch of one is itself. A list that grows has the batch's own mean.
        also=("BN301", "BN303"),
        **{"targets": layers, **more},
    )


FAULTS = [
    _fault("carried in an attribute", lambda: Carrying(0.05)),
    _fault("carried in an attribute", lambda: Carrying(0.05), scope=Scope.ALL),
    _fault("carried in an attribute, weakly", lambda: Carrying(1e-3)),
    _fault("carried in an attribute, as small as rounding", lambda: Carrying(1e-7), None),
    _fault("the last batch is kept", LastBatch),
    _fault("calls are counted", CallCounter, only=IN_PYTHON),
    # Its means mix the batch, too: in a net that draws, locating that takes the forwards that history would need.
    _fault("a list that grows", HistoryList, only=IN_PYTHON, targets=without_draws),
    _fault("a buffer outside the state dict", HiddenBuffer, only=_WITH_ATTRIBUTES | {"exported"}),
    _fault("a table of positions", Ahead, None),
    _fault("the last batch is kept and not used", Watched, None),
]
