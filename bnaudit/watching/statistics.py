"""Running statistics before and after a forward, compared all at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch.utils._python_dispatch import _disable_current_modes

from bnaudit.watching.layers import WatchedLayer


class Snapshot(NamedTuple):
    """The statistics of layers on one device in one dtype, one after the other."""

    layers: tuple[WatchedLayer, ...]
    sizes: tuple[int, ...]
    """Channels of each layer."""
    mean: torch.Tensor
    var: torch.Tensor


class Change(NamedTuple):
    """What one forward did to one layer: sums over its channels."""

    changed: int
    """Channels in which any bit of a statistic differs."""
    broken: int
    """Channels with NaN or infinity afterwards."""
    moved: float
    """Σ (mean after − mean before)²."""
    spread_before: float
    """Σ variance."""
    spread_after: float
    channels: int


def taken(layers: Iterable[WatchedLayer]) -> list[Snapshot]:
    """Copies of the statistics as they are now: one read of memory per device and dtype, and no synchronization."""
    groups: dict[tuple[torch.device, torch.dtype], list[tuple[WatchedLayer, torch.Tensor, torch.Tensor]]]
    groups = defaultdict(list)
    for layer in layers:
        found = layer.statistics()
        if found is not None:
            groups[found[0].device, found[0].dtype].append((layer, *found))
    with _disable_current_modes(), torch.no_grad():
        return [
            Snapshot(
                tuple(layer for layer, _, _ in group),
                tuple(mean.numel() for _, mean, _ in group),
                torch.cat([mean.reshape(-1) for _, mean, _ in group]),
                torch.cat([var.reshape(-1) for _, _, var in group]),
            )
            for group in groups.values()
        ]


def joined(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """Snapshots of different layers as few: one per device and dtype."""
    groups: dict[tuple[torch.device, torch.dtype], list[Snapshot]] = defaultdict(list)
    for snap in snapshots:
        groups[snap.mean.device, snap.mean.dtype].append(snap)
    with _disable_current_modes(), torch.no_grad():
        return [group[0] if len(group) == 1 else _one(group) for group in groups.values()]


def _one(group: Sequence[Snapshot]) -> Snapshot:
    return Snapshot(
        tuple(layer for snap in group for layer in snap.layers),
        tuple(size for snap in group for size in snap.sizes),
        torch.cat([snap.mean for snap in group]),
        torch.cat([snap.var for snap in group]),
    )


def changes(before: Sequence[Snapshot], after: Sequence[Snapshot]) -> list[tuple[WatchedLayer, Change]]:
    """What became of every layer, in the order of `before`; one synchronization per device and dtype.

    Layers whose statistics were made, moved or resized in between are left out: there is nothing to compare.
    """
    found: list[tuple[WatchedLayer, Change]] = []
    later = {(snap.layers, snap.sizes, snap.mean.dtype, snap.mean.device): snap for snap in after}
    for snap in before:
        then = later.get((snap.layers, snap.sizes, snap.mean.dtype, snap.mean.device))
        if then is not None:
            found.extend(_compared(snap, then))
    return found


def _compared(before: Snapshot, after: Snapshot) -> list[tuple[WatchedLayer, Change]]:
    wide = torch.float32 if before.mean.device.type == "mps" else torch.float64  # Metal has no float64
    with _disable_current_modes(), torch.no_grad():
        changed = _differs(before.mean, after.mean) | _differs(before.var, after.var)
        broken = ~(torch.isfinite(after.mean) & torch.isfinite(after.var))
        moved = (after.mean.to(wide) - before.mean.to(wide)).square_()
        values = (changed.to(wide), broken.to(wide), moved, before.var.to(wide), after.var.to(wide))
        # Slices are summed one by one: index_add is thirty times slower on a CPU, and not deterministic on a GPU.
        parts = torch.split(torch.stack(values), list(before.sizes), 1)
        rows = torch.stack([part.sum(1) for part in parts]).tolist()
    return [
        (layer, Change(int(changed), int(broken), moved, var_before, var_after, size))
        for layer, size, (changed, broken, moved, var_before, var_after) in zip(
            before.layers, before.sizes, rows, strict=True
        )
    ]


def _differs(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """NaN that stays NaN does not differ."""
    return before.ne(after) & ~(before.isnan() & after.isnan())
