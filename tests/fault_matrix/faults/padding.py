"""BN304: a prediction depends on how far its batch was padded."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch
from fault_matrix.faults.places import BEYOND_ROUNDING, Symptom, always, put_behind, run
from fault_matrix.faults.saved_state import IN_PYTHON
from fault_matrix.values import Facet, Fault, Inputs, Planting, Scope
from torch import nn

from bnaudit.results import Question, Severity

_OF_ANY_LENGTH = IN_PYTHON | {"scripted"}
"""A graph is exported for one length."""


class SpreadOverTime(nn.Module):
    """Adds the mean over all frames, those of the padding included, as a squeeze without a mask does."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.share * x.mean(2, keepdim=True)


class SpreadOverChannels(nn.Module):
    """The healthy twin: the mean over the channels of a frame."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.05 * x.mean(1, keepdim=True)


def over_frames(net: nn.Module) -> list[str]:
    """The convolutions of a net over padded frames, which is given their lengths, too."""
    if len(inspect.signature(net.forward).parameters) != 2:
        return []
    return [name for name, module in net.named_modules() if isinstance(module, nn.Conv1d)]


def differs_when_padded(net: nn.Module, inputs: Inputs) -> bool:
    """Whether eight more frames of zeros behind every utterance move the outputs."""
    frames, lengths = (value[:16] for value in inputs)
    (before,), (after,) = run(net, (frames, lengths)), run(net, (nn.functional.pad(frames, (0, 0, 0, 8)), lengths))
    return float((before - after).abs().max() / before.abs().max()) > BEYOND_ROUNDING


def _fault(name: str, module: Callable[[], nn.Module], shows: Symptom, severity: Severity | None) -> Fault:
    def plant(planting: Planting) -> None:
        put_behind(planting, lambda shape: module(), shows)

    return Fault(
        name,
        "BN304",
        plant,
        severity,
        Question.NEIGHBOURS,
        Scope.ONE,
        targets=over_frames,
        needs=frozenset({Facet.FORWARD, Facet.RUNS}),
        measured=True,
        whole=True,
        only=_OF_ANY_LENGTH,
    )


FAULTS = [
    _fault("mean over the padding, too", lambda: SpreadOverTime(0.2), differs_when_padded, Severity.WARNING),
    _fault("mean over the padding, too, weakly", lambda: SpreadOverTime(0.01), differs_when_padded, Severity.WARNING),
    _fault("mean over the channels", SpreadOverChannels, always, None),
]
