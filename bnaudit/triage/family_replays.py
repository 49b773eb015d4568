"""What the families may ask of the model, answered by a triage's replays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bnaudit.diagnosis import ScoreKind
from bnaudit.session import Mode, NotPossibleError, Watch
from bnaudit.triage.replaying import Replayer
from bnaudit.triage.residuals import Precision
from bnaudit.triage.scoring import Array
from bnaudit.triage.situation import Situation
from bnaudit.triage_families import LayerMoments
from bnaudit.variation import Variation

_MOST = 64
"""Observations that draws are made for; of more, evenly chosen ones."""


class FamilyReplays:
    """See `bnaudit.triage_families.Replays`."""

    def __init__(self, replayer: Replayer, situation: Situation, precision: Precision) -> None:
        self._replayer = replayer
        count = len(replayer.observed.rows)
        self._chosen = np.unique(np.linspace(0, count - 1, min(count, _MOST)).astype(np.int64)).tolist()
        self.observed: Array = replayer.values[self._chosen]
        self.as_saved: Array = replayer.scores(Variation(), observations=self._chosen)
        self.rows: NDArray[np.int64] = replayer.observed.rows[self._chosen]
        self.inputs = replayer.inputs
        self.norms = situation.names if Mode.TRAINING_NORMS in replayer.materials.session.modes else ()
        self.drops = any((entry.probability or 0) > 0 for entry in replayer.materials.session.part.mode_dependent)
        self.is_labels = precision.is_labels
        self.is_probabilities = precision.kind is ScoreKind.PROBABILITIES
        self.floor = precision.residual(self.as_saved, self.observed).floor

    def scores(
        self, variation: Variation, groups: Sequence[Sequence[int]] | None = None, seed: int | None = None
    ) -> Array:
        """See `Replayer.scores`."""
        return self._replayer.scores(variation, groups, seed, self._chosen)

    def batch_moments(self, rows: Sequence[int]) -> Mapping[str, LayerMoments]:
        """Of every layer of `norms`, of one forward of these inputs in training mode; the variance is unbiased."""
        trace = self._replayer.trace(rows, Mode.TRAINING_NORMS, Watch.CALLS)
        found: dict[str, LayerMoments] = {}
        for call in trace.norm_calls:
            if call.layer is None or call.layer in found or call.batch_mean is None or call.batch_var is None:
                continue
            if call.stored_mean is None or call.stored_var is None or call.values_per_statistic < 2:
                continue
            unbiased = call.values_per_statistic / (call.values_per_statistic - 1)
            momentum = 0.1 if call.momentum is None else call.momentum
            found[call.layer] = LayerMoments(
                call.batch_mean, call.batch_var * unbiased, call.stored_mean, call.stored_var, momentum
            )
        if not found:
            raise NotPossibleError("no norm layer was seen to normalize with the batch")
        return found
