"""What a whole process costs: wall time, peak memory, and how much of a file it brought into memory.

How much of the file: the file is dropped from the page cache, the process runs, and the pages that are in the cache
then are counted. That counts read() and mapped pages alike, once each, and the kernel's read-ahead with them. The
warm-up is that process, since a cold file is slower. Where the system cannot tell (not Linux), it is None:
not known.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

SECONDS = 60.0
"""A process that runs longer is ended, and its line says so."""
GIBIBYTES = 16.0
"""The same for memory."""
POLL = 0.2
_SPAWN = Path(__file__).with_name("drivers") / "spawn.py"


class Outcome(NamedTuple):
    """One finished process."""

    seconds: float
    mebibytes: float
    """Peak resident memory, pages of mapped files included, of the largest of it and its children."""
    code: int
    stopped: str
    """"over 60 s", "over 16 GiB", or ""."""
    text: str
    """What it wrote."""
    complaint: str
    """What it wrote to stderr."""


def run(command: Sequence[str], environment: Mapping[str, str], log: Path, seconds: float = SECONDS) -> Outcome:
    """Run a process to its end or to a limit; `log` gets what it writes, a file beside it what it complains of."""
    errors, result = log.with_suffix(".stderr.txt"), log.with_suffix(".cost")
    result.unlink(missing_ok=True)
    spawner = [sys.executable, "-I", "-S", str(_SPAWN), str(result), *command]
    begin = time.perf_counter()
    with log.open("wb") as out, errors.open("wb") as err:
        child = subprocess.Popen(spawner, stdout=out, stderr=err, env=dict(environment), start_new_session=True)
    stopped: list[str] = []
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(child.pid, begin + seconds, seconds, stopped, over))
    watcher.start()
    code = child.wait()
    over.set()
    watcher.join()
    text, complaint = (path.read_text(encoding="utf-8", errors="replace") for path in (log, errors))
    if not result.exists():
        return Outcome(time.perf_counter() - begin, 0.0, code, "".join(stopped), text, complaint)
    taken, peak, own_code = result.read_text(encoding="ascii").split()
    result.unlink()
    mebibytes = int(peak) / (2**20 if sys.platform == "darwin" else 2**10)
    return Outcome(float(taken), mebibytes, int(own_code), "".join(stopped), text, complaint)


def _watch(pid: int, deadline: float, seconds: float, stopped: list[str], over: threading.Event) -> None:
    while not over.wait(POLL):
        if time.perf_counter() > deadline:
            stopped.append(f"over {seconds:.0f} s")
        elif _resident(pid) > GIBIBYTES * 2**30:
            stopped.append(f"over {GIBIBYTES:.0f} GiB")
        if stopped:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.killpg(pid, signal.SIGKILL)
            return


def _resident(spawner: int) -> int:
    """Bytes of resident memory of what it runs now; 0 where the system does not tell."""
    try:
        children = Path(f"/proc/{spawner}/task/{spawner}/children").read_text(encoding="ascii").split()
        pages = [int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) for pid in children]
    except (OSError, IndexError):
        return 0
    return sum(pages) * os.sysconf("SC_PAGE_SIZE")


def brought_in(path: Path, call: Callable[[], object]) -> int | None:
    """Bytes of the file that are in the page cache after `call` when there were none before. None: not known."""
    if not hasattr(os, "posix_fadvise"):
        call()
        return None
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    before = _cached(path)
    call()
    after = _cached(path)
    warm(path)
    return None if before is None or after is None or before > 0 else min(after, path.stat().st_size)


def _cached(path: Path) -> int | None:
    command = ["fincore", "--bytes", "--noheadings", "--output", "RES", str(path)]
    try:
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None


def warm(path: Path) -> None:
    """Read the file once, so that all of it is in the page cache."""
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass
