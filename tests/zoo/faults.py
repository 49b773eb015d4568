"""Faults that are planted in the state dict of a trained net, each with the rule that must find it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

import torch

State = dict[str, Any]


class Layers(NamedTuple):
    """Names of the layers that a fault may be planted in."""

    tracking: Sequence[str]
    """Those with mean, variance and counter that ran in training."""
    affine: Sequence[str]
    """Those with a weight and a bias, of any kind."""

    @property
    def both(self) -> list[str]:
        """Batch norms that ran, and have a weight and a bias."""
        return sorted({*self.tracking} & {*self.affine})


class Planted(NamedTuple):
    """What must be found."""

    fault: str
    rule: str
    severity: str
    layers: tuple[str, ...]
    """The layers that the rule must name, no more and no fewer."""


class Fault(NamedTuple):
    """`plant` changes the state and returns the layers where the fault then is."""

    name: str
    rule: str
    severity: str
    plant: Callable[[State, Layers, Random], tuple[str, ...]]
    needs: str = "tracking"
    """Which of the layers: `tracking`, `affine` or `both`."""
    fewest: int = 1
    """2: it needs a second batch norm to be seen against."""


def copy_of(state: State) -> State:
    """A state dict of its own, `_metadata` too; tensors are shared, and faults replace them."""
    copied = OrderedDict(state)
    copied._metadata = getattr(state, "_metadata", None)  # type: ignore[attr-defined]
    return copied


def plant(state: State, layers: Layers, random: Random) -> Planted | None:
    """Plant one fault that fits the net; None when it has no norm layer to plant one in."""
    fitting = [fault for fault in FAULTS if fits(fault, layers)]
    if not fitting:
        return None
    fault = random.choice(fitting)
    return Planted(fault.name, fault.rule, fault.severity, fault.plant(state, layers, random))


def fits(fault: Fault, layers: Layers) -> bool:
    """Whether the net has the layers that the fault needs."""
    return len(getattr(layers, fault.needs)) >= fault.fewest


def _key(layer: str, name: str) -> str:
    return f"{layer}.{name}" if layer else name


def _with_channel(name: str, value: Callable[[torch.Tensor, int], float], among: str = "tracking") -> Any:
    """One channel of one layer's tensor gets a value, computed from the tensor as it was."""

    def plant(state: State, layers: Layers, random: Random) -> tuple[str, ...]:
        layer = random.choice(getattr(layers, among))
        tensor = state[_key(layer, name)].clone()
        channel = random.randrange(tensor.numel())
        tensor[channel] = value(tensor, channel)
        state[_key(layer, name)] = tensor
        return (layer,)

    return plant


def _with_tensor(name: str, value: Callable[[torch.Tensor], torch.Tensor | None], among: str = "tracking") -> Any:
    """One layer's tensor is replaced, or dropped where the value is None."""

    def plant(state: State, layers: Layers, random: Random) -> tuple[str, ...]:
        layer = random.choice(getattr(layers, among))
        tensor = value(state[_key(layer, name)])
        if tensor is None:
            del state[_key(layer, name)]
        else:
            state[_key(layer, name)] = tensor
        return (layer,)

    return plant


def _reset(state: State, layers: Layers, random: Random) -> tuple[str, ...]:
    layer = random.choice(layers.tracking)
    _set_statistics(state, layer, torch.zeros_like, torch.ones_like)
    return (layer,)


def _dry_run(state: State, layers: Layers, _: Random) -> tuple[str, ...]:
    """Statistics that were reset, then one forward of zeros at momentum 0.1: all layers, as it happens."""
    for layer in layers.tracking:
        _set_statistics(state, layer, torch.zeros_like, lambda tensor: torch.full_like(tensor, 0.9))
        state[_key(layer, "num_batches_tracked")] = torch.tensor(1)
    return tuple(layers.tracking)


def _immature(state: State, layers: Layers, _: Random) -> tuple[str, ...]:
    """Statistics that were reset, then 3 updates at momentum 0.1 towards the true ones, in all layers."""
    share = 0.9**3
    for layer in layers.tracking:
        _set_statistics(
            state, layer, lambda mean: (1 - share) * mean, lambda var: share + (1 - share) * var.clamp(min=0)
        )
        state[_key(layer, "num_batches_tracked")] = torch.tensor(3)
    return tuple(layers.tracking)


def _half(state: State, layers: Layers, random: Random) -> tuple[str, ...]:
    layer = random.choice(layers.tracking)
    _set_statistics(state, layer, torch.Tensor.bfloat16, torch.Tensor.bfloat16)
    return (layer,)


def _set_statistics(
    state: State,
    layer: str,
    mean: Callable[[torch.Tensor], torch.Tensor],
    var: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    for name, value in (("running_mean", mean), ("running_var", var)):
        state[_key(layer, name)] = value(state[_key(layer, name)])


def _drop_all_statistics(state: State, layers: Layers, _: Random) -> tuple[str, ...]:
    """All means, as a copy that forgets some buffers leaves it."""
    for layer in layers.tracking:
        del state[_key(layer, "running_mean")]
    return tuple(layers.tracking)


def _far_above(tensor: torch.Tensor, _: int) -> float:
    return float(max(tensor.max(), 1e-4)) * 1e7


FAULTS = (
    Fault("NaN in one variance", "BN106", "error", _with_channel("running_var", lambda *_: float("nan"))),
    Fault("inf in one mean", "BN106", "error", _with_channel("running_mean", lambda *_: float("inf"))),
    Fault("one negative variance", "BN107", "error", _with_channel("running_var", lambda *_: -0.5)),
    Fault("statistics of one layer reset", "BN103", "error", _reset),
    Fault("a forward of zeros after a reset", "BN104", "warning", _dry_run),
    Fault("three updates after a reset", "BN105", "warning", _immature),
    Fault("running_mean dropped", "BN101", "error", _with_tensor("running_mean", lambda _: None)),
    Fault("running_var dropped", "BN101", "error", _with_tensor("running_var", lambda _: None)),
    Fault("every running_mean dropped", "BN101", "error", _drop_all_statistics),
    Fault("counter dropped", "BN102", "warning", _with_tensor("num_batches_tracked", lambda _: None)),
    Fault("counter averaged", "BN111", "warning", _with_tensor("num_batches_tracked", lambda n: n.double() + 0.25)),
    Fault("counter negative", "BN111", "warning", _with_tensor("num_batches_tracked", lambda n: -n)),
    Fault("counter twice as high", "BN112", "note", _with_tensor("num_batches_tracked", lambda n: 2 * n), fewest=2),
    Fault("statistics in bfloat16", "BN110", "warning", _half),
    Fault("a variance far above all others", "BN109", "note", _with_channel("running_var", _far_above)),
    Fault("one mean missing a channel", "BN114", "error", _with_tensor("running_mean", lambda mean: mean[:-1].clone())),
    Fault("NaN in one weight", "BN115", "error", _with_channel("weight", lambda *_: float("nan"), "affine"), "affine"),
    Fault("inf in one bias", "BN115", "error", _with_channel("bias", lambda *_: float("-inf"), "affine"), "affine"),
    Fault("a weight of zeros", "BN116", "note", _with_tensor("weight", torch.zeros_like, "both"), "both"),
)

IN_EVERY_CARRIER = (
    "NaN in one variance",
    "inf in one mean",
    "one negative variance",
    "statistics of one layer reset",
    "NaN in one weight",
    "inf in one bias",
    "a weight of zeros",
)
"""Faults of values that any carrier holds; counters, precision and absence are the state dict's own."""
