"""What a log of repeated inputs says about a cause before anything is drawn."""

from __future__ import annotations

from bnaudit.diagnosis import LogEvidence

_ENOUGH = 3
"""Repeated inputs that agree, from which on what draws at random is ruled out."""


def ruled_out(cause: str, log: LogEvidence | None) -> str:
    """Why the log rules a cause out, of `companions`, `randomness`, `history` or "" for one that never changes
    anything between requests; "": it does not."""
    if log is None or not log.repeated:
        return ""
    if log.points_to and cause not in log.points_to:
        named = " or ".join(log.points_to)
        return f"the log rules it out: repeated inputs have different scores because of {named}"
    if cause and not log.differing and log.repeated >= _ENOUGH and not log.needs:
        return f"the log rules it out: {log.repeated} repeated inputs have the same scores each time"
    return ""


def spoken_for(cause: str, log: LogEvidence | None) -> str:
    """What the log says for a cause, and for no other before it; "": nothing."""
    if log is None or log.points_to[:1] != (cause,) or not cause:
        return ""
    return f"{log.differing} of {log.repeated} repeated inputs have different scores, which the log lays to {cause}"
