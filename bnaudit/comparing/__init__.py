"""Comparing two artifacts: `compare(baseline, subject)` gives a Report of what differs."""

from bnaudit.comparing.use_case import compare

__all__ = ["compare"]
