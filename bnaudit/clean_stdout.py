"""While models run, stdout is kept for the report."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout


@contextmanager
def stdout_kept_clean() -> Iterator[None]:
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
