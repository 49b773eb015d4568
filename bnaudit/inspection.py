"""`bnaudit inspect` behind its options: audit with a progress bar, write the report, give the exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout

from bnaudit.auditing import audit
from bnaudit.output import view, write
from bnaudit.progress_bar import ProgressBar
from bnaudit.reports import renderer
from bnaudit.settings import Settings


def inspect(paths: Sequence[str], format: str, settings: Settings) -> int:
    """Audit the paths, and the live model of the settings, and write the report in this format to stdout.

    Returns the exit code. What a model prints while it runs goes to stderr: stdout is the report's alone. Raises
    UsageError for an unknown format or rule.
    """
    chosen = renderer(format)
    with _stdout_kept_clean(), ProgressBar() as bar:
        report = audit(paths or None, settings, bar)
    write(chosen.render(report, view(in_full=settings.all_layers)))
    return report.exit_code()


@contextmanager
def _stdout_kept_clean() -> Iterator[None]:
    """What is written to stdout inside goes to stderr, also past Python: by C libraries, to the descriptor itself."""
    with redirect_stdout(sys.stderr):
        try:
            sys.stderr.flush()
            kept = os.dup(1)
            os.dup2(2, 1)
        except OSError:  # one of the two is closed
            yield
            return
        try:
            yield
        finally:
            _flush_libraries()
            os.dup2(kept, 1)
            os.close(kept)


def _flush_libraries() -> None:
    """Empty the buffers of the C library, which would reach stdout when the process ends."""
    if not {"torch", "onnxruntime"} & sys.modules.keys():
        return  # nothing ran
    import ctypes

    library = ctypes.CDLL("ucrtbase" if os.name == "nt" else None)
    library.fflush(None)
