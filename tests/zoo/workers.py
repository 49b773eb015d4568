"""Worker processes that may die, take too long or grow too large; each such end is a record, and a new one starts."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import Any

import psutil
from zoo.tasks import Piece, serve

LONGEST = {"state-dict": 300.0}
LONGEST_CARRIER = 420.0
"""Seconds that one piece may take."""
LARGEST = 7 * 2**30
"""Bytes of resident memory of one worker."""
POLL = 0.2
Record = dict[str, Any]


class Worker:
    """One process, started when it is first needed."""

    def __init__(self, scratch: str, log: str) -> None:
        self._scratch, self._log = scratch, log
        self._process: Any = None
        self._connection: Any = None

    def do(self, piece: Piece) -> Record:
        """The record of a piece; `killed` says why there is none."""
        if self._process is None:
            self._start()
        self._connection.send(piece)
        answer = self._wait(LONGEST.get(piece["task"], LONGEST_CARRIER))
        if isinstance(answer, dict):
            return answer
        self.stop()
        return {"killed": answer}

    def stop(self) -> None:
        """End the process, at once."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, self._scratch, self._log), daemon=True)
        self._process.start()
        theirs.close()
        if not isinstance(ready := self._wait(180.0), dict):
            raise RuntimeError(f"a worker of the zoo did not start: {ready}; see {self._log}")

    def _wait(self, seconds: float) -> Record | str:
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            try:
                if self._connection.poll(POLL):
                    answer: Record = self._connection.recv()
                    return answer
                used = psutil.Process(self._process.pid).memory_info().rss
            except (EOFError, OSError, psutil.Error):
                self._process.join(5.0)
                return f"its process died with exit code {self._process.exitcode}"
            if used > LARGEST:
                return f"larger than the memory bound of {LARGEST // 2**30} GiB"
        return f"slower than the limit of {seconds:.0f} seconds"


def run(pieces: Iterable[Piece], jobs: int, scratch: str, log: str, finished: Callable[[Piece, Record], None]) -> None:
    """Do the pieces with `jobs` workers; `finished` is called in this thread, as the records come."""
    work: SimpleQueue[Piece] = SimpleQueue()
    done: SimpleQueue[tuple[Piece | None, Any]] = SimpleQueue()
    for piece in pieces:
        work.put(piece)
    workers = [Worker(scratch, f"{log}.{number}") for number in range(jobs)]
    for worker in workers:
        threading.Thread(target=_drive, args=(worker, work, done), daemon=True).start()
    try:
        running = jobs
        while running:
            piece, record = done.get()
            if piece is not None:
                finished(piece, record)
                continue
            running -= 1
            if record is not None:
                raise record
    finally:
        for worker in workers:
            worker.stop()


def _drive(worker: Worker, work: SimpleQueue[Piece], done: SimpleQueue[tuple[Piece | None, Any]]) -> None:
    try:
        while True:
            try:
                piece = work.get_nowait()
            except Empty:
                break
            done.put((piece, worker.do(piece)))
        done.put((None, None))
    except BaseException as error:
        done.put((None, error))
