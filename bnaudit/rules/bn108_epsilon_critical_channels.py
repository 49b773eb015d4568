"""Channels of small variance need the exact epsilon, and a second epsilon is in evidence.

## What it finds

Channels whose gain gamma / √(variance + epsilon) changes by more than 10 % between the epsilon that the layer has and
another one that this artifact gives a reason to think of:

- batch norms of the same file have different epsilons;
- the baseline that it is compared with has another one;
- the framework that wrote the file has another default (PyTorch and PaddlePaddle 1e-5; TensorFlow and Keras 1e-3).

One note per file. Without a second epsilon nothing is reported, and the ledger shows the share of such channels.

## Why it matters

Epsilon is an attribute of the code, not a tensor: a state dict does not carry it, and a re-implementation, a
hand-written engine or a replaced block takes its own default. Names and shapes agree, all tensors are equal, and the
outputs drift layer by layer.

## Worked arithmetic

Gain of a channel with gamma 1, between epsilon 1e-5 and 1e-3:

    variance 1        1.000 and 1.000      0.05 %
    variance 0.01     9.995 and 9.535      4.8 %
    variance 0.0047   14.57 and 13.25     10 %      the limit
    variance 0.0001   95.35 and 30.15    216 %

Below a variance of 0.0047 the exact epsilon matters. 9 of 11 published healthy checkpoints have 5 % or more such
channels, which is why small variances alone are no finding.

## How to fix

Set epsilon wherever the model is built or rebuilt, and check it after loading:

    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.eps = 1e-3

Or export to a format that carries it (ONNX, TorchScript, .pt2), or fold the norms into the convolutions.

## Limits

- Only layers whose epsilon the artifact states are judged: never a plain state dict.
- The change of the gain is computed, not its effect on the output: dead channels count as well.
- That the epsilons differ at all is BN209's matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from bnaudit.arithmetic import gain_change
from bnaudit.description import Description, NormLayer
from bnaudit.results import Hit, Severity
from bnaudit.rules import Case, rule

_DEFAULTS = (("torch", 1e-5), ("paddle", 1e-5), ("tf2onnx", 1e-3), ("tensorflow", 1e-3), ("keras", 1e-3))
"""Default epsilon of batch norm by a word in the producer's name (documentation of each framework)."""


_MOST_EPSILONS = 16
"""Of more different epsilons in one file the smallest and the largest are tried: they change gains most."""


class _Evidence(NamedTuple):
    epsilon: float
    source: str


@rule(id="BN108", severity=Severity.NOTE, limits={"gain_change": 0.1})
def epsilon_critical_channels(case: Case) -> Iterator[Hit]:
    """At most one hit, for the second epsilon that concerns most channels."""
    norms = list(_norms(case.subject))
    total = sum(layer.channels or 0 for layer in norms)
    worst: tuple[int, _Evidence | None, float] = (0, None, 0.0)
    for other in _second_epsilons(case, norms):
        counts = [(_critical(layer, other.epsilon, case.limits["gain_change"]), layer.eps or 0.0) for layer in norms]
        number = sum(count for count, _ in counts)
        if number > worst[0]:
            worst = (number, other, max(counts)[1])
    number, evidence, own = worst
    if evidence is not None:
        yield _hit(case, number, total, evidence, own)


def _norms(description: Description) -> Iterator[NormLayer]:
    """Batch norms whose epsilon and variance are both known."""
    for _, layer in description.layers:
        if layer.kind.is_batch and layer.var is not None and _is_usable(layer.eps):
            yield layer


def _is_usable(epsilon: float | None) -> bool:
    return epsilon is not None and 0.0 <= epsilon < math.inf


def _second_epsilons(case: Case, norms: list[NormLayer]) -> Iterator[_Evidence]:
    own = _distinct(norms)
    if len(own) > _MOST_EPSILONS:
        own = [min(own), max(own)]
    yield from (_Evidence(epsilon, "another layer") for epsilon in own)
    if case.comparison is not None:
        baseline = [
            layer for layer in case.comparison.baseline_part.layers if layer.kind.is_batch and _is_usable(layer.eps)
        ]
        yield from (_Evidence(epsilon, "the baseline") for epsilon in _distinct(baseline))
    producer = (case.subject.artifact.producer or "").lower()
    default = next((epsilon for word, epsilon in _DEFAULTS if word in producer), None)
    if default is not None:
        yield _Evidence(default, "the producer's default")


def _distinct(norms: list[NormLayer]) -> list[float]:
    """The epsilons, those that differ by float32 rounding once."""
    return list({f"{layer.eps:.3g}": layer.eps for layer in norms if layer.eps is not None}.values())


def _critical(layer: NormLayer, other: float, limit: float) -> int:
    eps, var = layer.eps, layer.var
    if eps is None or var is None or abs(eps - other) <= 1e-3 * max(eps, other):
        return 0
    lowest_is_usable = var > 0.0 if min(eps, other) == 0.0 else var >= 0.0
    return int((gain_change(var[lowest_is_usable & (var < math.inf)], eps, other) > limit).sum())


def _hit(case: Case, number: int, total: int, other: _Evidence, own: float) -> Hit:
    limit = case.limits["gain_change"]
    return Hit(
        message=f"{number:,} of {total:,} channels change their gain by more than {limit:.0%} between "
        f"epsilon {own:.3g} and {other.epsilon:.3g} ({other.source})",
        advice="set the exact epsilon wherever the model is rebuilt, or carry it in the file (ONNX, TorchScript, .pt2)",
        value=round(number / total, 4) if total else None,
    )
