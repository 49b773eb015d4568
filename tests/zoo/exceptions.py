"""Why an architecture, or one of its artifacts, was not audited: a named reason, or a crash."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

CRASH = "crash"
"""The class of everything that is bnaudit's own fault."""


def reason(record: dict[str, Any]) -> str:
    """The class of the exception; empty: it was audited. `crash` counts against bnaudit."""
    if "exception" in record:
        return str(record["exception"])
    if "killed" in record:
        return str(record["killed"]) if record.get("while") != "auditing" else CRASH
    if "broke" in record:
        return CRASH if record.get("in_bnaudit") else f"the library cannot build or run it: {record['broke']}"
    if "not_written" in record:
        return f"torch cannot write it: {record['not_written']}"
    return ""


def counted(records: Iterable[dict[str, Any]]) -> dict[str, list[str]]:
    """Class → names, the largest class first. Numbers and quoted names are taken out, so that like goes with like."""
    classes: dict[str, list[str]] = {}
    for record in records:
        if why := reason(record):
            classes.setdefault(_like(why), []).append(record["name"])
    sizes = Counter({why: len(names) for why, names in classes.items()})
    return {why: classes[why] for why, _ in sizes.most_common()}


def _like(why: str) -> str:
    without_names = re.sub(r"'[^']*'|\"[^\"]*\"", "…", why)
    return without_names[:110]
