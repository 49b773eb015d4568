"""Replays: the forwards of a triage, in the form in which production's scores were observed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import numpy as np

from bnaudit.diagnosis import Hypothesis, Observed
from bnaudit.errors import UnreadableError
from bnaudit.feeds.pools import Pool
from bnaudit.forwards import BudgetSpent
from bnaudit.progress import Progress, Silent
from bnaudit.records import Record
from bnaudit.session import Batch, Mode, NotPossibleError, RunError, Session, Trace, Watch
from bnaudit.triage.companions import Companions
from bnaudit.triage.input_faults import InputFault, changed
from bnaudit.triage.plans import CHUNK, Forward, plan
from bnaudit.triage.scoring import Array, Scoring, scoring
from bnaudit.variation import Variation


class Materials(Record, eq=False):
    """What a triage has been given, opened."""

    session: Session
    pool: Pool
    """All given inputs, in their order."""
    observed: Observed
    companions: Companions | None = None
    parts: Mapping[str, Session] = MappingProxyType({})
    """Sessions of the other parts of the checkpoint."""
    faults: Mapping[str, InputFault] = MappingProxyType({})
    """Changes of the inputs by name."""
    batch_size: int | None = None
    budget: float | None = None
    """Seconds from now."""
    seed: int = 0


class Replayer:
    """Makes the forwards of one triage: counted, and none begun when the time is used up.

    How scores come from outputs is found on a first forward in eval, `scoring`. Every method raises RunError when the
    model raises, NotPossibleError where it cannot be changed so, BudgetSpent when no further forward may begin; the
    constructor UnreadableError when the observed scores cannot be this model's.
    """

    def __init__(
        self,
        materials: Materials,
        progress: Progress | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.materials = materials
        self.observed = materials.observed
        self.inputs = materials.pool.size
        self.forwards = 0
        self.share = 1.0
        """Of the budget that may be used up at the moment."""
        self._progress = progress or Silent()
        self._clock = clock
        self._begin = clock()
        self._pools: dict[str, Pool | None] = {"": materials.pool}
        _check_rows(self.observed, self.inputs)
        self._chunk = materials.session.fixed_batch or materials.batch_size or min(CHUNK, self.inputs)
        first = np.asarray(sorted({int(row) for row in self.observed.rows})[: self._chunk], dtype=np.int64)
        batch = self._batch(materials.pool.take(first.tolist()))
        self._first = tuple(first.tolist()), self._run(materials.session, batch, None)
        """The inputs of a first forward of the model as it is, and what it gave."""
        self.scoring: Scoring = scoring(self._first[1], batch, self.observed, first)

    @property
    def values(self) -> Array:
        """(observations, columns): what was observed, as float64; labels as one column."""
        return self.observed.values.reshape(len(self.observed.rows), -1).astype(np.float64)

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return self._clock() - self._begin

    def replay(
        self, hypothesis: Hypothesis, observations: Sequence[int] | None = None, pool: Pool | None = None
    ) -> Array:
        """(observations, columns): the scores that the hypothesis gives for these observations; None: for all.

        pool: inputs in place of the given ones, each observed once, in their order.
        """
        observed, given = self.observed, pool or self._pool(hypothesis.input_fault)
        rows, requests = observed.rows, observed.requests
        if pool is not None:
            given = self._faulty(pool, hypothesis.input_fault)
            rows, requests = np.arange(pool.size), None
        wanted = range(len(rows)) if observations is None else observations
        forwards = plan(hypothesis.batching, wanted, rows, requests, given.size, self._chunk)
        with self._session(hypothesis.part, hypothesis.variation) as session:
            return self._scores(session, given, forwards, list(wanted))

    def scores(
        self,
        variation: Variation,
        groups: Sequence[Sequence[int]] | None = None,
        seed: int | None = None,
        observations: Sequence[int] | None = None,
    ) -> Array:
        """(observations, columns) of the model so varied, in the observed form.

        groups: for each observation the inputs of its batch, its own first (one forward for each set of inputs); None:
        companions do not matter. seed: of the random generators, counted up from one forward to the next.
        observations: those that are wanted; None: all.
        """
        wanted = range(len(self.observed.rows)) if observations is None else observations
        if groups is None:
            forwards = list(plan("any", wanted, self.observed.rows, None, self.inputs, self._chunk))
        else:
            forwards = _of_groups(groups, wanted)
        with self._session(None, variation) as session:
            return self._scores(session, self.materials.pool, forwards, list(wanted), seed)

    def batch_scores(
        self, variation: Variation, rows: Sequence[int], seed: int | None = None, input_fault: str = ""
    ) -> Array:
        """(rows, columns): one forward of these inputs as one batch, in the observed form."""
        with self._session(None, variation) as session:
            pool = self._pool(input_fault)
            read = tuple((position, (position,)) for position in range(len(rows)))
            return self._scores(session, pool, [Forward(tuple(rows), read)], list(range(len(rows))), seed)

    def trace(self, rows: Sequence[int], mode: Mode, watch: Watch) -> Trace:
        """One watched forward of these inputs in another mode."""
        return self._run(self.materials.session, self._batch(self.materials.pool.take(rows)), None, mode, watch)

    def inputs_of(self, hypothesis: Hypothesis) -> Pool:
        """All given inputs as the hypothesis has them."""
        return self._pool(hypothesis.input_fault)

    def fits_inputs(self, input_fault: str) -> bool:
        """Whether the fault changes the given inputs."""
        return self._changed(input_fault) is not None

    @contextmanager
    def _session(self, part: str | None, variation: Variation) -> Iterator[Session]:
        session = self.materials.session if part is None else self.materials.parts[part]
        if not variation.layers and not variation.dtype and not variation.drops:
            yield session
            return
        with session.varied(variation) as varied:
            yield varied

    def _pool(self, fault: str) -> Pool:
        pool = self._changed(fault)
        if pool is None:
            raise NotPossibleError("it leaves these inputs as they are")
        return pool

    def _changed(self, fault: str) -> Pool | None:
        if fault not in self._pools:
            self._pools[fault] = self._chained(self.materials.pool, fault)
        return self._pools[fault]

    def _faulty(self, pool: Pool, fault: str) -> Pool:
        return self._chained(pool, fault) or pool if fault else pool

    def _chained(self, pool: Pool, fault: str) -> Pool | None:
        """After each fault in turn, of several joined by ` + `."""
        result: Pool | None = pool
        for name in fault.split(" + "):
            if result is not None:
                result = changed(result, self.materials.faults[name])
        return result

    def _scores(
        self, session: Session, pool: Pool, forwards: Iterable[Forward], wanted: list[int], seed: int | None = None
    ) -> Array:
        place = {observation: position for position, observation in enumerate(wanted)}
        found: Array | None = None
        for number, forward in enumerate(forwards):
            made = self.scoring.of(self._trace(session, pool, forward, None if seed is None else seed + number))
            if found is None:
                found = np.full((len(wanted), made.shape[1]), np.nan)
            for row, observations in forward.read:
                found[[place[observation] for observation in observations]] = made[row]
        assert found is not None
        return found

    def _trace(self, session: Session, pool: Pool, forward: Forward, seed: int | None) -> Trace:
        """One forward, or what the first one gave, which would be repeated."""
        as_it_is = session is self.materials.session and pool is self.materials.pool
        if as_it_is and seed is None and forward.companions is None and forward.rows == self._first[0]:
            return self._first[1]
        return self._run(session, self._batch(self._inputs(pool, forward)), seed)

    def _inputs(self, pool: Pool, forward: Forward) -> Pool:
        own = pool.take(forward.rows)
        if forward.companions is None:
            return own
        if self.materials.companions is None:
            raise NotPossibleError("no companions were given")
        return own.followed_by(self.materials.companions.of(forward.companions))

    def _batch(self, pool: Pool) -> Batch:
        """One forward's inputs, filled up with copies of the last one where the artifact fixes the batch."""
        fixed = self.materials.session.fixed_batch
        if fixed is not None and pool.size < fixed:
            pool = pool.take([*range(pool.size), *[pool.size - 1] * (fixed - pool.size)])
        if fixed is not None and pool.size > fixed:
            raise NotPossibleError(f"the artifact fixes the batch at {fixed}")
        return pool.batch()

    def _run(
        self,
        session: Session,
        batch: Batch,
        seed: int | None,
        mode: Mode = Mode.INFERENCE,
        watch: Watch = Watch.NOTHING,
    ) -> Trace:
        budget = self.materials.budget
        if budget is not None and self.forwards and self.seconds > budget * self.share:
            raise BudgetSpent(f"the budget of {budget:g} s was spent after {self.forwards} forwards")
        self.forwards += 1
        self._progress.forward("replay", self.forwards, self.forwards)
        try:
            return session.run(batch, mode, watch, seed=self.materials.seed if seed is None else seed)
        except MemoryError as error:
            raise RunError(f"memory is short for a batch of {batch.size}") from error


def _of_groups(groups: Sequence[Sequence[int]], observations: Sequence[int]) -> list[Forward]:
    """One forward for every different set of inputs; a group's first input is the observation's own."""
    members: dict[tuple[int, ...], dict[int, list[int]]] = {}
    for observation, group in zip(observations, groups, strict=True):
        together = tuple(sorted(int(row) for row in group))
        read = members.setdefault(together, {})
        read.setdefault(together.index(int(group[0])), []).append(observation)
    return [
        Forward(together, tuple((place, tuple(every)) for place, every in read.items()))
        for together, read in members.items()
    ]


def _check_rows(observed: Observed, inputs: int) -> None:
    """Raises UnreadableError for no observations, none of a number, and one of an input that was not given."""
    rows = observed.rows
    if not len(rows):
        raise UnreadableError("nothing was observed", where=observed.source, remedy="give at least one row of scores")
    if not np.isfinite(observed.values.astype(np.float64)).any():
        what = "no observed score is a finite number"
        raise UnreadableError(what, where=observed.source, remedy="give the scores that production returned")
    if int(rows.max()) >= inputs or int(rows.min()) < 0:
        wrong = int(rows.max()) if int(rows.max()) >= inputs else int(rows.min())
        what = f"a score belongs to input {wrong}, and {inputs} inputs are given, counted from 0"
        raise UnreadableError(what, where=observed.source, remedy="give all inputs that were scored")
