"""Many independent pieces of work in a bounded number of processes, of which any may die.

Each process has a pipe of its own and one piece of work at a time, so that it is always known what a process was
doing when it died: that piece is tried once more, alone, and given up when it ends its process again. Nothing is
queued in processes, so that memory stays flat however much there is to do.

Processes are spawned on every system: a fork copies the threads' locks but not the threads (progress bar, NumPy's
and torch's pools), and a spawned process inherits no other's pipe, so that the end of one is seen.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Generic, TypeVar

from bnaudit.available_memory import available_bytes
from bnaudit.errors import UsageError

if TYPE_CHECKING:
    from bnaudit.worker_process import Worker

S = TypeVar("S")
"""What a piece of work is about."""
C = TypeVar("C")
"""What holds for it; often the same object for many pieces, and then sent once to each process."""
R = TypeVar("R")
"""What comes of it."""
_FEW = 16
"""Pieces of work below which starting processes costs more than it saves."""
_MOST = 16
"""Processes beyond which one that collects the results cannot follow, and memory is used for nothing."""
_MEMORY = 1 << 30
"""Bytes for each: one that runs a small model with torch takes half of that."""
_LIMIT = 30 if os.name == "nt" else 256
"""Processes at most, whoever asks: Windows waits for 63 handles, two for each."""
_STARTS = 3
"""Processes that end before they are ready, one after another, until it is given up."""


class Piece(Generic[S, C]):
    """One piece of work."""

    __slots__ = ("context", "subject")

    def __init__(self, subject: S, context: C) -> None:
        self.subject = subject
        self.context = context


def default_jobs(pieces: int) -> int:
    """How many processes suit this many pieces of work, the CPUs that this process may use, and the memory there is."""
    if pieces < _FEW:
        return 1
    memory = available_bytes()
    most = _MOST if memory is None else min(memory // _MEMORY, _MOST)
    count = getattr(os, "process_cpu_count", None)
    if count is not None:
        cpus = count()
    elif hasattr(os, "sched_getaffinity"):
        cpus = len(os.sched_getaffinity(0))
    else:
        cpus = os.cpu_count()
    return max(min(cpus or 1, most), 1)


def results(
    task: Callable[[S, C], R],
    work: Sequence[Piece[S, C]],
    jobs: int,
    lost: Callable[[S, str], R],
    begins: Callable[[S, int, int], object] = lambda subject, position, total: None,
) -> Generator[tuple[int, R], None, None]:
    """Do all the work, and give each result with the position of its piece, as they come.

    With one job everything is done here, in order. Otherwise `task`, the pieces and the results cross borders of
    processes by pickle; `lost` makes a result for a piece whose process died twice, and is given the reason; `begins`
    is told the subject and position of a piece that is begun, and how many there are. A BnauditError that the task
    raises is raised here. Close the generator to end the processes before all is done.
    """
    if jobs <= 1 or len(work) <= 1:
        for position, piece in enumerate(work):
            begins(piece.subject, position, len(work))
            yield position, task(piece.subject, piece.context)
        return
    with closing(_Pool(task, work, min(jobs, len(work), _LIMIT), lost, begins)) as pool:
        yield from pool.results()


class _Pool(Generic[S, C, R]):
    def __init__(
        self,
        task: Callable[[S, C], R],
        work: Sequence[Piece[S, C]],
        jobs: int,
        lost: Callable[[S, str], R],
        begins: Callable[[S, int, int], object],
    ) -> None:
        self._task = task
        self._work = work
        self._lost = lost
        self._begins = begins
        self._jobs = jobs
        self._next = 0
        self._again: deque[int] = deque()
        """Pieces whose process died once."""
        self._deaths: dict[int, str] = {}
        self._workers: list[Worker] = []
        self._failed_starts = 0

    def results(self) -> Iterator[tuple[int, R]]:
        from bnaudit.worker_process import ready

        while self._waiting() or self._busy():
            self._fill()
            for worker in ready(self._workers):
                yield from self._hear(worker)

    def close(self) -> None:
        for worker in self._workers:
            worker.stop()
        for worker in self._workers:
            worker.join()
        self._workers.clear()

    def _waiting(self) -> int:
        """Pieces that no process works on."""
        return len(self._work) - self._next + len(self._again)

    def _fill(self) -> None:
        """Start what processes are missing, and give work to the idle ones."""
        from bnaudit.worker_process import Worker

        while len(self._workers) < min(self._jobs, self._waiting() + self._busy()):
            try:
                self._workers.append(Worker(self._task))
            except UsageError:
                if not self._workers:
                    raise
                self._jobs = len(self._workers)  # the system has no room for more
        for worker in self._workers:
            if worker.is_ready and worker.position is None and (position := self._take()) is not None:
                piece = self._work[position]
                self._begins(piece.subject, position, len(self._work))
                worker.give(position, piece.subject, piece.context)

    def _busy(self) -> int:
        return sum(worker.position is not None for worker in self._workers)

    def _take(self) -> int | None:
        """The next piece; one whose process died only when nothing else is at work."""
        if self._again:
            return None if self._busy() else self._again.popleft()
        if any(worker.position in self._deaths for worker in self._workers) or self._next == len(self._work):
            return None
        self._next += 1
        return self._next - 1

    def _hear(self, worker: Worker) -> Iterator[tuple[int, R]]:
        """What a process says, or that it is no more."""
        message = worker.receive()
        if message is None:
            self._workers.remove(worker)
            yield from self._bury(worker)
            return
        position, worker.position = worker.position, None
        self._failed_starts = 0
        if position is None:
            worker.is_ready = True
        elif message.error is not None:
            raise message.error
        elif message.broke:
            yield position, self._lost(self._work[position].subject, message.broke)
        else:
            yield position, message.result

    def _bury(self, worker: Worker) -> Iterator[tuple[int, R]]:
        end, position = worker.end(), worker.position
        if not worker.is_ready:
            self._failed_starts += 1
            if self._failed_starts == _STARTS:
                guard = getattr(sys.modules.get("__main__"), "__file__", None)
                remedy = "give --jobs 1" if guard is None else "give jobs=1, or start under `if __name__ == '__main__'`"
                raise UsageError(f"no further process can be started: {end} before it was ready", remedy=remedy)
        elif position is not None and position in self._deaths:
            how = f"{end}, also when it was tried again alone: give it more memory, or leave it out"
            yield position, self._lost(self._work[position].subject, how)
        elif position is not None:
            self._deaths[position] = end
            self._again.append(position)
