"""The forwards of one measured audit: counted, told to who watches, and none begun when time or number is used up."""

from __future__ import annotations

from collections.abc import Callable

from bnaudit.errors import BnauditError
from bnaudit.progress import Progress
from bnaudit.sample_lists import SampleLists
from bnaudit.session import Batch, Held, Mode, Pinned, RunError, Session, Trace, Watch

MOST_FORWARDS = 8
"""Of the plan, and of what follows a finding."""


class BudgetSpent(BnauditError):
    """No further forward may begin: the time that the user gave, or the number of further forwards, is used up."""


class Forwards:
    """Makes forwards of the plan and further ones."""

    def __init__(
        self,
        session: Session,
        *,
        budget: float | None,
        progress: Progress,
        clock: Callable[[], float],
        expected: Callable[[], int],
    ) -> None:
        """budget: seconds from now. expected: how many forwards the plan will have."""
        self.planned_count = 0
        self.extra_count = 0
        self._session = session
        self._budget = budget
        self._progress = progress
        self._clock = clock
        self._begin = clock()
        self._expected = expected
        self._raised: dict[str, RunError] = {}
        self._lists = SampleLists()

    def planned(
        self,
        name: str,
        batch: Batch,
        mode: Mode = Mode.INFERENCE,
        watch: Watch = Watch.CALLS,
        *,
        restored: bool = True,
        seed: int | None = None,
    ) -> Trace:
        """A forward of the plan, the ninth of which counts as a further one. One that raised is not made again."""
        if name in self._raised:
            raise self._raised[name]
        self._may_begin(name)
        if self.planned_count < MOST_FORWARDS:
            self.planned_count += 1
        else:
            self.extra_count += 1
        try:
            made = self._session.run(batch, mode, watch, restored=restored, seed=seed)
        except RunError as error:
            self._raised[name] = error
            raise
        return self._lists.stacked(made, batch.size)

    def extra(
        self,
        name: str,
        batch: Batch,
        mode: Mode = Mode.INFERENCE,
        watch: Watch = Watch.CALLS,
        *,
        hold: tuple[Held, ...] = (),
        pin: tuple[Pinned, ...] = (),
        restored: bool = True,
        seed: int | None = None,
        session: Session | None = None,
    ) -> Trace:
        """One more forward, beyond the plan, of the model or of another form of it."""
        self.begin_extra(name)
        made = (session or self._session).run(batch, mode, watch, restored=restored, seed=seed, hold=hold, pin=pin)
        return self._lists.stacked(made, batch.size)

    def begin_extra(self, name: str) -> None:
        """Count one more forward beyond the plan. Raises BudgetSpent."""
        if self.extra_count >= MOST_FORWARDS:
            raise BudgetSpent(f"{MOST_FORWARDS} further forwards were used", where=name)
        self._may_begin(name)
        self.extra_count += 1

    def _may_begin(self, name: str) -> None:
        made = self.planned_count + self.extra_count
        if self._budget is not None and self._clock() - self._begin > self._budget:
            count = "1 forward" if made == 1 else f"{made} forwards"
            what = f"the budget of {self._budget:g} s was spent after {count}"
            raise BudgetSpent(what, where=name, remedy="raise --budget")
        self._progress.forward(name, made + 1, max(self._expected() + self.extra_count, made + 1))
