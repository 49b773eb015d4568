"""Keeps a graph of unknown origin within bounds: a few bytes of it can ask for terabytes, or loop for ever."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar

from bnaudit.available_memory import available_bytes
from bnaudit.forwards import BudgetSpent

_T = TypeVar("_T")

SHORTEST = 5.0
"""Seconds that any run may take, however small the budget is: a forward that was begun is seldom longer."""
_PATIENCE = 5.0
"""Seconds for the node that runs to end, after which nothing more is begun."""
_GLANCE = 0.1
"""Seconds between looks at the clock and at interrupts; the end of a run is seen at once."""
_SHARE = 0.9
"""Of the memory that is there."""


def stoppable(call: Callable[[], _T], options: Any, budget: float | None) -> _T:
    """The result of `call`, a run with these onnxruntime.RunOptions; Ctrl-C ends it, and so does the budget in seconds.

    onnxruntime runs outside of Python, which sees an interrupt only when the call is over: so it is called in another
    thread. Raises what the call raises, KeyboardInterrupt, or BudgetSpent.
    """
    ended = Event()
    results: list[_T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    Thread(target=work, daemon=True).start()
    try:
        in_time = _ended(ended, None if budget is None else max(budget, SHORTEST))
    except BaseException:
        _stop(options, ended)
        raise
    if not in_time:
        _stop(options, ended)
        raise BudgetSpent(f"the budget of {budget:g} s was spent within one forward", remedy="raise --budget")
    if errors:
        raise errors[0]
    return results[0]


def _ended(ended: Event, seconds: float | None) -> bool:
    """Whether it ended in time. Looks up now and then: an interrupt need not wake the thread that waits."""
    last = None if seconds is None else time.monotonic() + seconds
    while not ended.wait(_GLANCE):
        if last is not None and time.monotonic() > last:
            return False
    return True


def _stop(options: Any, ended: Event) -> None:
    options.terminate = True
    if ended.wait(_PATIENCE):
        options.terminate = False


@contextmanager
def within_memory() -> Iterator[None]:
    """Allocations inside fail before they take the machine's last memory; where the system has no such limit, nothing.

    The limit is one on addresses, put back on leaving.
    """
    limit = _address_limit()
    if limit is None:
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY and soft <= limit:
        yield
        return
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _address_limit() -> int | None:
    """What the process has of addresses now, and most of the memory that is there."""
    if sys.platform != "linux":
        return None
    free = available_bytes()
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except OSError:
        return None
    import resource

    return None if free is None else pages * resource.getpagesize() + int(_SHARE * free)
