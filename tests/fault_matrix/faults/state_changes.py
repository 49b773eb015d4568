"""BN402: a prediction changes what is stored."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from fault_matrix.faults.leaks import using_statistics
from fault_matrix.faults.places import always, layers, put_behind, run
from fault_matrix.faults.saved_state import IN_PYTHON
from fault_matrix.values import OF_IMAGES, Facet, Fault, Inputs, Planting, Scope
from run_time.more_nets import AdaptingNorm
from torch import nn

from bnaudit.results import Question, Severity

_MOVES_BUFFERS = IN_PYTHON | {"scripted", "exported"}
_RUNS = frozenset({Facet.FORWARD, Facet.RUNS})
_CARRIED = ("BN306",)
"""Where what moved changes the next prediction, that is told."""


class Adapting1d(nn.BatchNorm1d):
    """Moves its own mean in eval mode, behind autograd's back, after it was used."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        if not self.training:
            self.running_mean.data.mul_(0.9).add_(0.1 * x.transpose(0, 1).flatten(1).mean(1))
        return y


class Average(nn.Module):
    """An average of what was seen, for monitoring: written in eval mode, too, and read by nobody."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.register_buffer("average", torch.zeros(1))
        self.share = share

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.average.mul_(1 - self.share).add_(self.share * x.detach().mean())
        return x


class ScaledOnce(nn.Module):
    """A parameter that is set by the first batch it meets, as ActNorm's, also after loading."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.initialized = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.initialized:
            self.scale.data.fill_(1 + 0.01 * x.mean().item())
            self.initialized = True
        return x * self.scale


class MovedByNumPy(nn.Module):
    """A parameter that eval mode moves through NumPy, which bumps no version."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * self.weight
        self.weight.detach().numpy()[:] += 0.01 * x.detach().mean().numpy()
        return y


class Observed(nn.Module):
    """An observer of quantization that was never switched off."""

    def __init__(self) -> None:
        super().__init__()
        self.observer = torch.ao.quantization.MovingAverageMinMaxObserver()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.observer(x)


class Forwards(nn.Module):
    """Counts forwards in a buffer: the same value after any batch."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("forwards", torch.zeros((), dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.forwards += 1
        return x


class Table(nn.Module):
    """A table of positions in a buffer, made anew for every shape."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.table = 0.01 * torch.arange(x.shape[1], dtype=x.dtype) / x.shape[1]
        return x + self.table.reshape([1, -1] + [1] * (x.dim() - 2))


class AverageInTraining(Average):
    """The healthy twin: asks for the mode."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.average.mul_(1 - self.share).add_(self.share * x.detach().mean())
        return x


def adapting(planting: Planting) -> None:
    for norm in planting.modules:
        norm.__class__ = AdaptingNorm if isinstance(norm, OF_IMAGES) else Adapting1d


def learns(net: nn.Module, inputs: Inputs) -> bool:
    """Whether a prediction changes its state by what the input holds: behind a gain of 0 all leave the same."""
    return bool(_learned(net, inputs))


def _learned(net: nn.Module, inputs: Inputs) -> list[str]:
    """The entries of its state that one batch leaves other than another one."""
    states = []
    for rows in (slice(16), slice(16, 32)):
        states.append(copy.deepcopy(net))
        run(states[-1], tuple(value[rows] for value in inputs))
    one, other = (each.state_dict() for each in states)
    return [name for name, value in one.items() if not torch.equal(value, other[name])]


def _learning(module: Callable[[], nn.Module]) -> Callable[[Planting], None]:
    def plant(planting: Planting) -> None:
        put_behind(planting, lambda shape: module(), learns)
        holders = {name.rpartition(".")[0] for name in _learned(planting.net, planting.inputs)}
        places = planting.located or ()
        planting.located = tuple(
            place for place in places if any(f"{name}.".startswith(f"{place}.") for name in holders)
        )

    return plant


def _harmless(module: Callable[[], nn.Module]) -> Callable[[Planting], None]:
    return lambda planting: put_behind(planting, lambda shape: module(), always)


def _fault(
    name: str,
    module: Callable[[], nn.Module],
    severity: Severity | None = Severity.ERROR,
    scope: Scope = Scope.ONE,
    **more: Any,
) -> Fault:
    fields = {"targets": layers, "only": _MOVES_BUFFERS, "instead": _CARRIED if severity else (), **more}
    return _planted(name, (_learning if severity else _harmless)(module), severity, scope, **fields)


def _planted(
    name: str, plant: Callable[[Planting], None], severity: Severity | None, scope: Scope, **more: Any
) -> Fault:
    return Fault(name, "BN402", plant, severity, Question.EVAL_MODE, scope, needs=_RUNS, measured=True, **more)


FAULTS = [
    # Where a net calls it several times per forward, what one call moved enters the next: BN301.
    *(
        _planted(
            "a norm whose mean adapts",
            adapting,
            Severity.ERROR,
            scope,
            targets=using_statistics,
            only=IN_PYTHON,
            instead=_CARRIED,
            also=("BN301",),
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
    _fault("an average of what was seen", lambda: Average(0.1)),
    _fault("an average of what was seen", lambda: Average(0.1), scope=Scope.ALL),
    _fault("an average of what was seen, weakly", lambda: Average(1e-4)),
    _fault("a scale set by the first batch", ScaledOnce, only=IN_PYTHON, also=("BN301",)),  # the whole batch sets it
    _fault("a weight moved through NumPy", MovedByNumPy, only=IN_PYTHON, also=("BN301",)),
    _fault("an observer left on", Observed, only=IN_PYTHON | {"scripted"}),
    _fault("forwards are counted in a buffer", Forwards, None),
    _fault("a table in a buffer", Table, None, only=IN_PYTHON),
    _fault("an average in training only", lambda: AverageInTraining(0.1), None),
]
