"""What the hypotheses may look at: the model's norm layers and what was logged, never the observed scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bnaudit.description import NormKind, NormLayer
from bnaudit.records import Record
from bnaudit.triage.input_faults import InputFault


class Situation(Record, eq=False):
    """What is known before anything observed is looked at."""

    layers: tuple[NormLayer, ...]
    """Batch norms with running statistics, in the order of the model."""
    inputs: int
    rows: NDArray[np.int64]
    """Input of every observation."""
    requests: NDArray[np.int64] | None = None
    has_companions: bool = False
    parts: tuple[str, ...] = ()
    """Other parts of the checkpoint that can be run."""
    faults: tuple[InputFault, ...] = ()
    """Faults in preparing inputs that change the given ones."""
    precision: str = ""
    """As the user stated it."""
    fixed_batch: int | None = None
    shut_parts: tuple[tuple[str, str], ...] = ()
    """Other parts that cannot be run, and what that needs."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the layers."""
        return tuple(layer.name for layer in self.layers)

    def stages(self) -> tuple[tuple[str, ...], ...]:
        """Layers by the first piece of their names that is not common to all; those with at least two."""
        pieces = [name.split(".") for name in self.names]
        depth = 0
        while pieces and all(len(piece) > depth + 1 for piece in pieces) and len({p[depth] for p in pieces}) == 1:
            depth += 1
        groups: dict[str, list[str]] = {}
        for name, piece in zip(self.names, pieces, strict=True):
            groups.setdefault(piece[depth], []).append(name)
        return tuple(tuple(group) for group in groups.values() if 2 <= len(group) < len(pieces))


def replaceable(layers: Sequence[NormLayer]) -> tuple[NormLayer, ...]:
    """The batch norms whose stored statistics can be exchanged."""
    kinds = (NormKind.BATCH, NormKind.SYNC_BATCH, NormKind.FROZEN_BATCH)
    return tuple(layer for layer in layers if layer.kind in kinds and layer.mean is not None and layer.var is not None)


def listed(names: Sequence[str], every: int) -> str:
    """Layer names for a sentence: at most four by name, `all 53 norm layers` when there are no others."""
    if len(names) == every:
        return f"all {every} norm layers" if every > 1 else f"the norm layer {names[0]}"
    if len(names) > 4:
        return f"{len(names)} of {every} norm layers ({', '.join(names[:3])}, …)"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
