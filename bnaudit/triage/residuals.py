"""How far a replay is from what was observed, and what the precision of the observed scores alone can make of it.

Floors, relative to the hypothesis' own output scale (measured on PyTorch and onnxruntime, CPU and GPU): float32 1e-6,
TensorFloat-32 and float16 1e-3, bfloat16 8e-3. Rounding to a step leaves an error with root mean square step ÷ √12.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bnaudit.diagnosis import Observed, ScoreKind
from bnaudit.triage.scoring import Array

PRECISIONS = {"": 1e-6, "fp32": 1e-6, "tf32": 1e-3, "fp16": 1e-3, "bf16": 8e-3}
_OF_DTYPE = {"": 0.0, "float16": 1e-3, "bfloat16": 8e-3}
_WIDEST = 8.0
"""Errors of arithmetic are at most this many times their root mean square."""
_SMALLEST = 1e-30


class Residual(NamedTuple):
    """Of one hypothesis."""

    value: float
    """Root mean square of (observed − replayed), or the share of labels that differ; inf without finite scores."""
    floor: float
    base: float
    """The floor without what the hypothesis' own half precision adds."""
    misses: float
    """Share of values further from the replay than rounding and arithmetic together can put them."""
    agreement: float | None
    values: int
    """Compared ones."""


class Precision(NamedTuple):
    """What is known of the observed scores' precision."""

    relative: float
    step: float | None
    kind: ScoreKind

    @classmethod
    def of(cls, observed: Observed, kind: ScoreKind, stated: str) -> Precision:
        """stated: one of PRECISIONS."""
        return cls(PRECISIONS[stated], observed.step, kind)

    @property
    def is_labels(self) -> bool:
        """Whether scores are equal or not, and nothing in between."""
        return self.kind is ScoreKind.LABELS

    def residual(self, replayed: Array, seen: Array, dtype: str = "") -> Residual:
        """replayed, seen: (observations, columns); NaN in `seen` was not logged. dtype: of the hypothesis."""
        logged = np.isfinite(seen)
        if self.kind is ScoreKind.LABELS:
            return _of_labels(replayed, seen, logged & ~np.isnan(replayed))
        if not logged.any() or not np.isfinite(replayed[logged]).all():
            return Residual(np.inf, 0.0, 0.0, 1.0, None, int(logged.sum()))
        units = self._units(replayed)
        difference = np.abs(seen - replayed)[logged]
        own = max(self.relative, _OF_DTYPE[dtype])
        limit = (self.step or 0.0) / 2 * (1 + 1e-6) + _WIDEST * own * units[logged] + 1e-6 * np.abs(replayed[logged])
        return Residual(
            value=float(np.sqrt(np.mean(difference**2))),
            floor=self._floor(replayed, units, logged, own),
            base=self._floor(replayed, units, logged, self.relative),
            misses=float(np.mean(difference > limit)) if self.step else 0.0,
            agreement=_agreement(replayed, seen, logged),
            values=int(logged.sum()),
        )

    def apart(self, one: Array, other: Array) -> float:
        """Distance of two replays, in the unit of a residual."""
        if self.kind is ScoreKind.LABELS:
            both = ~np.isnan(one) & ~np.isnan(other)
            return float(np.mean(one[both] != other[both])) if both.any() else 0.0
        known = np.isfinite(one) & np.isfinite(other)
        if not known.all():
            return 0.0 if np.array_equal(one, other, equal_nan=True) else np.inf
        return float(np.sqrt(np.mean((one - other) ** 2)))

    def floor(self, replayed: Array) -> float:
        """Of a replay that is compared with observed scores in all its values."""
        if self.kind is ScoreKind.LABELS or not np.isfinite(replayed).all():
            return 0.0
        return self._floor(replayed, self._units(replayed), np.isfinite(replayed), self.relative)

    def _floor(self, replayed: Array, units: Array, logged: NDArray[np.bool_], relative: float) -> float:
        arithmetic = float(np.sqrt(np.mean((relative * units[logged]) ** 2)))
        if not self.step:
            return arithmetic
        rounded = np.round(replayed[logged] / self.step) * self.step
        own = float(np.sqrt(np.mean((replayed[logged] - rounded) ** 2)))
        uniform = self.step / math.sqrt(12)
        # Probabilities that round to 0 or 1 are nearer than that, and would hide what the others show.
        return max(min(uniform, own) if self.kind is ScoreKind.PROBABILITIES else uniform, arithmetic)

    def _units(self, replayed: Array) -> Array:
        """What a relative error of 1 before the last activation makes of each score."""
        if self.kind is not ScoreKind.PROBABILITIES:
            return np.full(replayed.shape, float(np.sqrt(np.nanmean(replayed**2))))
        with np.errstate(all="ignore"):
            kept = np.clip(replayed, _SMALLEST, 1 - 1e-12)
            scores = np.log(kept / (1 - kept))
            scale = max(float(np.sqrt(np.nanmean(scores**2))), 1.0)
        return scale * kept * (1 - kept) + 0.1 * np.abs(replayed)


def _of_labels(replayed: Array, seen: Array, compared: NDArray[np.bool_]) -> Residual:
    if not compared.any():
        return Residual(np.inf, 0.0, 0.0, 1.0, None, 0)
    share = float(np.mean(replayed[compared] != seen[compared]))
    return Residual(share, 0.0, 1.0 / int(compared.sum()), share, 1 - share, int(compared.sum()))


def _agreement(replayed: Array, seen: Array, logged: NDArray[np.bool_]) -> float | None:
    """Share of rows whose highest entry is the same one; None: a single column, or rows that were logged in part."""
    if replayed.shape[1] < 2 or not logged.all():
        return None
    return float(np.mean(replayed.argmax(axis=1) == seen.argmax(axis=1)))
