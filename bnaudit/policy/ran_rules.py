"""Which rules were really asked of an artifact."""

from __future__ import annotations

from bnaudit.results import Audit
from bnaudit.rules import load_rule, rule_files
from bnaudit.settings import Settings


def ran(prefix: str, audit: Audit, settings: Settings) -> frozenset[str]:
    """Ids of the rules of this prefix that were selected and looked at the artifact."""
    kept_back = {entry.rule for entry in audit.skipped} | {entry.rule for entry in audit.failed}
    return frozenset(id for id in of_prefix(prefix) if settings.selects(id) and id not in kept_back)


def of_prefix(prefix: str) -> list[str]:
    """Ids of all rules of this prefix."""
    return [id for id in rule_files() if id.startswith(prefix)]


def is_static(id: str) -> bool:
    """Whether the rule looks at what a file says, so that all that it may find has a known name."""
    return not load_rule(rule_files()[id]).needs
