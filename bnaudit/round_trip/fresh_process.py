"""One piece of work in a process that was started for it, and what became of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from bnaudit.session import NotPossibleError
from bnaudit.worker_process import Message, Worker, ready

_R = TypeVar("_R")


def in_fresh_process(task: Callable[[Any, Any], _R], subject: object, context: object) -> _R:
    """`task(subject, context)` in a process that knows nothing of this one; all three cross by pickle.

    Raises NotPossibleError when it dies or breaks, and the task's own UsageError.
    """
    worker = Worker(task)
    try:
        _next(worker)
        worker.give(0, subject, context)
        message = _next(worker)
    except BaseException:
        worker.stop()
        raise
    finally:
        worker.join()
    if message.error is not None:
        raise NotPossibleError(str(message.error))
    if message.broke:
        raise NotPossibleError(f"in the fresh process: {message.broke}")
    result: _R = message.result
    return result


def _next(worker: Worker) -> Message:
    ready([worker])
    message = worker.receive()
    if message is None:
        raise NotPossibleError(f"the model could not be loaded again: {worker.end()}")
    return message
