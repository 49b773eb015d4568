"""Which invariants a forward broke, from sums over channels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from torch import nn

from bnaudit.name_patterns import listed
from bnaudit.watching.layers import WatchedLayer
from bnaudit.watching.statistics import Change
from bnaudit.watching.violations import Invariant, Violation

FRESH = 20
"""Updates after which statistics are no longer fresh.

The first ones lead from mean 0 and variance 1 to the data and are as large as the data are. Measured on 1,454 short
trainings from scratch (four nets, five optimizers, momentum 0.01 to 1 and None, batches of 2 to 64): from the 20th
update on, a mean moved by at most 5.4 σ and σ grew at most 8.3-fold in one forward, but in runs whose activations
exploded (learning rate 1 or pixels up to 255 and no norm between the first layers), where σ grew 20-fold to
13,000-fold. Of 1,175 further ones under the watch, adversarial ones among them, three such runs alarmed and no other.
"""
IN_TURNS = 1000
"""Updates in a row while frozen, after which a layer that has trained before counts as frozen: in a GAN it is so in
turns, of up to a hundred forwards (the critic's in WGAN)."""
_FORGETS = 0.99
"""Of what was usual, what remains after a forward."""
_UNUSUAL = 4.0
"""A mean that moved by less than this many times what was usual lately is on its way, not off it: in a slow average
(momentum 0.01) the approach to the data takes hundreds of steps that become smaller."""

Intends = Callable[[Invariant, str], bool]
InTraining = Callable[[WatchedLayer], bool]
_Broken = tuple[Invariant, str, float | str, float | str]
"""Invariant, message, value, limit."""


class Verdicts:
    """Judges one forward after the other and remembers what it has told."""

    def __init__(self, model: nn.Module, sigmas: float, intends: Intends) -> None:
        self._model = model
        self._sigmas = sigmas
        self._intends = intends
        self._told: set[tuple[Invariant, str]] = set()

    def judged(
        self, found: Sequence[tuple[WatchedLayer, Change]], in_training: InTraining | None, forward: int
    ) -> list[Violation]:
        """The violations of one forward, gravest first; of each invariant and layer only the first one ever.

        in_training: whether a layer was in training mode when it ran, or before or after the forward; None: what
        changed did so in a time with more in it than one forward, so that sizes of changes say nothing, nor do modes
        of how it came.
        """
        broken: dict[Invariant, list[tuple[str, _Broken]]] = {}
        for layer, change in found:
            for entry in self._layer(layer, change, in_training):
                key = (entry[0], layer.name)
                if key not in self._told and not self._intends(*key):
                    self._told.add(key)
                    broken.setdefault(entry[0], []).append((layer.name, entry))
        return [self._violation(broken[invariant], forward) for invariant in Invariant if invariant in broken]

    def _violation(self, entries: Sequence[tuple[str, _Broken]], forward: int) -> Violation:
        invariant, message, value, limit = entries[0][1]
        names = tuple(name for name, _ in entries)
        shown = listed(names, [*names, *(name for name, _ in self._model.named_modules())])
        return Violation(
            invariant=invariant,
            layers=names,
            listed=shown,
            message=message,
            value=value,
            limit=limit,
            forward=forward,
        )

    def _layer(self, layer: WatchedLayer, change: Change, in_training: InTraining | None) -> Iterator[_Broken]:
        if change.broken:
            count = f"{change.broken} of {change.channels} channels"
            yield Invariant.FINITE, f"NaN or infinity in the running statistics of {count}", change.broken, 0
        if not change.changed:
            return
        frozen = _is_frozen(layer)
        if in_training is not None and not in_training(layer):
            count = f"{change.changed} of {change.channels} channels"
            yield Invariant.EVAL, f"in eval mode, yet running statistics of {count} changed", "changed", "kept"
        elif (
            frozen and (in_training or layer.module.training) and any(p.requires_grad for p in self._model.parameters())
        ):
            subject = "weight and bias are" if _has_parameters(layer) else "the block around it is"
            message = f"{subject} frozen, but a forward in training mode moved its running statistics"
            yield Invariant.FROZEN, message, "moved", "kept"
        if in_training is not None and not change.broken:
            yield from self._moved(layer, change)

    def _moved(self, layer: WatchedLayer, change: Change) -> Iterator[_Broken]:
        """Movements in units of the layer's σ: root mean squares over its channels, before the forward or usually."""
        floor = change.channels * float(getattr(layer.module, "eps", 1e-5) or 0.0)
        reference = max(change.spread_before, layer.usual_spread) + floor
        moved = math.sqrt(change.moved)
        sigmas = moved / math.sqrt(reference) if reference > 0 else 0.0
        growth = math.sqrt(max(change.spread_after + floor, 0.0) / reference) if reference > 0 else 0.0
        unusual = moved > _UNUSUAL * layer.usual_move
        layer.updates += 1
        layer.usual_move = max(_FORGETS * layer.usual_move, moved)
        layer.usual_spread = max(_FORGETS * layer.usual_spread, change.spread_after)
        if sigmas > self._sigmas and unusual and not _is_fresh(layer):
            yield Invariant.STEADY, f"its running mean moved by {sigmas:.3g} σ in one forward", sigmas, self._sigmas
        elif growth > self._sigmas and not _is_fresh(layer):
            yield Invariant.STEADY, f"its running σ grew {growth:.3g}-fold in one forward", growth, self._sigmas


def _is_frozen(layer: WatchedLayer) -> bool:
    """Whether a layer whose statistics moved just now is frozen, for good as far as can be told."""
    if layer.trains:
        layer.has_trained, layer.frozen_moves = True, 0
        return False
    layer.frozen_moves += 1
    return not layer.has_trained or layer.frozen_moves >= IN_TURNS


def _has_parameters(layer: WatchedLayer) -> bool:
    return next(layer.module.parameters(recurse=False), None) is not None


def _is_fresh(layer: WatchedLayer) -> bool:
    """By the layer's own counter, which survives a restart; without one by what the watch has seen."""
    counter = layer.counter()
    return (counter if counter is not None else layer.updates) <= FRESH
