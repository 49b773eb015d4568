"""The policy of a gate: settings files, the command line over them, and which of them hold for which artifact.

    from bnaudit.policy import load
    policy = load(None, Path.cwd(), {"fail-on": "warning"})
    policy.settings(Path("models/a.pt"))   # Settings

`keys.py` is the table of all settings. Defaults, then the top of the file, then its sections that fit an artifact in
their order, then what was typed: values replace one another, tables are merged entry by entry.
"""

from __future__ import annotations

from bnaudit.policy.entries_by_path import EntriesByPath
from bnaudit.policy.matching import Matching, unmatched
from bnaudit.policy.policy import Policy, load

__all__ = ["EntriesByPath", "Matching", "Policy", "load", "unmatched"]
