"""BN302: something random in eval mode that is no dropout."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from fault_matrix.faults.places import NOT_OLDER_ONNX, Share, always, differs_in_a_row, layers, put_behind
from fault_matrix.faults.saved_state import WHOLE_MODULES
from fault_matrix.values import Facet, Fault, Planting, Scope
from run_time.more_nets import Sampled
from torch import nn

from bnaudit.results import Question, Severity


class Noise(nn.Module):
    """Adds the noise of its training in eval mode, too."""

    def __init__(self, size: float) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.size * torch.randn_like(x)


class DroppedPath(nn.Module):
    """Stochastic depth by hand that forgot to ask for the mode."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.flatten(1)
        kept = (torch.rand_like(rows[:, :1]) < 0.5).to(rows.dtype)
        return (rows * (0.95 + 0.1 * kept)).reshape(x.shape)


class Masked(nn.Module):
    """Masks tokens at random, as in training."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.bernoulli(torch.full_like(x, 0.95))


class NoiseOfNumPy(nn.Module):
    """Draws outside of the framework."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.05 * torch.from_numpy(np.random.standard_normal(tuple(x.shape)).astype("float32"))


class NoiseInTraining(nn.Module):
    """The healthy twin: asks for the mode."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            return x + 0.05 * torch.randn_like(x)
        return x


class NoiseOfNoSize(nn.Module):
    """Draws, and adds nothing of it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.0 * torch.rand_like(x)


def _fault(
    name: str,
    module: Callable[[], nn.Module],
    severity: Severity | None = Severity.ERROR,
    scope: Scope = Scope.ONE,
    **more: Any,
) -> Fault:
    def plant(planting: Planting) -> None:
        put_behind(planting, lambda shape: module(), differs_in_a_row if severity else always)

    fields = {"needs": frozenset({Facet.FORWARD, Facet.RUNS}), "targets": layers, **more}
    return Fault(name, "BN302", plant, severity, Question.EVAL_MODE, scope, measured=True, **fields)


FAULTS = [
    _fault("noise", partial(Noise, 0.05)),
    _fault("noise", partial(Noise, 0.05), scope=Scope.ALL),
    _fault("noise, a ten-thousandth", partial(Noise, 1e-4)),
    _fault("a path dropped by hand", DroppedPath),
    _fault("masked at random", Masked, also=("BN403", "BN404")),  # for a norm behind, zeros are another distribution
    _fault("samples a mixture", lambda: Share(Sampled(), 0.05), only=NOT_OLDER_ONNX),  # it has no aten::exponential
    _fault("NumPy's noise", NoiseOfNumPy, whole=True, only=WHOLE_MODULES),
    _fault("noise in training only", NoiseInTraining, None),
    _fault("noise of size 0", NoiseOfNoSize, None),
]
