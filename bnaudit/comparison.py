"""Two artifacts side by side: which layers belong together, what moved between them, what one side folded, and where
the outputs part.

The *baseline* is what is trusted (the first path of `bnaudit compare`), the *subject* what is asked about (the second).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

from bnaudit.description import Description, NormLayer, Part
from bnaudit.measurement import Shift
from bnaudit.records import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class PairedBy(str, Enum):
    """How two layers were found to be the same one, strongest first."""

    NAME = "name"
    """the same name, prefixes of wrappers apart"""
    RENAME = "rename"
    """the same name once one rule of renaming, see Matching.renames, is applied to all"""
    ORDER = "order and shape"
    """the same place in order, and the same shape, kind and tensors"""
    VALUES = "values"
    """the same values, or nearly: a shuffled order or other names"""


class Pair(Record, eq=False):
    """The same layer in both."""

    subject: NormLayer
    """Its name in the subject."""
    baseline: NormLayer
    """Its name in the baseline."""
    by: PairedBy
    """How they were found to be the same one."""

    @property
    def name(self) -> str:
        """What reports call it: the subject's name of it."""
        return self.subject.name


class Rename(Record):
    """Replacing `old` by `new` in the subject's names gives the baseline's."""

    old: str
    """A piece of the subject's names, `backbone.`; "" stands for the beginning of each."""
    new: str
    """What the baseline has in its place."""
    layers: int
    """How many layers it brings together."""


class Matching(Record, eq=False):
    """The layers of two parts, paired."""

    pairs: tuple[Pair, ...]
    """In the baseline's order."""
    only_subject: tuple[NormLayer, ...] = ()
    """Layers that have no partner in the baseline."""
    only_baseline: tuple[NormLayer, ...] = ()
    """Layers that have no partner in the subject."""
    renames: tuple[Rename, ...] = ()
    """Which together make the names equal, most layers first; proposals, none was applied to a file."""


class Move(Record):
    """How far one pair of layers is apart. None where one of the two does not say."""

    layer: str
    """The subject's name."""
    baseline_layer: str
    """The baseline's name."""
    affine_equal: bool | None
    """gamma and beta equal bit by bit, after both were widened to float64."""
    statistics_equal: bool | None
    """Mean and variance, likewise."""
    rounding: str = ""
    """Where values differ by no more than the rounding of a copy to this dtype (`float16`), which counts as equal."""
    configuration: tuple[str, ...] = ()
    """Names of the fields that differ, of kind, eps, tracks_statistics, affine, momentum, channels."""
    modes: tuple[str, str] | None = None
    """The modes, the baseline's and the subject's, where both say and they differ."""
    counters: tuple[float, float] | None = None
    """num_batches_tracked, the baseline's and the subject's, where both have one."""
    mean_shift: float | None = None
    """Root mean square over channels of (subject's mean − baseline's) ÷ the baseline's √(variance + epsilon)."""
    var_ratio: float | None = None
    """Median over live channels of the larger variance ÷ the smaller one; 1: the same."""
    affine_change: float | None = None
    """‖(gamma, beta) subject − baseline‖ ÷ ‖(gamma, beta) baseline‖ (÷ 1 where that is 0)."""
    gain_change: float | None = None
    """Largest |gain subject − gain baseline| ÷ the largest |gain baseline|, gain = gamma ÷ √(var + eps)."""
    shift_change: float | None = None
    """Largest |shift subject − shift baseline| ÷ (1 + the largest |shift baseline|), shift = beta − mean · gain."""
    channels: tuple[int, ...] = ()
    """The channels whose gain and shift moved most, worst first, at most 16."""


class FoldCause(str, Enum):
    """What the pattern of a fold's residual says."""

    EQUAL = "equal"
    """at rounding level of what was stored"""
    EPSILON = "epsilon"
    """the gain of another epsilon, solved from the channels of smallest variance"""
    BIAS_FORGOTTEN = "bias forgotten"
    """the convolution's own bias is not in the folded one"""
    BIAS_DOUBLED = "bias doubled"
    """the convolution's own bias, or beta, is in it twice"""
    OLDER_STATISTICS = "older statistics"
    """the affine part fits, mean and variance are those of another time"""
    GAMMA_IGNORED = "gamma ignored"
    BETA_IGNORED = "beta ignored"
    PERMUTED = "permuted channels"
    HALF_PRECISION = "half precision"
    """a rounding to float16 or bfloat16 on the way"""
    LEFT_OUT = "left out"
    """the convolution is as it was: the norm is gone and was not folded"""
    PADDING = "padding"
    """folded into the convolution behind it, which pads with 0: wrong at the border"""
    OTHER_WEIGHTS = "other weights"
    """the convolution itself is another one: its fold says nothing of the norm"""
    UNKNOWN = "unknown"


class Fold(Record, eq=False):
    """One norm layer that the other side holds within a convolution or linear layer."""

    layer: str
    """The norm's name, on the side that still has it."""
    linear: str
    """The convolution or linear layer that it belongs to, on the same side."""
    into: str
    """The one that holds both, on the folded side; "": none was found."""
    operator: str
    """`conv`, `depthwise conv`, `transposed conv`, `linear`"""
    before: bool
    """The norm stands before the convolution (exact only without padding, or with a mean that shifts to 0)."""
    cause: FoldCause
    """What its residual says."""
    detail: str
    """What was solved or seen, in words with numbers: `epsilon 1e-03 ± 2e-09 instead of 1e-05`."""
    gain_residual: float | None = None
    """‖folded weights − recomputed‖ ÷ ‖recomputed‖."""
    shift_residual: float | None = None
    """Largest |folded bias − recomputed| ÷ (1 + largest |recomputed|)."""
    limit: float | None = None
    """What rounding alone can do, in the same unit."""
    eps: float | None = None
    """The epsilon that the folded side used, as solved."""
    eps_error: float | None = None
    """Of the solved epsilon."""
    channels: tuple[int, ...] = ()
    """The worst channels, at most 16."""


class Folds(Record, eq=False):
    """The norms that one side folded into its convolutions."""

    folded: str
    """`subject` or `baseline`: the side without these norms."""
    folds: tuple[Fold, ...]
    """One for each norm that a convolution was found for."""
    unfound: tuple[str, ...] = ()
    """Norms for which the folded side has no convolution that fits."""
    remarks: tuple[str, ...] = ()
    """What was not compared and why."""


class OutputPair(Record, eq=False):
    """One output of both models on the same inputs."""

    subject: str
    """Its name in the subject."""
    baseline: str
    """Its name in the baseline."""
    shift: Shift
    """How far apart the two are."""
    floor: float
    """Largest |a − b| that rounding of the two dtypes can make, in the output's unit."""
    rows: tuple[int, ...] = ()
    """Inputs on which they are furthest apart, worst first, at most 16."""

    @property
    def within_floor(self) -> bool:
        """Whether rounding explains what differs."""
        return self.shift.exact or (not self.shift.shapes and self.shift.difference <= self.floor)


class Parting(Record, eq=False):
    """A norm layer that both ran: how far apart what entered it is, and what it made of that."""

    layer: str
    """The subject's name."""
    baseline_layer: str
    """The baseline's name."""
    entered: float
    """Largest difference of per-sample mean and deviation of its input, in standard deviations of that input."""
    floor: float
    """What rounding can do, in the same unit."""
    originates: bool
    """Its input is equal and what it does with it is not: statistics, affine, epsilon or mode differ here."""
    reason: str = ""
    """What differs in it, in words."""


class ComparedRun(Record, eq=False):
    """The same inputs through both."""

    runners: tuple[str, str]
    """The baseline's and the subject's."""
    inputs: str
    """What they are, for people."""
    synthetic: bool
    """Whether they are noise."""
    samples: int
    """How many."""
    outputs: tuple[OutputPair, ...]
    """Each output that both have."""
    partings: tuple[Parting, ...] = ()
    """In execution order; empty where the norms of one side cannot be watched."""
    parts_at: str = ""
    """The first place where they part, in words: `layer2.0.bn1 (its own statistics)`; "": nowhere, or unknown."""
    flips: int = 0
    """Decisions that differ."""
    decisions: int = 0
    """All that were compared."""
    reference_in_eval: bool | None = None
    """Whether the baseline itself computes with stored statistics throughout; None: cannot be told."""
    reference_why: str = ""
    """What in it does not."""
    subject_in_eval: bool | None = None
    """The same of the subject."""
    remarks: tuple[str, ...] = ()
    """What a reader of the numbers should know."""


class RoundTrip(Record, eq=False):
    """A model saved, loaded again in a fresh process, set to the mode it had, and run."""

    changed: tuple[str, ...]
    """Buffers, parameters and fields of configuration that came back otherwise, `bn1.running_mean`."""
    outputs: tuple[OutputPair, ...]
    """Each output, before and after."""
    not_done: str = ""
    """Why nothing was compared."""


class Reshaped(Record):
    """A convolution or linear layer whose weight has another shape in the other."""

    layer: str
    """The subject's name."""
    baseline_layer: str
    """The baseline's name."""
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    """Of the baseline's weight and the subject's."""


class Comparison(Record, eq=False):
    """Everything that comparing two artifacts showed."""

    baseline: Description
    """What is trusted."""
    subject_part: Part
    """The part of the subject that was compared."""
    baseline_part: Part
    """The part of the baseline that it was compared with."""
    matching: Matching
    """Which layers are the same."""
    moves: tuple[Move, ...]
    """One per pair, in the same order."""
    folds: Folds | None = None
    """None: neither side folded norms, or the weights cannot be read (see remarks)."""
    run: ComparedRun | None = None
    """The same inputs through both; None: see not_run."""
    not_run: str = ""
    """Why outputs were not compared."""
    run_needs: str = ""
    """What to give so that they are."""
    round_trip: RoundTrip | None = None
    """The one model, saved and loaded again; None: two artifacts were compared."""
    reshaped: tuple[Reshaped, ...] = ()
    """Layers beside the norms that have the same name and another shape."""
    remarks: tuple[str, ...] = ()
    """What a reader should know, of parts and of weights that were not read."""

    @property
    def compared(self) -> bool:
        """Whether any number of one could be held against one of the other."""
        held = any(move.affine_equal is not None or move.statistics_equal is not None for move in self.moves)
        folded = self.folds is not None and bool(self.folds.folds)
        back = self.round_trip is not None and not self.round_trip.not_done
        return held or folded or back or self.run is not None


class Values(Protocol):
    """A stored tensor: known, and not read before `load`. bnaudit.reading.tensors.tensor_refs.TensorRef is one."""

    @property
    def dtype(self) -> str:
        """As stored (`bfloat16`)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """As stored."""

    def load(self) -> NDArray[np.float64] | NDArray[np.int64]:
        """The exact values in `shape`, widened to float64. Raises UnreadableError."""


class LinearLayer(Record, eq=False):
    """A convolution or linear layer of an artifact; its weights are read when a fold is recomputed."""

    name: str
    """Module path, or node or output name in a graph."""
    operator: str | None
    """`conv`, `transposed conv`, `linear`; None: a state dict does not tell the first two apart."""
    weight: Values
    """(out, in ÷ groups, …); of a transposed convolution (in, out ÷ groups, …)."""
    bias: Values | None
    groups: int | None = None
    """None: a state dict does not say."""
    output_last: bool = False
    """The weight is stored as (in, out), or (…, in, out) of a convolution, as Keras and Flax do."""
    padded: bool | None = None
    """Whether it pads its input with zeros; None: the artifact does not say."""
    norm_after: str | None = None
    """The norm layer that takes its output, and nothing else does; None: none, or the artifact has no topology."""
    norm_before: str | None = None
    """The norm layer whose output it takes, and nothing else does."""
    next_norm: str | None = None
    """The norm layer that comes next in the artifact's order, before another layer of this kind does."""
    previous_norm: str | None = None
    """The norm layer that comes directly before it in that order."""
