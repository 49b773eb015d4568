"""What a trace shows of one channel: state, observations, and what each mode makes of an activation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bnaudit.description import Cumulative, NormKind
from bnaudit.records import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ChannelState(Record):
    """What is saved for the channel. None: the artifact does not say, or has no such tensor (see `absent`)."""

    mean: float | None
    var: float | None
    gamma: float | None
    beta: float | None
    counter: float | None
    eps: float | None
    momentum: float | Cumulative | None
    dtypes: tuple[tuple[str, str], ...] = ()
    """(mean, var, gamma or beta, its stored dtype)."""
    absent: tuple[tuple[str, str], ...] = ()
    """(the same names, why there is no value), in words."""
    eps_assumed: bool = False
    """`eps` is PyTorch's default: the artifact does not say."""
    momentum_assumed: bool = False


class Observed(Record, eq=False):
    """What the channel received in one forward."""

    mode: str
    """`eval` or `training`: the mode that all norms of the model were in."""
    values: int
    """All of them: samples × values of one sample."""
    per_sample: int
    mean: float
    biased: float
    """Variance divided by the number of values n: it normalizes the batch."""
    unbiased: float | None
    """Divided by n − 1: it is stored; None for a single value."""
    sample_mean: NDArray[np.float64] | None
    """(samples,)"""
    sample_var: NDArray[np.float64] | None
    """(samples,), biased, about the sample's own mean"""
    uses_batch: bool
    """The operator normalized with the batch."""
    calls: int = 1
    """How often the layer ran in that forward; this is the first time."""


class ChannelTrace(Record, eq=False):
    """All of it."""

    path: str
    part: str
    layer: str
    kind: NormKind
    class_name: str
    channel: int
    channels: int | None
    state: ChannelState
    mode: str
    """One sentence: which statistics the artifact selects as it was saved."""
    tracks: bool | None
    """Whether the layer keeps running statistics."""
    inputs: str = ""
    """In words, "" for none."""
    rows: tuple[int, ...] = ()
    """Which of the inputs."""
    runner: str = ""
    in_eval: Observed | None = None
    in_training: Observed | None = None
    remarks: tuple[str, ...] = ()
