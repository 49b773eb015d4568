"""Runs a script that was written, in a process of its own, as the user would."""

from __future__ import annotations

import io
import runpy
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from bnaudit.worker_process import Worker, ready


class Ran(NamedTuple):
    """How a script ended."""

    code: int | None
    """None: it raised, or its process died."""
    said: str


def ran(script: Path) -> Ran:
    """Run it once. It is code that bnaudit wrote, and the user's model."""
    worker = Worker(_run)
    try:
        ready([worker])
        if worker.receive() is None:
            return Ran(None, worker.end())
        worker.give(0, script, ())
        ready([worker])
        message = worker.receive()
        if message is None:
            return Ran(None, worker.end())
        return message.result if isinstance(message.result, Ran) else Ran(None, message.broke or str(message.error))
    finally:
        worker.stop()
        worker.join()


def _run(script: Path, _: object) -> Ran:
    said = io.StringIO()
    sys.argv = [str(script)]
    with redirect_stdout(said), redirect_stderr(said):
        try:
            runpy.run_path(str(script), run_name="__main__")
            code: int | None = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 2
        except Exception as error:
            return Ran(None, f"{type(error).__name__}: {error}")
    return Ran(code, said.getvalue())
