"""The ledger with one row per layer: the groups of the audit's ledger taken apart again, each with its own numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bnaudit.description import NormLayer
from bnaudit.initial_state import initial_share
from bnaudit.results import Audit


class LayerRow(NamedTuple):
    """One norm layer."""

    part: str
    name: str
    kind: str
    channels: int | None
    counter: float | None
    residual: float | None
    assumed: bool
    """The momentum is not in the artifact: PyTorch's default was taken."""
    mode: str
    state: str
    eps: float | None
    momentum: str
    rules: tuple[str, ...]
    """Ids of those that found something here and were not accepted."""
    layer: NormLayer


def layer_rows(audit: Audit) -> list[LayerRow]:
    """One row for each layer of the ledger, in the order of the artifact."""
    found: dict[tuple[str, str | None], set[str]] = {}
    for finding in audit.open_findings:
        found.setdefault((finding.part, finding.layer), set()).add(finding.rule)
    rows = {(row.part, row.name): row for row in _rows(audit, found)}
    order = [(part.name, layer.name) for part, layer in audit.description.layers]
    return [rows[place] for place in dict.fromkeys(order) if place in rows]


def _rows(audit: Audit, found: dict[tuple[str, str | None], set[str]]) -> Iterator[LayerRow]:
    layers = {(part.name, layer.name): layer for part, layer in audit.description.layers}
    for run in audit.ledger:
        for name in run.layers:
            layer = layers.get((run.part, name))
            if layer is None:
                continue
            yield LayerRow(
                part=run.part,
                name=name,
                kind=run.kind,
                channels=layer.channels,
                counter=layer.counter,
                residual=initial_share(layer),
                assumed=layer.momentum is None,
                mode=run.mode,
                state=run.state,
                eps=run.eps,
                momentum=run.momentum,
                rules=tuple(sorted(found.get((run.part, name), ()))),
                layer=layer,
            )
