"""One file per cause that cannot be replayed, because production did not log what is needed. A plugin is a module with

    FAMILY = Family(name="dropout", judge=judge)

`judge(replays, log)` draws from the given inputs what the cause could have made of them, and says whether the observed
scores look like one more draw. It never says *explained*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from bnaudit.diagnosis import FamilyMatch, LogEvidence
from bnaudit.plugins import load, names
from bnaudit.records import replace
from bnaudit.variation import Variation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class LayerMoments(NamedTuple):
    """What one batch would add to a norm layer's running statistics, and how much it would count."""

    mean: NDArray[np.float64]
    """(channels,)"""
    var: NDArray[np.float64]
    """(channels,), unbiased, as running variances are updated with."""
    stored_mean: NDArray[np.float64]
    stored_var: NDArray[np.float64]
    momentum: float
    """Weight of the new batch."""


class Replays(Protocol):
    """What the families ask of the model: forwards of the given inputs, in the form in which scores were observed."""

    observed: NDArray[np.float64]
    """(observations, columns), NaN where nothing was logged; labels as one column. At most some dozens of them."""
    as_saved: NDArray[np.float64]
    """The same of the model in eval as saved."""
    rows: NDArray[np.int64]
    """(observations,): input of each."""
    inputs: int
    """Given inputs."""
    norms: tuple[str, ...]
    """Layers that can be put into training mode; empty: none."""
    drops: bool
    """Whether the model has dropout, or its kind, with a probability above 0."""
    is_labels: bool
    is_probabilities: bool
    floor: float
    """Residual that the precision of the observed scores leaves."""

    def scores(
        self, variation: Variation, groups: Sequence[Sequence[int]] | None = None, seed: int | None = None
    ) -> NDArray[np.float64]:
        """(observations, columns) of the model so varied, in the observed form.

        groups: for each observation the inputs of its batch, its own first; None: companions do not matter.
        Raises RunError, NotPossibleError or BudgetSpent.
        """

    def batch_moments(self, rows: Sequence[int]) -> Mapping[str, LayerMoments]:
        """Of every layer of `norms`, of one forward of these inputs in training mode. Raises as `scores`."""


class Family(NamedTuple):
    """The contract of a family plugin."""

    name: str
    judge: Callable[[Replays, LogEvidence | None], FamilyMatch | None]
    """None: the model cannot have it (no dropout, no norm that uses the batch)."""
    rank: int = 1
    """Of several that are consistent the lower goes first: 0 where one state must account for all observations, which
    hardly another cause does; 1 where every observation has a draw of its own."""


def families(
    replays: Replays, log: LogEvidence | None = None
) -> tuple[tuple[FamilyMatch, ...], tuple[tuple[str, str], ...]]:
    """Every family's judgement, the likeliest consistent one first, and (family, why) of those that were not judged.

    Raises nothing that a replay raises: a family that cannot be drawn, or for which no time is left, is not judged.
    """
    from bnaudit.errors import BnauditError

    judged: list[tuple[int, FamilyMatch]] = []
    left: list[tuple[str, str]] = []
    for name in names(__name__):
        family: Family = load(__name__, name).FAMILY
        try:
            match = family.judge(replays, log)
        except BnauditError as error:
            left.append((family.name, str(error)))
            continue
        if match is not None:
            judged.append((family.rank, _of_different_inputs(match, replays)))
    return tuple(match for _, match in sorted(judged, key=_order)), tuple(left)


def _of_different_inputs(match: FamilyMatch, replays: Replays) -> FamilyMatch:
    """A draw differs from input to input as the model's own scores do: equal ones are none, wherever they lie."""
    if replays.is_labels or not match.consistent or not _alike(replays.observed) or _alike(replays.as_saved):
        return match
    return replace(match, consistent=False, signature="all inputs have the same scores, which no draw has")


def _alike(scores: NDArray[np.float64]) -> bool:
    return bool(len(scores) > 1 and ((scores == scores[0]) | (scores != scores)).all())


def _order(entry: tuple[int, FamilyMatch]) -> tuple[bool, int, float]:
    rank, match = entry
    return not match.consistent, rank, -match.inside if match.inside == match.inside else 0.0
