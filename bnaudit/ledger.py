"""The ledger: for each norm layer, which observations, which mode, which saved state."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from bnaudit.description import CUMULATIVE, Carrier, Evidence, NormKind, NormLayer, Part, StoredTensor
from bnaudit.initial_state import initial_share
from bnaudit.modes import keeps_buffers
from bnaudit.name_patterns import Universe, compress
from bnaudit.results import LedgerRow

_BEHIND = ("unread", "without values")
"""Faults that follow the name of the tensor; the others stand before it."""


def ledger(parts: Iterable[Part], covers: Callable[[str], bool], one_row_each: bool = False) -> tuple[LedgerRow, ...]:
    """One row per run of like layers, or per layer, in the order of the parts."""
    rows: list[LedgerRow] = []
    for part in parts:
        groups: dict[tuple[object, ...], list[NormLayer]] = {}
        for position, layer in enumerate(part.layers):
            if covers(layer.name):
                groups.setdefault(_key(part, layer, position if one_row_each else None), []).append(layer)
        names = Universe(layer.name for layer in part.layers)
        for members in groups.values():
            by_name = {layer.name: layer for layer in members}
            for label, run in compress(by_name, names):
                rows.append(_row(part, label, [by_name[name] for name in run]))
    return tuple(rows)


def _key(part: Part, layer: NormLayer, position: int | None) -> tuple[object, ...]:
    return (layer.kind, mode(part, layer), state(layer), layer.eps, _momentum(layer), position)


def _row(part: Part, label: str, layers: list[NormLayer]) -> LedgerRow:
    channels = [layer.channels for layer in layers if layer.channels is not None]
    counters = [layer.counter for layer in layers if layer.counter is not None and not math.isnan(layer.counter)]
    residuals = [share for layer in layers if (share := initial_share(layer)) is not None]
    return LedgerRow(
        layers=tuple(layer.name for layer in layers),
        label=label,
        part=part.name,
        kind=layers[0].kind.value,
        channels=(min(channels), max(channels)) if channels else None,
        counter=(min(counters), max(counters)) if counters else None,
        residual=max(residuals) if residuals else None,
        mode=mode(part, layers[0]),
        state=state(layers[0]),
        eps=layers[0].eps,
        momentum=_momentum(layers[0]),
        needs_exact_eps=needs_exact_eps(layers),
    )


def needs_exact_eps(layers: Iterable[NormLayer]) -> float | None:
    """Share of channels whose gain 1/√(variance + ε) moves by more than 10 % between ε = 1e-5 and 1e-3."""
    critical = total = 0
    for layer in layers:
        if layer.var is not None and layer.kind.is_batch:
            # √((v + 1e-3)/(v + 1e-5)) > 1.1 solved for v, so that no logarithm or root meets a hostile value.
            critical += int(((layer.var >= 0) & (layer.var < (1e-3 - 1.21e-5) / 0.21)).sum())
            total += layer.var.size
    return critical / total if total else None


def mode(part: Part, layer: NormLayer) -> str:
    """Which statistics the artifact will use, as far as it says."""
    if not _has_modes(layer):
        return "no modes"
    if layer.statistics_from_input or _has_only_the_batch(layer):
        return "batch, fixed"
    if layer.graph_training is not None:
        return "training, fixed" if layer.graph_training else "eval, fixed"
    if layer.training is not None:
        return "training" if layer.training else "eval"
    return "not saved" if part.carrier is Carrier.STATE_DICT else "unknown"


def _has_only_the_batch(layer: NormLayer) -> bool:
    return layer.kind.is_batch and layer.tracks_statistics is False and not keeps_buffers(layer)


def _has_modes(layer: NormLayer) -> bool:
    if layer.kind is NormKind.INSTANCE:
        return layer.tracks_statistics is not False
    return layer.kind is NormKind.UNKNOWN or (layer.kind.is_batch and layer.kind is not NormKind.FROZEN_BATCH)


def state(layer: NormLayer) -> str:
    """What is saved of the layer's statistics, in a few words."""
    faults = _faults(layer)
    if faults:
        return ", ".join(faults)
    if layer.running_mean is None and layer.running_var is None:
        return "affine only" if layer.weight is not None else "no tensors"
    if layer.num_batches_tracked is None:
        # Graphs and frozen norms have no place for one.
        never = layer.kind is NormKind.FROZEN_BATCH or layer.evidence is Evidence.OPERATOR
        return "complete" if never else "no counter"
    return "complete"


def _faults(layer: NormLayer) -> list[str]:
    mean, var = layer.running_mean, layer.running_var
    if mean is None and var is None:
        lost = layer.num_batches_tracked is not None or (layer.tracks_statistics is True and layer.kind.is_batch)
        return ["no mean, no variance"] if lost else []
    found = [(_fault(tensor), name) for tensor, name in ((mean, "mean"), (var, "variance"))]
    if found[0][0] == found[1][0]:
        return [found[0][0]] if found[0][0] else []
    return [f"{name} {fault}" if fault in _BEHIND else f"{fault} {name}" for fault, name in found if fault]


def _fault(tensor: StoredTensor | None) -> str:
    import numpy as np

    if tensor is None:
        return "no"
    if tensor.values is None:
        return "unread" if tensor.unread else "without values"
    return "" if np.isfinite(tensor.values).all() else "non-finite"


def _momentum(layer: NormLayer) -> str:
    if layer.momentum is None:
        return ""
    return "cumulative" if layer.momentum is CUMULATIVE else f"{layer.momentum:g}"
