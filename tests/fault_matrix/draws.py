"""Measured statistics at half and at twice their limits, in seeded draws of layers and inputs.

The nets' statistics are measured on 4,096 samples. Each draw audits with 64 others of the same distribution in batches
of 32, so that a layer is judged by 59 different samples: more than the 16 that the rules ask for on variances, and so
many that an effect of twice a limit is more than four standard errors. At half a limit nothing may be said aloud; at
twice the limit the rule must name the layers that were moved and no others.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from fault_matrix.architectures.perceptron import table
from fault_matrix.architectures.training import images
from fault_matrix.faults.places import replace
from fault_matrix.faults.representativeness import CalledTwice, shift_statistics
from fault_matrix.judging import healthy
from fault_matrix.values import Drawn, Expectation, Inputs, tracked
from run_time.subjects_of_runs import stands_at
from torch import nn

import bnaudit
from bnaudit.results import Severity
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings

DRAWN = 100
_BATCH = 32
_SAMPLES: dict[str, Callable[..., Inputs]] = {"plain conv net": images, "MLP with BatchNorm1d": table}
"""Architecture → draws inputs of the distribution that it was trained on."""

Damage = Callable[[nn.Module, list[str], np.random.Generator], list[str]]
"""Damages these layers of the net in place; returns the names at which findings must stand."""


class _Setting(NamedTuple):
    name: str
    rule: str
    damage: Damage
    found: bool
    all_layers: bool
    run: dict[str, Any]


@cache
def _settled(architecture: str) -> nn.Module:
    """The trained net with the statistics of 4,096 samples, from training-mode batches of the size that is audited."""
    net = healthy(architecture)
    norms: list[Any] = [net.get_submodule(name) for name in tracked(net)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    with torch.no_grad():
        net.train()
        for (batch,) in zip(
            *(value.split(_BATCH) for value in _SAMPLES[architecture](draw=0, count=4096)), strict=True
        ):
            net(batch)
    for norm in norms:
        norm.momentum = 0.1
    return net.eval()


def _stale(sd: float, octaves: float, net: nn.Module, names: list[str], rng: np.random.Generator) -> list[str]:
    """Means off by so many sd, variances by so many factors of 2, too large or too small."""
    for name in names:
        factor = 2.0 ** (octaves * rng.choice([-1.0, 1.0]))
        shift_statistics(net.get_submodule(name), sd, factor, rng)
    return names


def _reused(sd: float, octaves: float, net: nn.Module, names: list[str], rng: np.random.Generator) -> list[str]:
    """Each of these norms also runs on a population so far from its own."""
    for name in names:
        factor = 2.0 ** (octaves * rng.choice([-1.0, 1.0]))
        replace(net, name, CalledTwice(net.get_submodule(name), sd * rng.choice([-1.0, 1.0]), factor).eval())
    return [f"{name}.norm" for name in names]


def _untouched(net: nn.Module, names: list[str], rng: np.random.Generator) -> list[str]:
    return names


def _drawn(setting: _Setting, architecture: str) -> Drawn:
    right = sum(_is_right(setting, architecture, draw) for draw in range(1, DRAWN + 1))
    where = "" if setting.run else ", all layers" if setting.all_layers else ", one layer"
    expected = Expectation.FOUND if setting.found else Expectation.SILENT
    return Drawn(f"{setting.name}{where}, {architecture}", setting.rule, expected, DRAWN, right)


def _is_right(setting: _Setting, architecture: str, draw: int) -> bool:
    seed = zlib.crc32(f"{setting.name} {setting.all_layers} {architecture} {draw}".encode())
    rng = np.random.default_rng(seed)
    net = copy.deepcopy(_settled(architecture))
    names = tracked(net)
    chosen = names if setting.all_layers else [names[rng.integers(len(names))]]
    places = setting.damage(net, chosen, rng)
    (inputs,) = _SAMPLES[architecture](draw=seed % 10**9)
    run = RunOptions(**{"inputs": inputs, "batch_size": _BATCH, "seed": draw, **setting.run})
    (audit,) = bnaudit.audit(net, Settings(run=run)).audits
    loud = [each for each in audit.findings if each.severity >= Severity.WARNING]
    told = [each for each in loud if each.rule == setting.rule]
    if not setting.found:
        return not loud
    if {each.rule for each in loud} - {setting.rule, "BN403"}:
        return False
    named = all(any(stands_at(each, place) for each in told) for place in places)
    return named and all(any(stands_at(each, place) for place in places) for each in told)


def _statistics(
    rule: str, damage: Callable[..., list[str]], words: str, all_layers: tuple[bool, ...]
) -> list[_Setting]:
    """Half and twice the limits of the mean, 0.5 sd, and of the variance, a factor 2."""
    sizes = (("half the limit", 0.5, False), ("twice the limit", 2.0, True))
    return [
        _Setting(f"{words} {share} ({told})", rule, partial(damage, sd, octaves), found, every, {})
        for share, times, found in sizes
        for sd, octaves, told in ((0.5 * times, 0.0, f"{0.5 * times} sd"), (0.0, times, f"variance 2^±{times}"))
        for every in all_layers
    ]


def unrepresentative() -> Iterable[Drawn]:
    """BN404 in every layer and in one."""
    for architecture in _SAMPLES:
        for setting in _statistics("BN404", _stale, "stored statistics off by", (False, True)):
            yield _drawn(setting, architecture)


def reused() -> Iterable[Drawn]:
    """BN407 in one layer."""
    for architecture in _SAMPLES:
        for setting in _statistics("BN407", _reused, "populations apart by", (False,)):
            yield _drawn(setting, architecture)


def few_values() -> Iterable[Drawn]:
    """BN405 at half of its limit of 16 values per channel, where it speaks, and at twice, where it does not."""
    for m, found in ((8, True), (32, False)):
        setting = _Setting(f"{m} values per channel", "BN405", _untouched, found, True, {"training_batch_size": m})
        yield _drawn(setting, "MLP with BatchNorm1d")


DRAWS: dict[str, Callable[[], Iterable[Drawn]]] = {
    "BN404": unrepresentative,
    "BN405": few_values,
    "BN407": reused,
}
"""Name → draws them all."""
