"""BN301: something other than a norm makes a prediction depend on the other samples of its batch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from fault_matrix.faults.places import (
    NOT_DYNAMO,
    Share,
    Symptom,
    always,
    layers,
    moves_anchors,
    put_behind,
    scaled_with_inputs,
    without_padding,
)
from fault_matrix.values import Facet, Fault, Planting, Scope
from run_time.more_nets import Centred, LargestOfBatch, Rank, Rolled
from torch import nn

from bnaudit.results import Question, Severity
from sample_models.digit_defects import RunningMean

STRONG, WEAK = 0.05, 1e-4


class WeightedByBatch(nn.Module):
    """A softmax over the wrong axis: the batch instead of the features."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.softmax(0)


class AttendsToBatch(nn.Module):
    """(N, C) taken for one sequence of N tokens."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ x.t() / x.shape[1], 1) @ x


class RangeOfBatch(nn.Module):
    """Scales to [0, 1] between the smallest and the largest value of the whole batch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low, high = x.min(), x.max()
        return (x - low) / (high - low + 1e-6)


class SpreadOfBatch(nn.Module):
    """Adds the mean standard deviation over the batch to every feature, as some critics of GANs do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + (x.var(0, unbiased=False) + 1e-8).sqrt().mean()


class SortedBatch(nn.Module):
    """Sorts every feature along the batch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sort(0)[0]


class RoundedInRangeOfBatch(nn.Module):
    """Rounds to 8 bits in the range of the whole batch, as dynamic quantization does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        step = x.abs().max() / 127 + 1e-9
        return (x / step).round() * step


class CentredBySample(nn.Module):
    """The healthy twin: subtracts each sample's own mean."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(1, keepdim=True)


class AttendsToItself(nn.Module):
    """The healthy twin: the softmax is over the features."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.softmax(1)


class ReadsBatchWithoutEffect(nn.Module):
    """Takes the batch's mean for a log and does not use it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = x.mean(0, keepdim=True)
        return x + 0.0 * seen.detach().clamp(-1, 1)


def mixing(module: Callable[[], nn.Module], share: float, shows: Symptom) -> Callable[[Planting], None]:
    """Puts the module behind the chosen layers with this share of their answers."""
    return lambda planting: put_behind(planting, lambda shape: Share(module(), share), shows)


_MIXERS: tuple[tuple[str, Callable[[], nn.Module], float], ...] = (
    ("centred by the batch", Centred, STRONG),
    ("centred by the batch, weakly", Centred, WEAK),
    ("scaled by the batch's largest", LargestOfBatch, STRONG),
    ("the row before", Rolled, 1.0),
    ("the rank in the batch", Rank, 1.0),
    ("the mean of the rows so far", RunningMean, STRONG),
    ("softmax over the batch", WeightedByBatch, STRONG),
    ("attention over the batch", AttendsToBatch, STRONG),
    ("attention over the batch, weakly", AttendsToBatch, WEAK),
    ("scaled into the batch's range", RangeOfBatch, STRONG),
    ("spread of the batch", SpreadOfBatch, STRONG),
    ("sorted along the batch", SortedBatch, STRONG),
    ("rounded in the batch's range", RoundedInRangeOfBatch, 1.0),
)


_RANGES = (LargestOfBatch, RangeOfBatch, RoundedInRangeOfBatch)


def _fault(
    name: str,
    module: Callable[[], nn.Module],
    share: float,
    severity: Severity | None,
    scope: Scope = Scope.ONE,
    targets: Callable[[nn.Module], list[str]] = layers,
) -> Fault:
    return Fault(
        name,
        "BN301",
        mixing(module, share, moves_anchors if severity else always),
        severity,
        Question.NEIGHBOURS,
        scope,
        targets=targets,
        whole=scope is Scope.ALL,  # behind two places that mix, no others are looked for until these are mended
        needs=frozenset({Facet.FORWARD, Facet.RUNS}),
        measured=True,
        also=("BN403", "BN404") if severity else (),  # for a norm behind, what it gives is another distribution
        only=NOT_DYNAMO if module is LargestOfBatch else frozenset(),  # amax() without axes is not converted
    )


FAULTS = [
    *(
        _fault(name, module, share, Severity.ERROR, targets=scaled_with_inputs if module in _RANGES else layers)
        for name, module, share in _MIXERS
    ),
    _fault("centred by the batch", Centred, STRONG, Severity.ERROR, Scope.ALL),
    _fault("centred by each sample's own mean", CentredBySample, STRONG, None, targets=without_padding),
    _fault("softmax over the features", AttendsToItself, STRONG, None, targets=without_padding),
    _fault("the batch's mean, unused", ReadsBatchWithoutEffect, STRONG, None),
]
