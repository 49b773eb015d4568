"""What comparing showed, before rules look at it."""

from __future__ import annotations

from typing import NamedTuple

from bnaudit.comparison import Comparison
from bnaudit.description import Description, Gap


class Shown(NamedTuple):
    """One comparison, and what the report on the subject takes beside it."""

    description: Description
    """The subject's, with the part that was compared."""
    comparison: Comparison
    gaps: tuple[Gap, ...] = ()
    """What could not be read of either."""
    failed: bool = False
    """What the user asked to run could not be run."""
