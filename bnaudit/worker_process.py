"""One process of a pool, from both of its sides."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import connection, get_context
from multiprocessing.reduction import ForkingPickler
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from bnaudit.errors import BnauditError, UsageError, where_raised

if TYPE_CHECKING:
    import numpy as np

_SAME = None
"""Sent in place of a context that the process has from the piece before."""
_PATIENCE = 5.0
"""Seconds that a process has to end after it was told to."""


class Message(NamedTuple):
    """What a process says: that it is ready, what came of its work, or why nothing did."""

    result: Any = None
    error: BnauditError | None = None
    """What the task raised for the user."""
    broke: str = ""
    """An unexpected error, in words."""


class Worker:
    """A process, as the pool sees it."""

    def __init__(self, task: Callable[[Any, Any], Any]) -> None:
        """Start it. Raises UsageError when the system starts no further process."""
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        # No daemon: a loader of the user's data may start processes of its own.
        self._process = context.Process(target=_serve, args=(task, theirs))
        self._context: object = _SAME
        self.is_ready = False
        self.position: int | None = None
        """Of the piece that it works on."""
        try:
            with _interrupts_held_back():
                self._process.start()
        except OSError as error:
            self.pipe.close()
            raise UsageError(f"no further process can be started: {error.strerror}", remedy="give --jobs 1") from error
        finally:
            theirs.close()

    @property
    def sentinel(self) -> int:
        """Becomes ready when the process ends."""
        return self._process.sentinel

    def give(self, position: int, subject: object, context: object) -> None:
        """Let it work on this piece. That it is dead is found out later."""
        self.position = position
        try:
            self.pipe.send((subject, _SAME if context is self._context else (context,)))
        except OSError:
            return
        self._context = context

    def receive(self) -> Message | None:
        """What it says next; None: it is dead."""
        try:
            # The end of a process may be seen before its last words are read.
            message: Message | None = self.pipe.recv() if self.pipe.poll() else None
        except (EOFError, OSError):
            return None
        return message

    def end(self) -> str:
        """How it ended, in words."""
        self.join()
        code = self._process.exitcode
        if code is not None and code < 0:
            return f"its process was ended by {_signal_name(-code)}"
        return f"its process ended with code {code}"

    def stop(self) -> None:
        """Tell it to end at once."""
        self._process.terminate()

    def join(self) -> None:
        """Wait until it is gone; what has closed its pipe and lives is ended."""
        self._process.join(_PATIENCE)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
        self.pipe.close()


def ready(workers: Sequence[Worker]) -> list[Worker]:
    """Those that have something to say or have ended, as soon as there is one."""
    by_handle: dict[Any, Worker] = {}
    for worker in workers:
        by_handle[worker.pipe] = by_handle[worker.sentinel] = worker
    return list(dict.fromkeys(by_handle[handle] for handle in connection.wait(list(by_handle))))


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Ctrl-C goes to every process of the terminal: what is started inside never gets it, here it comes afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _serve(task: Callable[[Any, Any], Any], pipe: connection.Connection) -> None:
    """The life of a process: say that it is ready, then work until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _leave_stdout()
    _keep_values_read_only()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # as in the command line: records of a file form no cycles
    context: object = None
    try:
        pipe.send(Message())
        while True:
            subject, sent = pipe.recv()
            if sent is not _SAME:
                (context,) = sent
            _answer(pipe, task, subject, context)
    except (EOFError, OSError):
        return  # nobody wants to know any more


def _answer(pipe: connection.Connection, task: Callable[[Any, Any], Any], subject: object, context: object) -> None:
    try:
        message = ForkingPickler.dumps(Message(result=task(subject, context)))
    except BnauditError as error:
        message = ForkingPickler.dumps(Message(error=UsageError(str(error))))
    except Exception as error:
        why = f"internal failure ({where_raised(error)}): please report it with the file's origin"
        message = ForkingPickler.dumps(Message(broke=why))
    pipe.send_bytes(message)


def _leave_stdout() -> None:
    """What is printed here goes to stderr: stdout is the report's alone."""
    sys.stdout = sys.stderr
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _mapping(mapping: MappingProxyType[Any, Any]) -> tuple[Any, ...]:
    return _proxy, (dict(mapping),)  # the class itself has no name that pickle finds


def _proxy(plain: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(plain)


def _array(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    if array.flags.writeable or array.dtype.hasobject:
        return cast("tuple[Any, ...]", array.__reduce__())
    return _read_only, (array.tobytes(), array.dtype.str, array.shape)


def _read_only(data: bytes, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    import numpy as np

    array: np.ndarray[Any, Any] = np.ndarray(shape, np.dtype(dtype), data)
    return array


def _keep_values_read_only() -> None:
    """Mappings and arrays come out of a process as they are in it; pickles of anything else stay as they are."""
    import numpy as np

    ForkingPickler.register(np.ndarray, _array)


# Settings hold such mappings: on both sides.
ForkingPickler.register(MappingProxyType, _mapping)
