"""The feed itself: the batches of an experiment, each built from the pool when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from bnaudit.feeds.arrangement import Choice, Rows
from bnaudit.feeds.lengths import Lengths
from bnaudit.feeds.pools import Pool
from bnaudit.feeds.values import scaled
from bnaudit.session import Batch, NotPossibleError


class Arranged:
    """A Feed over a pool of samples, see the protocol."""

    def __init__(
        self,
        pool: Pool,
        rows: Rows,
        choice: Choice,
        *,
        source: str,
        synthetic: bool,
        seed: int,
        fixed: int | None = None,
        lengths: Lengths | None = None,
        remarks: tuple[str, ...] = (),
        guessed_layout: bool = False,
    ) -> None:
        self.source = source
        self.synthetic = synthetic
        self.samples = choice.samples
        self.copy = rows.copy
        self.alone_row = rows.alone
        self.companions_differ = any(one != other for one, other in zip(choice.base, choice.swapped, strict=True))
        self.remarks = remarks
        self.guessed_layout = guessed_layout
        self._pool, self._rows, self._choice = pool, rows, choice
        self._seed, self._fixed, self._lengths = seed, fixed, lengths

    @property
    def pool(self) -> Pool:
        """All samples that the batches are made of."""
        return self._pool

    @cached_property
    def base(self) -> Batch:
        """Anchors and companions."""
        return self._pool.take(self._choice.base).batch(self._rows.anchors)

    @cached_property
    def swapped(self) -> Batch:
        """The same anchors, other companions."""
        return self._pool.take(self._choice.swapped).batch(self._rows.anchors)

    @property
    def scaled(self) -> Batch:
        """`base` with companions × 100, or redrawn."""
        whole, rows = self._pool.take(self._choice.base), list(self._rows.companions)
        generator = np.random.default_rng([self._seed, 1])
        return scaled(whole, rows, generator).batch(self._rows.anchors)

    @property
    def alone(self) -> Batch:
        """The one anchor, as often as the artifact's fixed batch asks for."""
        return self._pool.take([self._choice.base[self.alone_row]] * (self._fixed or 1)).batch((0,))

    def few(self, size: int) -> Batch:
        """The anchor of `alone` in the middle of `size` − 1 companions. Raises NotPossibleError for a fixed batch and
        for more companions than there are."""
        companions = [self._choice.base[row] for row in self._rows.companions]
        if size - 1 > len(companions):
            raise NotPossibleError(f"a batch of {size} needs {size - 1} companions and there are {len(companions)}")
        return self._among(companions[: size - 1])

    def pair(self, swapped: bool) -> Batch:
        """The anchor of `alone` behind one companion, or behind the one that takes its place. Raises NotPossibleError
        for a fixed batch and for a feed without companions."""
        base, other = self._choice.base, self._choice.swapped
        rows = [row for row in self._rows.companions if base[row] != other[row]] or list(self._rows.companions)
        if not rows:
            raise NotPossibleError("a batch of one sample has no companions")
        return self._among([other[rows[0]] if swapped else base[rows[0]]])

    def poisoned(self) -> Batch | None:
        """`base` with NaN in the companions' floating inputs."""
        rows = list(self._rows.companions)
        whole = self._pool.take(self._choice.base)
        if not rows or not any(array.dtype.kind in "fc" for array, _ in whole.arrays()):
            return None
        for array, axis in whole.arrays():
            if array.dtype.kind in "fc":
                np.moveaxis(array, axis, 0)[rows] = np.nan
        return whole.batch(self._rows.anchors)

    def lengthened(self) -> tuple[Batch, int, tuple[int, int]] | None:
        """Companions of another length, where the user's loader has a collate function to pad them."""
        if self._lengths is None:
            return None
        base = self._pool.take(self._choice.base)
        made = self._lengths.lengthened(self._rows, self._choice, base)
        if made is None:
            return None
        pool, axis, lengths = made
        return pool.batch(self._rows.anchors), axis, lengths

    def _among(self, companions: Sequence[int]) -> Batch:
        size, place = len(companions) + 1, (len(companions) + 1) // 2
        if self._fixed not in (None, size):
            raise NotPossibleError(f"the artifact fixes its batch at {self._fixed}, so {size} cannot be run")
        samples = list(companions)
        samples.insert(place, self._choice.base[self.alone_row])
        return self._pool.take(samples).batch((place,))
