"""Runs two models on the same inputs: live modules, or files with options."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from small_nets import ResNet
from torch import nn

import bnaudit
from bnaudit.comparison import ComparedRun, OutputPair
from bnaudit.matching import match
from bnaudit.measuring import Chosen, choose
from bnaudit.parting import compare_runs
from bnaudit.progress import Silent
from bnaudit.records import replace
from bnaudit.run_options import RunOptions
from bnaudit.torch_session.live_layers import live_part

INPUTS: NDArray[np.float32] = np.random.default_rng(0).normal(size=(40, 3, 8, 8)).astype(np.float32)


def with_statistics(model: nn.Module, seed: int = 1) -> Any:
    """The model with statistics and affines as a trained one has them."""
    generator = torch.Generator().manual_seed(seed)

    def drawn(like: torch.Tensor, low: float, high: float) -> torch.Tensor:
        return torch.rand(like.shape, generator=generator) * (high - low) + low

    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is not None:
                module.running_mean.copy_(drawn(module.running_mean, -0.5, 0.5))
                module.running_var.copy_(drawn(module.running_var, 0.3, 1.3))  # type: ignore[union-attr]
            weight = getattr(module, "weight", None)
            if weight is not None and weight.dim() == 1:
                weight.copy_(drawn(weight, 0.5, 1.5))
                module.bias.copy_(drawn(weight, -0.2, 0.2))  # type: ignore[union-attr, operator]
    return model.eval()


def resnet() -> Any:
    """Ten batch norms, seeded."""
    torch.manual_seed(0)
    return with_statistics(ResNet())


def changed(model: Any, change: Any) -> Any:
    """A copy to which this was done."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        change(other)
    return other


def exported(model: nn.Module, path: Path, size: int = 2, *, folded: bool = False, fixed: bool = False) -> Path:
    """ONNX with a free batch axis unless `fixed`; norms are kept unless `folded`."""
    dtype = next((p.dtype for p in model.parameters()), torch.float32)
    torch.onnx.export(
        model,
        (torch.zeros(size, 3, 8, 8, dtype=dtype),),
        str(path),
        dynamo=False,
        do_constant_folding=folded,
        training=torch.onnx.TrainingMode.EVAL if folded else torch.onnx.TrainingMode.PRESERVE,
        input_names=["x"],
        dynamic_axes=None if fixed else {"x": {0: "batch"}},
    )
    return path


def run(baseline: Any, subject: Any, **options: Any) -> ComparedRun:
    """Both on INPUTS, unless the options say otherwise. A file of a state dict needs `model`."""
    given = RunOptions(**{"inputs": INPUTS, **options})
    sides = [_side(each, given) for each in (baseline, subject)]
    (first, one), (second, other) = sides
    return compare_runs(first, second, given, match(other, one), Silent())


def _side(model: Any, options: RunOptions) -> tuple[Chosen, Any]:
    if not isinstance(model, Path):
        return choose(None, None, replace(options, model=model)), live_part(model)
    description = bnaudit.describe(model)
    own = replace(options, model=None) if description.parts[0].carrier.has_code else options
    return choose(model, description, own), description.parts[0]


def beyond(run: ComparedRun) -> list[OutputPair]:
    """Outputs that differ by more than rounding."""
    return [pair for pair in run.outputs if not pair.shift.exact and not pair.shift.difference <= pair.floor]
