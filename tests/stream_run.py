"""A run over many artifacts as a process of its own: `python stream_run.py FOLDER OUT JOBS [resume] [slow]`."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from bnaudit.caps import Caps
from bnaudit.progress import Silent
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings
from bnaudit.streaming import stream
from bnaudit.targets import expand


class Slow(Silent):
    """Somebody who listens slowly."""

    def artifact(self, path: Path, position: int, total: int) -> None:
        """Hold the audit up."""
        time.sleep(0.04)


def main() -> int:
    """Run it and give the exit code."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    folder, out, jobs, *words = sys.argv[1:]
    settings = Settings(run=RunOptions(static=True))
    tally = stream(
        expand([folder], Caps()),
        lambda path: settings,
        Path(out),
        Slow() if "slow" in words else Silent(),
        jobs=int(jobs),
        resume="resume" in words,
    )
    return tally.exit_code()


if __name__ == "__main__":
    sys.exit(main())
