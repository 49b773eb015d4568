"""A defect that a few forwards show."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from bnaudit.records import Record
from bnaudit.session import Mode

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bnaudit.feeds.pools import Pool


class Kind(str, Enum):
    """What is compared."""

    NEIGHBOURS = "neighbours"
    """one sample among different companions"""
    REPEAT = "repeat"
    """the same batch twice, in a row"""
    RANDOM = "random"
    """the same batch twice, each time from the same state"""
    STATE = "state"
    """buffers and parameters before and after a forward"""
    SIZE = "size"
    """one sample alone and among companions"""
    COPIES = "copies"
    """copies of one sample in one batch"""
    STATISTICS = "statistics"
    """what a layer receives and what is stored for it"""


class LayerCase(Record):
    """What one channel of the guilty norm did in both forwards."""

    layer: str
    class_name: str
    channel: int
    means: tuple[float, float]
    """Of the batch, in the first and the second forward."""
    variances: tuple[float, float]
    """Biased."""
    stored: tuple[float, float] | None
    """Mean and variance that are saved."""
    gamma: float
    beta: float
    eps: float


class StatisticsCase(Record):
    """A layer's stored statistics against what it received with all norms in training mode."""

    layer: str
    eps: float
    shift: float
    """Root mean square over channels of (received mean − stored mean) ÷ stored standard deviation."""
    ratio: float
    """exp of the median over channels of |log(received ÷ stored variance)|, epsilon added to both."""
    shift_limit: float
    ratio_limit: float
    worst: tuple[int, ...]
    """Channels furthest off."""


class Demonstration(Record, eq=False):
    """The case, as small as it became. Everything that a script needs of it."""

    rule: str
    kind: Kind
    mode: Mode
    pool: Pool
    """Only what is needed."""
    labels: tuple[str, ...]
    """Of every row of the pool, where it comes from."""
    batches: tuple[tuple[int, ...], ...]
    """Rows of the pool for each forward."""
    anchor: int = 0
    """Where the compared sample stands in each of them."""
    output: int = 0
    """Which of the flattened outputs is compared."""
    outputs: int = 1
    output_name: str = ""
    axis: int | None = None
    """Of the samples in that output; None: all of it is compared."""
    difference: float = 0.0
    limit: float = 0.0
    """What rounding can make of it."""
    values: tuple[NDArray[np.generic], ...] = ()
    """The compared values, forward by forward."""
    seed: int | None = None
    fresh: bool = False
    """Each forward begins from a fresh copy of the model, since a forward changes it."""
    changed: tuple[str, ...] = ()
    """Buffers and parameters that changed."""
    raised: str = ""
    """What the model raised for the sample alone."""
    layers: tuple[str, ...] = ()
    """Where it happens: norm layers, modules or source lines."""
    case: LayerCase | None = None
    statistics: StatisticsCase | None = None
    zeroed: float = 0.0
    """Share of the input values that could be set to 0."""
    compute_dtype: str = "float32"
