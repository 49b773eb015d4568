"""What a format makes of a damaged file."""

from __future__ import annotations

import time
from pathlib import Path

from bnaudit.description import Description
from bnaudit.errors import BnauditError
from bnaudit.formats import Candidate, Format
from bnaudit.reading.byte_source import ByteSource


def outcome_of(format: Format, path: Path, seconds: float) -> Description | BnauditError | None:
    """A description, an expected error of one line, or None when the format does not claim the file; in time."""
    started = time.process_time()
    try:
        with ByteSource.open(path) as source:
            candidate = Candidate(path, source)
            return format.read(candidate) if format.claims(candidate) else None
    except BnauditError as error:
        assert "\n" not in str(error)
        return error
    finally:
        assert time.process_time() - started < seconds
