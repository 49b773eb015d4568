"""BN403 to BN407: stored statistics that are not those of the inputs, and norms that cannot have good ones."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from fault_matrix.carriers import CARRIERS
from fault_matrix.faults.configuration import that_train
from fault_matrix.faults.places import always, layers, put_behind, replace, run, without_padding
from fault_matrix.values import OF_IMAGES, Facet, Fault, NoEffectError, Planting, Scope
from torch import nn

from bnaudit.results import Question, Severity

_RUNS = frozenset({Facet.FORWARD, Facet.RUNS})
_STORED = _RUNS | {Facet.STATISTICS}
_ALL_SAMPLES = {"batch_size": 32}
"""Two batches of 32 in training mode: all 64 samples but the anchors of the second."""


def stale(sd: float, factor: float) -> Callable[[Planting], None]:
    """The mean off by so many standard deviations, up or down from channel to channel, and the variance by a factor.

    The layer's own inputs stay as they are, so that only it is off.
    """

    def plant(planting: Planting) -> None:
        planting.options.update(_ALL_SAMPLES)
        for norm in planting.modules:
            shift_statistics(norm, sd, factor, planting.rng)

    return plant


def stale_for_many(sd: float) -> Callable[[Planting], None]:
    """Stale means, audited with more than 64 anchors, so that it is told how many decisions flip."""

    def plant(planting: Planting) -> None:
        stale(sd, 1.0)(planting)
        versions = [tuple(value * scale for value in planting.inputs) for scale in (1.0, 0.99, 1.01, 0.98, 1.02)]
        planting.inputs = tuple(torch.cat(values) for values in zip(*versions, strict=True))
        planting.options.update(batch_size=160, anchors=80)
        if _flipping(planting) < 0.2:
            raise NoEffectError("the scores move without another of them becoming the largest")

    return plant


def _flipping(planting: Planting) -> float:
    """The share of decisions that are others when the norms alone are in training mode."""
    (evaluated,), (trained,) = (
        run(planting.net, planting.inputs),
        run(_norms_in_training(planting.net), planting.inputs),
    )
    return float((evaluated.argmax(1) != trained.argmax(1)).float().mean())


def _norms_in_training(net: nn.Module) -> nn.Module:
    trained = copy.deepcopy(net).train()
    for module in trained.modules():
        module.training = module.training and hasattr(module, "running_mean")
    return trained


def classifying(net: nn.Module) -> list[str]:
    """Those of nets with one tensor in and the scores of several classes out."""
    one_input = len(inspect.signature(net.forward).parameters) == 1
    last = [net.get_submodule(name) for name in layers(net)][-1:]
    decides = bool(last) and isinstance(last[0], nn.Linear) and last[0].out_features > 2
    return that_train(net) if one_input and decides else []


def shift_statistics(norm: Any, sd: float, factor: float, rng: Any) -> None:
    """In place; of `sd` the sign is drawn for each channel."""
    channels = norm.running_mean.shape[0]
    signs = torch.from_numpy(rng.choice([-1.0, 1.0], channels)).to(norm.running_mean.dtype)
    norm.running_mean += sd * signs * norm.running_var.sqrt()
    norm.running_var *= factor


class CalledTwice(nn.Module):
    """A norm that also normalizes another population; of that a thousandth is used."""

    def __init__(self, norm: Any, sd: float, factor: float) -> None:
        super().__init__()
        self.norm = norm
        shape = (1, -1, *[1] * (2 if isinstance(norm, OF_IMAGES) else 0))
        self.register_buffer("centre", norm.running_mean.clone().reshape(shape), persistent=False)
        self.register_buffer("spread", norm.running_var.sqrt().reshape(shape), persistent=False)
        self.sd, self.factor = sd, math.sqrt(factor)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        centre, spread = self.centre, self.spread
        if x.dim() == 3:
            centre, spread = centre.unsqueeze(2), spread.unsqueeze(2)
        other = centre + self.factor * (x - centre) + self.sd * spread
        return self.norm(x) + 1e-3 * self.norm(other)


def reused(sd: float, factor: float, near: bool = False) -> Callable[[Planting], None]:
    """`near`: just under the limit, which only a norm that ran once before can be held to."""

    def plant(planting: Planting) -> None:
        if near and any(len(_received(planting, name)) > 1 for name in planting.layers):
            raise NoEffectError("it runs on populations that differ as it is")
        planting.options.update(_ALL_SAMPLES)
        for name in planting.layers:
            replace(planting.net, name, CalledTwice(planting.net.get_submodule(name), sd, factor).eval())
        planting.located = tuple(f"{name}.norm" for name in planting.layers)

    return plant


def pooled(x: torch.Tensor) -> torch.Tensor:
    """(N, C): the mean over all other axes."""
    return x.flatten(2).mean(2) if x.dim() > 2 else x


class Gated(nn.Module):
    """Scales its features a little by what a norm over few values makes of them."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (1 + 0.05 * torch.tanh(self.norm(pooled(x)))).reshape(x.shape[:2] + (1,) * (x.dim() - 2))


def gated_by(norm: Callable[[int], nn.Module]) -> Callable[[Planting], None]:
    def plant(planting: Planting) -> None:
        put_behind(planting, lambda shape: Gated(norm(shape[1])), always, once=True)
        planting.located = tuple(f"{name}.norm" for name in planting.located or ())

    return plant


def _one_group_per_feature(features: int) -> nn.Module:
    norm = nn.GroupNorm(features, features)
    nn.init.constant_(norm.bias, 0.1)
    return norm


class PooledNorm(nn.Module):
    """A batch norm of one value per sample and channel, with the statistics of what it receives."""

    def __init__(self, shape: torch.Size) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(shape[1])
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + (1e-3 * self.norm(pooled(x))).reshape(x.shape[:2] + (1,) * (x.dim() - 2))


def trained_with(batch_size: int) -> Callable[[Planting], None]:
    """A norm of single values, trained with batches of this size."""

    def plant(planting: Planting) -> None:
        put_behind(planting, PooledNorm, always, once=True)
        planting.options["training_batch_size"] = batch_size
        planting.located = tuple(f"{name}.norm" for name in planting.located or ())
        trained = copy.deepcopy(planting.net).train()
        if not all(trained.get_submodule(name).training for name in planting.located):
            raise NoEffectError("the net's own train() keeps it in eval mode")
        for name in planting.located:
            _settle(planting.net.get_submodule(name), torch.cat(_received(planting, name)))
        others = (name for name in that_train(planting.net) if _has_single_values(planting, name))
        planting.located = tuple({*planting.located, *others})
        planting.also_at = tuple(name for name in that_train(planting.net) if _values(planting, name, batch_size) < 16)

    return plant


def _values(planting: Planting, name: str, batch_size: int) -> float:
    """Values per channel in a batch of this size, in the smallest call."""
    shapes = [each.shape for each in _received(planting, name)]
    return min((batch_size * shape[2:].numel() for shape in shapes), default=math.inf)


def _received(planting: Planting, name: str) -> list[torch.Tensor]:
    """Its inputs of one forward with the norms in training mode, one per call."""
    seen: list[torch.Tensor] = []
    trained = _norms_in_training(planting.net)
    trained.get_submodule(name).register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    with torch.no_grad():
        trained(*planting.inputs)
    return seen


def _has_single_values(planting: Planting, name: str) -> bool:
    """Whether it, too, has one value per sample and channel."""
    samples = len(planting.inputs[0])
    return any(call.numel() == samples * call.shape[1] for call in _received(planting, name))


def _settle(norm: Any, values: torch.Tensor) -> None:
    """Statistics and a counter as if it had trained for long."""
    norm.running_mean.copy_(values.mean(0))
    norm.running_var.copy_(values.var(0))
    norm.num_batches_tracked.fill_(80)


def _fault(
    rule: str, name: str, plant: Callable[[Planting], None], severity: Severity | None, *scopes: Scope, **more: Any
) -> list[Fault]:
    fields = {"question": Question.GAP, "needs": _RUNS, "measured": True, "targets": that_train, **more}
    return [Fault(name, rule, plant, severity, scope=scope, **fields) for scope in scopes or (Scope.ONE,)]


_stale = partial(_fault, "BN404", needs=_STORED, also=("BN403",))
_reused = partial(_fault, "BN407", also=("BN403",))  # both populations together may be off what is stored
_UNFOLDED = frozenset(CARRIERS) - {"ONNX, folded"}
"""What is folded changes what the next layer receives, for which it may be more than a limit."""
_BOTH = (Scope.ALL, Scope.ONE)
FAULTS = [
    *_stale("mean 1 sd off", stale(1.0, 1.0), Severity.WARNING, *_BOTH),
    *_stale("mean 3 sd off", stale(3.0, 1.0), Severity.WARNING),
    *_stale("mean 0.7 sd off", stale(0.7, 1.0), Severity.WARNING),
    *_stale("mean 0.35 sd off", stale(0.35, 1.0), None, *_BOTH, only=_UNFOLDED),
    *_stale("variance four times too large", stale(0.0, 4.0), Severity.WARNING, *_BOTH),
    *_stale("variance a quarter", stale(0.0, 0.25), Severity.WARNING, *_BOTH),
    *_stale("variance 2.6 times too large", stale(0.0, 2.6), Severity.WARNING),
    *_stale("variance 1.5 times too large", stale(0.0, 1.5), None, *_BOTH, only=_UNFOLDED),
    *_fault(
        "BN403",
        "decisions flip",
        stale_for_many(3.0),
        Severity.ERROR,
        Scope.ALL,
        needs=_STORED,
        targets=classifying,
        whole=True,
        also=("BN404",),
    ),
    *_reused("two populations 1 sd apart", reused(1.0, 1.0), Severity.WARNING, *_BOTH),
    *_reused("two populations, variance factor 4", reused(0.0, 4.0), Severity.WARNING, *_BOTH),
    *_reused("two populations 0.35 sd apart", reused(0.35, 1.0, near=True), None, *_BOTH),
    *_reused("two populations, variance factor 1.5", reused(0.0, 1.5, near=True), None, *_BOTH),
    *_fault(
        "BN406",
        "one value per group",
        gated_by(_one_group_per_feature),
        Severity.ERROR,
        question=None,
        targets=without_padding,
    ),
    *_fault(
        "BN406",
        "all features in one group",
        gated_by(partial(nn.GroupNorm, 1)),
        None,
        question=None,
        targets=without_padding,
    ),
    *_fault(
        "BN405",
        "one value per channel in training",
        trained_with(1),
        Severity.ERROR,
        question=None,
        targets=without_padding,
    ),
    *_fault(
        "BN405",
        "8 values per channel in training",
        trained_with(8),
        Severity.WARNING,
        question=None,
        targets=without_padding,
    ),
    *_fault(
        "BN405",
        "15 values per channel in training",
        trained_with(15),
        Severity.WARNING,
        question=None,
        targets=without_padding,
    ),
    *_fault(
        "BN405", "16 values per channel in training", trained_with(16), None, question=None, targets=without_padding
    ),
]
