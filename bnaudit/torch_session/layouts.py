"""Where the samples of a batch stand in one activation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

WHOLE = -1
"""In place of a dimension: the tensor is one sample's, all of it."""


class Layout(NamedTuple):
    """Dimension `dim` counts outer × samples × inner places: 1 × N × T where a sequence is folded into the batch,
    2 × N × 1 where two batches were concatenated."""

    dim: int
    samples: int
    """Samples in it, one after the other."""
    outer: int = 1
    inner: int = 1
    start: int = 0
    """The first of them."""

    @property
    def is_folded(self) -> bool:
        """The dimension counts something besides samples."""
        return self.outer * self.inner != 1

    @property
    def length(self) -> int:
        """Places of the dimension."""
        return self.outer * self.samples * self.inner

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether a tensor of this shape can have it."""
        return self.dim == WHOLE or (self.dim < len(shape) and shape[self.dim] == self.length)

    def moved(self, dim: int) -> Layout:
        """The same along another dimension."""
        return self._replace(dim=dim)

    def whole(self, sample: int | None = None) -> Layout:
        """That of a tensor that is one sample's, by default the first's."""
        return Layout(WHOLE, 1, start=self.start if sample is None else sample)
