"""BN605: norms that an exporter folded into their convolutions, held against the net that they were folded from.

The folded ONNX graph is written of a damaged net and compared with the healthy one, so that its fold is another.
Where a norm of the net does not stand behind a convolution it stays a norm, and is told as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from fault_matrix.faults.compared_state import move_statistics
from fault_matrix.values import Fault, Planting, Scope, with_trained_affines
from torch import nn

from bnaudit.results import Severity

FOLDED = frozenset({"ONNX, folded"})
_BASELINES = {"against a state dict": "state dict", "against a pickled module": "pickled module"}
_KEPT = ("BN601", "BN602", "BN604", "BN608")
"""What is said of a norm that was not folded."""


def nothing(planting: Planting) -> None:
    """It is folded rightly."""


def another_epsilon(planting: Planting, change: float) -> None:
    """Gains change by at most so much; of the channel of smallest variance by that."""
    for norm in planting.modules:
        smallest = float(norm.running_var.min())
        norm.eps = (smallest + norm.eps) * (1.0 + change) ** 2 - smallest


def without_beta(planting: Planting) -> None:
    for norm in planting.modules:
        nn.init.zeros_(norm.bias)


def without_gamma(planting: Planting) -> None:
    for norm in planting.modules:
        nn.init.ones_(norm.weight)


def permuted(planting: Planting) -> None:
    """The channels of all that the norm has in another order."""
    for norm in planting.modules:
        order = torch.arange(norm.num_features).roll(1)
        for value in (norm.weight.data, norm.bias.data, norm.running_mean, norm.running_var):
            value.copy_(value[order].clone())


def rounded(planting: Planting) -> None:
    """The last bit of every weight of the convolutions."""
    with torch.no_grad():
        for module in planting.net.modules():
            if isinstance(module, nn.modules.conv._ConvNd):
                weight = module.weight
                weight.copy_(torch.nextafter(weight, torch.full_like(weight, torch.inf)))


def _behind(net: nn.Module) -> dict[str, str]:
    """Convolution → the norm right behind it by name: `conv1` and `bn1`, `0` and `1`."""
    norms = set(with_trained_affines(net))
    names = [name for name, _ in net.named_modules()]
    pairs = ((one, other) for one, other in pairwise(names) if _is_plain(net.get_submodule(one)) and other in norms)
    return {one: other for one, other in pairs if one.rpartition(".")[0] == other.rpartition(".")[0]}


def _is_plain(module: nn.Module) -> bool:
    """A convolution whose weight is a constant, and not made anew for every forward."""
    return type(module) in (nn.Conv1d, nn.Conv2d) and not module._forward_pre_hooks


def behind_convolutions(net: nn.Module) -> list[str]:
    """The norms that are folded."""
    return list(_behind(net).values())


def with_telling_affine(net: nn.Module) -> list[str]:
    """Those of them whose gamma is not nearly 1 and whose beta is not nearly 0."""
    norms: list[tuple[str, Any]] = [(name, net.get_submodule(name)) for name in behind_convolutions(net)]
    return [name for name, norm in norms if (norm.weight - 1).abs().max() > 0.02 and norm.bias.abs().max() > 0.02]


def with_bias(net: nn.Module) -> list[str]:
    """Convolutions with such a norm and a bias of some size."""
    biases = ((name, net.get_submodule(name).bias) for name in _behind(net))
    return [name for name, bias in biases if bias is not None and bool(bias.abs().max() > 0.02)]


def without_bias(planting: Planting) -> None:
    """The convolution's own bias, forgotten."""
    for convolution in planting.modules:
        nn.init.zeros_(convolution.bias)


def _faults(
    name: str,
    plant: Callable[[Planting], None],
    severity: Severity | None,
    scopes: tuple[Scope, ...] = (Scope.ALL, Scope.ONE),
    baselines: tuple[str, ...] = tuple(_BASELINES),
    **more: Any,
) -> Iterator[Fault]:
    for words in baselines:
        for scope in scopes:
            shared: dict[str, Any] = {"targets": behind_convolutions, "instead": _KEPT, **more}
            baseline = _BASELINES[words]
            yield Fault(
                f"{name} {words}", "BN605", plant, severity, scope=scope, only=FOLDED, baseline=baseline, **shared
            )


_EPSILON_KNOWN = ("against a pickled module",)

FAULTS = [
    *_faults("folded rightly", nothing, None, (Scope.NET,)),
    *_faults("convolutions rounded", rounded, None, (Scope.NET,)),
    *_faults(
        "folded with another epsilon", partial(another_epsilon, change=0.2), Severity.ERROR, baselines=_EPSILON_KNOWN
    ),
    *_faults(
        "folded with an epsilon that changes a thousandth",
        partial(another_epsilon, change=4e-4),
        None,
        baselines=_EPSILON_KNOWN,
        also=("BN604",),  # of a norm that was not folded
    ),
    *_faults("folded with other statistics", partial(move_statistics, deviations=0.3, ratio=1.4), Severity.ERROR),
    *_faults("folded without beta", without_beta, Severity.ERROR, targets=with_telling_affine),
    *_faults("folded without the convolution's bias", without_bias, Severity.ERROR, targets=with_bias),
    *_faults("folded without gamma", without_gamma, Severity.ERROR, targets=with_telling_affine),
    *_faults("folded in another order of channels", permuted, Severity.ERROR, targets=with_telling_affine),
]
