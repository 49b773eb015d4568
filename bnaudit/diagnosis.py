"""Why production's scores differ: what was observed, which hypotheses were replayed, and what they prove.

A residual is the root mean square of (observed − replayed) over all observed values, in the output's unit. A floor is
what the observed scores' own precision can make of it.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from bnaudit.description import Artifact
from bnaudit.records import Record
from bnaudit.variation import Variation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ScoreKind(str, Enum):
    """What production's scores are."""

    LOGITS = "logits"
    PROBABILITIES = "probabilities"
    """softmax (rows sum to 1) or sigmoid of an output"""
    LABELS = "labels"
    """top-1 classes"""
    EMBEDDINGS = "embeddings"
    """any other output: features, boxes, regressions"""


class Observed(Record, eq=False):
    """What production returned, one row per observation."""

    values: NDArray[np.generic]
    """float64 (rows, columns), NaN where a value was not logged; int64 (rows,) for labels."""
    kind: ScoreKind | None
    """None: found from the values and the model's outputs when both are there."""
    rows: NDArray[np.int64]
    """(rows,): which of the given inputs each observation belongs to."""
    columns: tuple[int, ...] | None = None
    """Which entries of the flattened output they are; None: all, or to be found."""
    requests: NDArray[np.int64] | None = None
    """(rows,): inputs with the same number were sent in one request, in the order of the rows; None: not logged."""
    step: float | None = None
    """Rounding step of the written numbers, 0.001 for three decimals; None: none was found."""
    source: str = ""
    """In words: `scores.csv, 120 rows of 10 logits, 3 decimals`."""
    remarks: tuple[str, ...] = ()


class Hypothesis(Record, eq=False):
    """One exact account of what happened: everything needed to replay it is given."""

    name: str
    """Stable and short, `training-mode`, `lost-buffers`; several hypotheses with other layers share one."""
    claim: str
    """One sentence: `layer2.0.bn1 and layer2.0.bn2 ran in training mode, every request by itself`."""
    advice: str
    """What to do about it, one line."""
    layers: tuple[str, ...] = ()
    """Norm layers that it names; empty: it is about all of them, or about none."""
    variation: Variation = Variation()
    input_fault: str = ""
    """Name of the change of the inputs (`channel-order`, `normalization-missing`); "": none."""
    batching: str = "any"
    """`any`: companions do not matter; `alone`, `together` (all given inputs in one batch), `requests` (as logged),
    `companions` (each with those of --companions)."""
    part: str | None = None
    """Another part of the checkpoint; None: the one that is being asked about."""
    singles: tuple[str, ...] = ()
    """Keys of the two that it joins, of a pair."""

    @property
    def key(self) -> str:
        """Tells it from every other one of the same search."""
        if self.singles:
            return " & ".join(self.singles)
        return " + ".join([self.name, *([", ".join(self.layers)] if self.layers else []), self.batching])


class Tried(Record, eq=False):
    """A hypothesis, replayed and measured."""

    hypothesis: Hypothesis
    residual: float
    """inf: it raised or gave no finite values; for labels the share of labels that differ."""
    floor: float
    """For this hypothesis: it scales with its own output."""
    agreement: float | None = None
    """Share of decisions that are the same; None: the output has none."""
    coincides_with: tuple[str, ...] = ()
    """Keys of hypotheses that give the same on the given inputs, to within the floor."""
    why: str = ""
    """Why it has no residual."""

    @property
    def at_floor(self) -> bool:
        """Whether its residual is what the precision of the observed scores leaves."""
        return self.residual <= FLOOR_FACTOR * self.floor


FLOOR_FACTOR = 1.5
"""A residual within this many floors is at the floor."""
MARGIN = 5.0
"""How many times further away every rival has to be."""


class Conclusion(str, Enum):
    """What may be said."""

    EXPLAINED = "explained by"
    SEVERAL = "several explanations fit"
    UP_TO_PRECISION = "explained up to a precision of"
    NEAREST = "nearest, not an explanation"
    NOT_EXPLAINED = "not explained"
    CONSISTENT = "consistent with"
    PROVED_BY_LOG = "proved by the log"
    """The same input has different scores, without any model."""
    NOTHING_TO_EXPLAIN = "the scores are those of the model in eval as saved"


class FamilyMatch(Record, eq=False):
    """A cause that cannot be replayed, since something was not logged: judged by its signature and by draws."""

    name: str
    """`unlogged-companions`, `stray-batches`, `dropout`, `more-updates`"""
    claim: str
    inside: float
    """Share of observed values that lie within the spread of draws from the given inputs."""
    signature: str
    """What was seen that speaks for it, in words with numbers; "": nothing."""
    consistent: bool
    needs: str
    """What to log so that it can be replayed exactly."""


class LogEvidence(Record, eq=False):
    """What a request log alone shows."""

    observations: int
    inputs: int
    """Different inputs, by identity of the logged key or content."""
    repeated: int
    """Inputs that were observed more than once."""
    differing: int
    """Of these, with scores further apart than their rounding."""
    spread: float
    """Largest difference of one score of one input."""
    limit: float
    """What rounding alone can make."""
    scatter_by_size: tuple[tuple[int, int, float], ...] = ()
    """(batch size, observations, root mean square deviation from the input's own mean)."""
    common_error: float | None = None
    """Share of the deviations' variance that the inputs of one request have in common; None: requests not logged."""
    points_to: tuple[str, ...] = ()
    """`companions`, `randomness`, `history`: what the pattern leaves possible, likeliest first."""
    reasons: tuple[str, ...] = ()
    """Why, one sentence each, with numbers."""
    needs: tuple[str, ...] = ()
    """What to log so that it can be told."""
    examples: tuple[str, ...] = ()
    """Keys of the inputs that differ most, at most 8."""


class Distinguishing(Record, eq=False):
    """Inputs on which the hypotheses that fit disagree most."""

    rows: tuple[int, ...] = ()
    """Of the given inputs, best first; empty: none of them tells them apart."""
    mixtures: tuple[tuple[int, int, float], ...] = ()
    """(row, other row, weight of the first): made inputs that do."""
    separation: float = 0.0
    """Smallest difference between any two of the hypotheses on the best one, in floors."""


class Diagnosis(Record, eq=False):
    """The answer of `bnaudit triage`."""

    version: str
    artifact: Artifact | None
    """None: a log alone."""
    observed: str
    """The source of the observed scores, in words."""
    conclusion: Conclusion
    reason: str
    """One sentence with the numbers that decide."""
    explanations: tuple[Tried, ...] = ()
    """Of `explained by` one; of `several` the set; of `nearest` the nearest; else none."""
    tried: tuple[Tried, ...] = ()
    """All, nearest first."""
    unseen: tuple[str, ...] = ()
    """Claims of what would give the same scores on the given inputs, beside the one explanation or in its place."""
    coinciding: tuple[tuple[str, ...], ...] = ()
    """Sets of claims that coincide on the given inputs, found by replay before anything observed was looked at."""
    families: tuple[FamilyMatch, ...] = ()
    log: LogEvidence | None = None
    distinguishing: Distinguishing | None = None
    untried: tuple[tuple[str, str], ...] = ()
    """(claim, what it needs): hypotheses that could not be replayed."""
    precision: float | None = None
    """The common level at which all residuals end."""
    margin: float | None = None
    """Residual of the nearest rival ÷ that of the explanation."""
    inputs: str = ""
    runner: str = ""
    forwards: int = 0
    seconds: float = 0.0
    remarks: tuple[str, ...] = ()
    interrupted: bool = False

    def __repr__(self) -> str:
        claims = "; ".join(tried.hypothesis.claim for tried in self.explanations[:4])
        said = [f"{self.conclusion.value}{claims and f': {claims}'}", f"exit {self.exit_code}"]
        return f"<Diagnosis: {' · '.join(said)}>"

    @property
    def exit_code(self) -> int:
        """0: nothing to explain; 1: a difference with an answer; 3: a difference without one, or nothing was proved."""
        if self.interrupted:
            return 130
        if self.conclusion is Conclusion.NOTHING_TO_EXPLAIN:
            return 0
        answered = (
            Conclusion.EXPLAINED,
            Conclusion.SEVERAL,
            Conclusion.UP_TO_PRECISION,
            Conclusion.CONSISTENT,
            Conclusion.PROVED_BY_LOG,
        )
        return 1 if self.conclusion in answered else 3
