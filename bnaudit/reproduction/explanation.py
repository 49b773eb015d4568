"""The smallest case of an explanation: one observation, and the batch that production ran it in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bnaudit.diagnosis import FLOOR_FACTOR, Diagnosis, Hypothesis, Observed
from bnaudit.feeds.pools import Pool
from bnaudit.records import Record
from bnaudit.session import NotPossibleError, Session
from bnaudit.triage.plans import Forward, plan
from bnaudit.triage.replaying import Materials, Replayer
from bnaudit.triage.residuals import Precision
from bnaudit.triage.scoring import Scoring

if TYPE_CHECKING:
    from numpy.typing import NDArray

EVAL = Hypothesis(name="eval-as-saved", claim="the model ran in eval as it was saved", advice="")


class Explanation(Record, eq=False):
    """Everything that a script needs of it."""

    hypothesis: Hypothesis
    conclusion: str
    """The triage's, in words, with its reason."""
    rivals: tuple[str, ...]
    """Claims that fit as well."""
    observation: int
    """The row of the observed scores."""
    observed: NDArray[np.float64]
    """(columns,); NaN was not logged."""
    scoring: Scoring
    sample: Pool
    """The given input, filled up with copies where the batch has one size."""
    sample_labels: tuple[str, ...]
    batch: Pool
    """What production ran it in."""
    batch_labels: tuple[str, ...]
    row: int
    """Where it stands in that batch."""
    floor: float
    compute_dtype: str = "float32"


def smallest(
    session: Session, materials: Materials, diagnosis: Diagnosis, hypothesis: Hypothesis, precision: str, name: str
) -> Explanation:
    """The observation that eval is furthest from, of those that the hypothesis gives to within the floor.

    name: of the given inputs. Raises NotPossibleError when there is none, and what replaying raises.
    """
    replayer = Replayer(materials)
    known = Precision.of(materials.observed, replayer.scoring.kind, precision)
    own, as_saved = replayer.replay(hypothesis), replayer.replay(EVAL)
    floors = [_floor(known, own, seen, at, diagnosis) for at, seen in enumerate(replayer.values)]
    near = [_distance(own[at], seen, known) for at, seen in enumerate(replayer.values)]
    far = [_distance(as_saved[at], seen, known) for at, seen in enumerate(replayer.values)]
    fitting = [
        at
        for at, floor in enumerate(floors)
        if near[at] <= FLOOR_FACTOR * floor and far[at] > 2 * FLOOR_FACTOR * floor and np.isfinite(far[at])
    ]
    if not fitting:
        what = "no single observation is far from eval and at the floor of the explanation"
        raise NotPossibleError(what, remedy="`bnaudit triage` shows all of them together")
    chosen = max(fitting, key=lambda at: (far[at], -at))
    observed = materials.observed
    forward = _forward(hypothesis, observed, chosen, materials.pool.size)
    sample, labels = _filled(session, materials.pool.take([int(observed.rows[chosen])]), _label(observed, chosen, name))
    batch, batch_labels = _batch(session, replayer, materials, hypothesis, forward, name)
    return Explanation(
        hypothesis=hypothesis,
        conclusion=f"{diagnosis.conclusion.value} ({diagnosis.reason})",
        rivals=tuple(
            tried.hypothesis.claim for tried in diagnosis.explanations if tried.hypothesis.key != hypothesis.key
        ),
        observation=chosen,
        observed=replayer.values[chosen],
        scoring=replayer.scoring,
        sample=sample,
        sample_labels=labels,
        batch=batch,
        batch_labels=batch_labels,
        row=next(row for row, observations in forward.read if chosen in observations),
        floor=floors[chosen],
        compute_dtype=_compute_dtype(session),
    )


def _floor(known: Precision, own: NDArray[np.float64], seen: NDArray[np.float64], at: int, found: Diagnosis) -> float:
    """For one observation; the level that all residuals end at where that is what the triage says."""
    if known.is_labels:
        return 0.0
    return max(known.residual(own[at : at + 1], seen[None]).floor, found.precision or 0.0)


def _distance(scores: NDArray[np.float64], seen: NDArray[np.float64], known: Precision) -> float:
    logged = np.isfinite(seen)
    if known.is_labels:
        return float(np.mean(scores[logged] != seen[logged]))
    return float(np.sqrt(np.mean((scores[logged] - seen[logged]) ** 2))) if logged.any() else np.inf


def _forward(hypothesis: Hypothesis, observed: Observed, chosen: int, inputs: int) -> Forward:
    """The one forward that this observation came from."""
    planned = plan(hypothesis.batching, [chosen], observed.rows, observed.requests, inputs)
    return next(forward for forward in planned if any(chosen in read for _, read in forward.read))


def _batch(
    session: Session, replayer: Replayer, materials: Materials, hypothesis: Hypothesis, forward: Forward, name: str
) -> tuple[Pool, tuple[str, ...]]:
    whole = replayer.inputs_of(hypothesis)
    labels = tuple(f"row {row} of {name}" for row in forward.rows)
    batch = whole.take(forward.rows)
    if forward.companions is not None and materials.companions is not None:
        beside = materials.companions.of(forward.companions)
        batch = batch.followed_by(beside)
        labels += tuple(f"companion {at} of row {forward.companions}" for at in range(beside.size))
    return _filled(session, batch, *labels)


def _label(observed: Observed, chosen: int, name: str) -> str:
    return f"row {int(observed.rows[chosen])} of {name}"


def _filled(session: Session, pool: Pool, *labels: str) -> tuple[Pool, tuple[str, ...]]:
    """Copies of the last row where the artifact fixes its batch."""
    missing = (session.fixed_batch or pool.size) - pool.size
    if missing <= 0:
        return pool, labels
    return pool.take([*range(pool.size), *[pool.size - 1] * missing]), (*labels, *[labels[-1]] * missing)


def _compute_dtype(session: Session) -> str:
    wide = {"float32", "float64"}
    found = [dtype for dtype in session.part.floating_dtypes if dtype not in wide]
    return found[0] if found else "float32"
