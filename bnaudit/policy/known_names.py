"""Which layers and modules are known of an audited artifact, and whether that is all of them."""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.layer_names import spellings
from bnaudit.nearest_name import nearest
from bnaudit.records import Record
from bnaudit.results import Audit
from bnaudit.session import Place


def known_names(audit: Audit) -> set[str]:
    """Names of layers, modules and places of findings, with the modules that hold them, with and without wrappers."""
    names: set[str] = set()
    for name in _named(audit):
        while name and name not in names:
            names.update(spellings(name))
            name = name.rpartition(".")[0]
    return names - {""}


def lists_all_modules(audit: Audit) -> bool:
    """Whether a module that is not among the known names does not exist."""
    parts = audit.description.parts
    return bool(parts) and all(part.modules is not None for part in parts)


def suggestion(pattern: str, names: set[str]) -> str:
    """The pattern with its fixed beginning replaced by the nearest name that there is."""
    fixed = pattern[: next((i for i, c in enumerate(pattern) if c in "*?["), len(pattern))]
    head = fixed.rstrip(".")
    if not head:
        return "check the pattern"
    from difflib import get_close_matches

    ordered = sorted(names, key=lambda name: (name.count("."), name))
    close = get_close_matches(head, ordered, n=1)
    if not close:
        return nearest(pattern, ordered, "check the pattern")
    return f"did you mean {close[0]}{pattern[len(head) :]}?"


def _named(audit: Audit) -> Iterator[str]:
    for part in audit.description.parts:
        yield from (layer.name for layer in part.layers)
        yield from (entry.name for entry in part.mode_dependent)
        yield from (hidden.path for hidden in part.hidden)
        yield from part.modules or ()
    yield from (finding.layer for finding in audit.findings if finding.layer)
    if audit.measured is not None:
        yield from _places(audit.measured.measurements)


def _places(value: object) -> Iterator[str]:
    """The layers and modules in what was measured."""
    if isinstance(value, Place):
        yield value.module
    elif isinstance(value, tuple):
        for each in value:
            yield from _places(each)
    elif isinstance(value, Record):
        for field in value._fields:
            held = getattr(value, field)
            if field == "layer" and isinstance(held, str):
                yield held
            elif isinstance(held, (Record, tuple)):
                yield from _places(held)
