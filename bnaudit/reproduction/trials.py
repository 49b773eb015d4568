"""The forwards of one reproduction: counted, and none begun when the time or the number is used up."""

from __future__ import annotations

import time
from collections.abc import Callable

from bnaudit.feeds.pools import Pool
from bnaudit.session import Held, Mode, RunError, Session, Trace, Watch

MOST_FORWARDS = 600
SECONDS = 60.0
"""To make a case small, unless --budget says otherwise."""


class Trials:
    """Runs batches of a session."""

    def __init__(
        self,
        session: Session,
        seconds: float | None = None,
        seed: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """seed: what every generator is set to before each forward; None: they go on."""
        self.session = session
        self.seed = seed
        self.forwards = 0
        self._clock = clock
        self._end = clock() + (SECONDS if seconds is None else seconds)

    def may_go_on(self) -> bool:
        """Whether another forward may be spent on making the case smaller."""
        return self.forwards < MOST_FORWARDS and self._clock() < self._end

    def run(
        self,
        pool: Pool,
        rows: tuple[int, ...],
        mode: Mode = Mode.INFERENCE,
        watch: Watch = Watch.CALLS,
        *,
        restored: bool = True,
        hold: tuple[Held, ...] = (),
        anchor: int = 0,
        seed: int | None = None,
    ) -> Trace:
        """One forward on these rows of the pool. Raises RunError when the model raises."""
        self.forwards += 1
        batch = pool.take(rows).batch((anchor,))
        chosen = self.seed if seed is None else seed
        return self.session.run(batch, mode, watch, restored=restored, seed=chosen, hold=hold)

    def tolerated(self, pool: Pool, rows: tuple[int, ...], mode: Mode = Mode.INFERENCE) -> Trace | None:
        """The same; None when the model raises: what it does not take shows nothing."""
        try:
            return self.run(pool, rows, mode)
        except RunError:
            return None
