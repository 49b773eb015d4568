"""The batches of an experiment: the user's inputs or seeded synthetic ones, arranged as anchors and companions."""

from __future__ import annotations

from typing import Protocol

from bnaudit.session import Batch


class Feed(Protocol):
    """The batches that one experiment feeds; each is built when it is asked for.

    In `base` the anchors stand at both ends and in the middle; one more row is a copy of the first anchor. All batches
    but `alone`, `few` and `pair` have the size of `base` and the anchors in the same rows, bit for bit the same.
    """

    source: str
    """In words: `digits.npz, 29 of 360 samples`, `synthetic (seed 0): no inputs were given`."""
    synthetic: bool
    """Also where samples were made from a single one, or from the sample inputs of an artifact."""
    samples: int
    """Different samples that `base` and `swapped` hold."""
    copy: tuple[int, int] | None
    """Rows of `base` with the same sample; None for a batch too small for it."""
    alone_row: int
    """The row of the anchor of `alone` in `base`."""
    companions_differ: bool
    """False when no companion of `swapped` differs from that of `base`: a swap would prove nothing."""
    guessed_layout: bool
    """Synthetic sequences for a module: which axis holds the samples, and which the length, was guessed."""
    remarks: tuple[str, ...]
    """What was assumed: sizes taken for free dimensions, samples drawn twice, targets left out."""

    @property
    def base(self) -> Batch:
        """Anchors and companions."""

    @property
    def swapped(self) -> Batch:
        """Every companion another one; bit-unequal to that of `base` wherever the inputs allow."""

    @property
    def scaled(self) -> Batch:
        """Companions × 100 in floating inputs; integers and booleans redrawn from the same values."""

    @property
    def alone(self) -> Batch:
        """One anchor: size 1, or, where the artifact fixes its batch at k, the anchor k times (`anchors` are (0,))."""

    def few(self, size: int) -> Batch:
        """The anchor of `alone` and `size` − 1 companions of `base`; its `anchors` are the one row.

        Raises NotPossibleError where the artifact fixes another size, or where there are fewer companions.
        """

    def pair(self, swapped: bool) -> Batch:
        """The anchor of `alone` with one companion, or with another one: size 2. Raises NotPossibleError as `few`."""

    def poisoned(self) -> Batch | None:
        """`base` with NaN in all companions' floating inputs; None without floating inputs."""

    def lengthened(self) -> tuple[Batch, int, tuple[int, int]] | None:
        """`base` with companions of another length, padded by the user's own collate; the axis; the lengths of
        `base` and of this batch. None: not known."""
