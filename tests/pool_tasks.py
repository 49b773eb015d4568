"""Work for processes of a pool: importable in them by name."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing import get_context
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from bnaudit.errors import UsageError


def times(number: int, factor: int) -> int:
    """Some work."""
    return number * factor


def process(_: object, context: object) -> tuple[int, object]:
    """Who works, and with what."""
    time.sleep(0.01)
    return os.getpid(), context


def dying(subject: str, context: Path) -> str:
    """What the subject says: `kill` dies always, `exit` too, `once` only the first time, anything else lives."""
    with (context / "log").open("a", encoding="utf-8") as file:
        file.write(f"{subject} ")
    if subject == "kill":
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    if subject == "exit":
        os._exit(7)
    if subject.startswith("once") and not (context / subject).exists():
        (context / subject).touch()
        os._exit(3)
    time.sleep(0.01)
    return subject.upper()


def raising(subject: str, _: object) -> object:
    """Errors of each kind, and a result that cannot be sent."""
    if subject == "usage":
        raise UsageError("no rule has an id that starts with 'X'", remedy="see `bnaudit rules`")
    if subject == "internal":
        raise ZeroDivisionError("by nothing")
    return (lambda: subject) if subject == "unsendable" else subject


def printing(subject: str, _: object) -> str:
    """Print by Python and past it."""
    print(f"printed {subject}", flush=True)  # noqa: T201
    os.write(1, b"written\n")
    return subject


def values(_: object, context: MappingProxyType[str, Any]) -> tuple[Any, ...]:
    """Read-only things, there and back."""
    fixed = np.arange(3.0)
    fixed.flags.writeable = False
    empty = np.zeros((0, 4))
    empty.flags.writeable = False
    return context, fixed, empty, np.arange(3), np.float64(1.5)


def interrupting(_: object, context: int) -> bool:
    """Ctrl-C in this process, which is not to notice."""
    os.kill(os.getpid(), signal.SIGINT)
    return True


def slow(subject: int, _: object) -> int:
    """Long work."""
    time.sleep(60 if subject else 0)
    return os.getpid()


def with_children(subject: int, _: object) -> int | None:
    """Work that starts a process of its own, as loaders of data do."""
    child = get_context("spawn").Process(target=time.sleep, args=(0,))
    child.start()
    child.join()
    return child.exitcode


def dying_at_3(path: Path, order: Any, **options: Any) -> Any:
    """Audit a file, but die at that of one name."""
    from bnaudit.streaming import _examined

    if path.name == "3.pt":
        os._exit(9)
    return _examined(path, order, **options)
