"""What the probes measured: numbers only, no arrays but per-channel ones, no live tensors.

A probe yields Measurements of the types below, and one Answer for every question that it decides or leaves open.
Rules ask for a type: `case.measured.of(Swap)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from bnaudit.description import NormKind, Part
from bnaudit.records import Record
from bnaudit.results import Outcome, Question
from bnaudit.session import Place, RandomCall, StateChange


class Measurement(Record):
    """Anything that a probe measured; subclasses are below."""


class Answer(Measurement):
    """What a run says of one question. Findings that fail the question come first, see `verdicts`."""

    question: Question
    """Which of the five."""
    outcome: Outcome
    """How the run decides it."""
    reason: str
    """Why, in a few words."""
    needs: str = ""
    """What to give so that it is decided; "" when it is."""


class Shift(Record):
    """How far apart the anchors' rows of two runs' outputs are; of the output that differs most in its own scale."""

    exact: bool
    """Equal bit by bit, in all outputs with rows."""
    difference: float = 0.0
    """Largest |a − b|; inf where only one of the two is finite, or the shapes differ."""
    scale: float = 0.0
    """Largest finite |a| or |b| over the anchors' rows of that output."""
    epsilons: float = 0.0
    """difference / (scale × eps), eps of the coarser of output and compute dtype; 64 is the limit of noise."""
    output: str = ""
    """Name of that output."""
    dtype: str = ""
    """The dtype that eps was taken of."""
    flips: int = 0
    """Decisions that differ: argmax over the last axis of (samples, classes), or the sign of a single logit."""
    decisions: int = 0
    """All that were compared."""
    shapes: str = ""
    """Both shapes of one sample, `[16] and [1]`, where they differ by more than padding; "" otherwise."""


class Mixing(Record):
    """A place where samples of one batch meet: anchors' rows equal going in, unequal coming out."""

    place: Place
    """Where it is."""
    layer: str | None
    """The norm layer of the Description, None for anything else."""
    is_norm: bool
    """A call of a norm."""
    by_configuration: bool = False
    """A norm that keeps no statistics and so uses the batch whatever the mode."""
    first: bool = True
    """Whether the anchors' rows were equal here without any statistics held."""
    kind: NormKind | None = None
    """Of a norm."""
    gathered: Place | None = None
    """Where the value that enters here was computed from the whole batch."""
    arranged: Place | None = None
    """Where the samples were laid along another axis than the shape says."""
    unseen: bool = False
    """Samples met before this place, in no operator that was seen."""


class Swap(Measurement):
    """Companions exchanged at a fixed batch size (BN301)."""

    other: Shift
    """Other companions."""
    scaled: Shift | None
    """The same companions × 100; integers redrawn."""
    double: Shift | None = None
    """The swap in float64, when the first was neither exact nor beyond noise."""
    double_why: str = ""
    """Why there is none, where one was wanted."""
    influence: float | None = None
    """Largest gradient of an anchor's output by a companion's input, relative to that by its own; None: not taken."""
    alone: Shift | None = None
    """An anchor alone against the same anchor with companions."""
    anchors_differ: bool = True
    """Different anchors have different outputs."""
    control_moves: bool | None = None
    """With the norms in training mode the companions move the output; None: no batch norm, or no such run."""
    floating: bool = True
    """A floating output with rows was compared."""
    mixing: tuple[Mixing, ...] = ()
    """The places where they meet."""
    located: bool = False
    """Whether the places were looked for; `mixing` empty then means that none was found."""
    smallest_set: int | None = None
    """Companions that suffice to move the anchor."""
    batch_size: int = 0
    """Samples in the batch."""
    companions: int = 0
    """How many were exchanged."""
    seeded: bool = False
    """Random generators were reset before every forward, since the model draws."""
    undecided: str = ""
    """Why it decides nothing that companions move an anchor; "" where it does decide."""
    leaks: bool | None = None
    """Whether companions move an anchor beyond kernel noise; None: inconclusive, see the Answer."""


class PoisonedBatch(Measurement):
    """A NaN in a companion reaches an anchor although the swap does not move it."""

    place: Place | None
    """The first one where it reaches an anchor; None: not found."""


class BatchSize(Measurement):
    """An anchor at batch sizes 1, 2, 3 against the full batch (BN303)."""

    one: Shift | None
    """At size 1; None: it was not compared."""
    raised: str = ""
    """What the model raised at size 1."""
    lost_axis: str = ""
    """Name of an output that loses its batch axis at size 1, with its shapes."""
    two: Shift | None = None
    """At size 2."""
    three: Shift | None = None
    """At size 3."""
    raises_at_two: bool | None = None
    """It raises at size 2 too; None: not tried."""


class Padding(Measurement):
    """Companions of another length (BN304)."""

    shift: Shift
    """Of the anchors."""
    axis: int
    """The one that is padded."""
    lengths: tuple[int, int]
    """Of the anchors, and of the longer companions."""


class IdenticalRows(Measurement):
    """Equal rows of one batch (BN305)."""

    shift: Shift
    """Between the rows."""
    double: Shift | None = None
    """The same in float64; None: not tried."""


class Repeat(Measurement):
    """The same batch again (BN302, BN306)."""

    in_a_row: Shift
    """Without restoring the state."""
    restored: Shift | None
    """From the restored state; None when the first was exact."""
    random: tuple[RandomCall, ...] = ()
    """Operators that draw random numbers."""
    changes: tuple[StateChange, ...] = ()
    """State that the first forward left behind."""
    after_others: Shift | None = None
    """Made after a batch of other companions, against the first; None: not tried, since nothing was left behind that
    depends on the data, the model draws random numbers, or the batch twice in a row differs anyway."""


class EvalNorm(Measurement):
    """A normalization operator that normalized with its input after eval() (BN401)."""

    place: Place
    """Where it ran."""
    layer: str | None
    """The norm layer of the Description; None: no norm layer."""
    mixes: bool | None
    """Proved by the swap; None: not looked at, or its rows could not be followed."""
    by_configuration: bool
    """It keeps no statistics and so uses the batch whatever the mode."""
    updates: bool
    """It updated running statistics of its layer or module."""


class EvalDropout(Measurement):
    """An operator that dropped at random after eval() (BN401)."""

    call: RandomCall
    """The operator."""
    calls: int
    """How many such calls there were at this place."""


class StateInEval(Measurement):
    """State that an eval forward changed (BN402)."""

    change: StateChange
    """What changed."""
    depends_on_data: bool | None
    """Whether another input leaves another value; None: not tried."""
    layer: str | None = None
    """The norm layer of the Description; None: no norm layer."""
    is_observer: bool = False
    """It is a quantization observer's."""


class LayerStatistics(Measurement):
    """A layer's stored statistics against what it received with all norms in training mode (BN404)."""

    layer: str
    """Its name."""
    position: int
    """Among the batch norms in order of execution, from 0."""
    samples: int
    """From so many."""
    channels: int
    """All of the layer."""
    live: int
    """Channels whose stored variance is above epsilon."""
    mean_shift: float
    """Root mean square over live channels of (measured − stored mean) / stored sd."""
    mean_error: float
    """Its standard error, from the spread of per-sample means."""
    variance_ratio: float
    """exp of the median |log(measured / stored variance)| over live channels."""
    log_variance: float
    """The median |log ratio| itself."""
    log_variance_error: float | None
    """Its jackknife error over samples; None for fewer than 3."""
    worst: tuple[int, ...]
    """Channels furthest off, worst first, at most 16."""
    worst_shift: float
    """Largest |measured − stored mean| / stored sd of a live channel."""
    synthetic: bool
    """The inputs were made up."""


class ReusedNorm(Measurement):
    """A batch norm that ran several times in one forward (BN407)."""

    layer: str
    """Its name."""
    calls: int
    """In one forward."""
    mean_difference: float
    """Root mean square over channels of the largest difference of populations' means, in pooled sd."""
    mean_error: float
    """Standard error of that difference."""
    variance_ratio: float
    """Median over channels of the largest ratio of variances."""
    variance_error: float | None
    """Error of the logarithm of that ratio."""
    samples: int
    """From so many."""
    synthetic: bool
    """The inputs were made up."""


class NormSize(Measurement):
    """How many values a norm's statistics are computed from (BN405, BN406)."""

    place: Place
    """Where it ran."""
    layer: str | None
    """The norm layer of the Description; None: no norm layer."""
    values_per_sample: int
    """Values of one sample in one statistic."""
    values_per_statistic: int
    """Values in one statistic, the batch included."""
    uses_batch: bool
    """The statistics are computed from the input."""
    is_batch_norm: bool
    """Its statistics are taken over the batch."""
    trains: bool
    """It is left in training mode in the artifact."""
    training_batch_size: int | None = None
    """Samples per device in training, as the user said (RunOptions)."""


class Gap(Measurement):
    """Outputs with the norms in training mode against eval (BN403)."""

    systematic: float
    """√max(⟨t₁−e, t₂−e⟩, 0) / ‖e − mean e‖ over the anchors."""
    noise: float
    """‖t₁−t₂‖ / √2 / ‖e − mean e‖: what companions alone explain."""
    plain: float
    """‖t₁−e‖ / ‖e − mean e‖."""
    bessel: float | None
    """The part due to the unbiased variance, from a replay; None: not replayed."""
    samples: int
    """Samples of the batch that made the training statistics."""
    anchors: int
    """Samples whose outputs were compared."""
    flips: int
    """Decisions of the anchors that differ between train and eval."""
    companion_flips: int
    """Those that differ between the two companion sets."""
    decisions: int
    """All that were compared."""
    synthetic: bool
    """The inputs were made up."""


class Trained(Measurement):
    """The model after its own train() (BN501)."""

    part: Part
    """Which of its layers are in which mode."""


class AsSaved(Measurement):
    """The model in the mode that it was saved in, against eval."""

    shift: Shift
    """Of the outputs."""
    random: bool
    """An operator drew random numbers in that mode."""


class Production(Measurement):
    """The framework's own optimizations against the plain computation (BN307)."""

    shift: Shift
    """Of the outputs."""
    form: str
    """`onnxruntime's default optimizations`, `torch.compile`."""
    rounding: Shift | None = None
    """The plain computation against the same in float64, asked for where the shift is beyond noise."""


class Loaded(Measurement):
    """How a checkpoint's norm layers fit into the given model."""

    model: str
    """The model that was given."""
    matched: tuple[str, ...]
    """Norm layers that have all of their tensors."""
    missing: tuple[str, ...]
    """Norm layers (or their tensors) of the model that the checkpoint lacks."""
    unexpected: tuple[str, ...]
    """Tensors of norm layers in the checkpoint that the model has no place for."""
    filled_counters: tuple[str, ...]
    """Counters that load_state_dict filled silently."""
    mismatched: tuple[str, ...] = ()
    """Tensors whose shape is another."""


class Unmeasured(Record):
    """A probe that did not finish and why."""

    probe: str
    """Its name."""
    why: str
    """In one sentence."""
    needs: str = ""
    """What to give so that it is measured."""
    inconclusive: bool = False
    """It was begun (a budget ran out); False: it could not run at all."""


_M = TypeVar("_M", bound=Measurement)


class Measured(Record, eq=False):
    """All that one run showed."""

    runner: str
    """Name and version of what ran it."""
    part: str = ""
    """The part of the artifact that was run."""
    inputs: str
    """In words: `digits.npz, 16 of 360 samples`, `synthetic, seed 0`."""
    synthetic: bool
    """The inputs were made up: they show structure, not sizes."""
    batch_size: int
    """Samples in a batch."""
    anchors: int
    """Samples whose outputs are compared."""
    samples: int
    """Different samples fed."""
    forwards: int
    """Of the plan."""
    extra_forwards: int
    """To locate and confirm what was found."""
    seconds: float
    """That it took."""
    measurements: tuple[Measurement, ...]
    """In the order in which they were made."""
    unmeasured: tuple[Unmeasured, ...] = ()
    """Probes that did not finish."""
    probes: tuple[str, ...] = ()
    """Names of those that finished."""
    remarks: tuple[str, ...] = ()
    """What a reader of the numbers should know (`float64 was skipped: memory is short`)."""
    interrupted: bool = False
    """The user stopped it: what was measured until then."""

    def of(self, kind: type[_M]) -> tuple[_M, ...]:
        """The measurements of this type, in order."""
        return tuple(found for found in self.measurements if isinstance(found, kind))

    @property
    def answers(self) -> Mapping[Question, Answer]:
        """Question → answer; of several the last one."""
        return MappingProxyType({answer.question: answer for answer in self.of(Answer)})
