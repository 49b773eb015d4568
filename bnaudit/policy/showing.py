"""The text of `bnaudit gate --show-settings`: every value in force, as TOML, with where it comes from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from bnaudit.caps import Caps
from bnaudit.policy.keys import KEYS, Key
from bnaudit.policy.place import basic_string, quoted
from bnaudit.policy.policy import Policy, required
from bnaudit.policy.sections import Merged
from bnaudit.printable import printable
from bnaudit.results import Confidence, Severity
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings

_COLUMN = 44
"""Where the sources begin."""
_NAMED = 3
"""Artifacts of a group that are named."""


def shown(policy: Policy, artifacts: Sequence[Path]) -> str:
    """All values for every artifact, then for each group of artifacts what its sections change."""
    whole = policy.in_force(())
    lines = [f"# settings: {policy.source or 'none, defaults'}", *_top(whole), *_accepted(policy)]
    groups: dict[tuple[int, ...], list[Path]] = {}
    for path in artifacts:
        groups.setdefault(policy.sections_for(path), []).append(path)
    for chosen, paths in groups.items():
        if chosen:
            lines += ["", *_group(policy, chosen, paths)]
    return "\n".join(printable(line) for line in lines) + "\n"


def _top(found: Merged) -> Iterator[str]:
    for key in KEYS.values():
        if key.name not in ("accept", "files"):
            yield from _lines(key, found)


def _group(policy: Policy, chosen: tuple[int, ...], paths: Sequence[Path]) -> Iterator[str]:
    names = [os.path.relpath(path.absolute(), policy.root).replace(os.sep, "/") for path in paths]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    patterns = [policy.sections[i].pattern for i in chosen]
    yield f"# {', '.join(names[:_NAMED])}{more}"
    yield f"[files.{quoted(patterns[0] if len(patterns) == 1 else names[0])}]"
    whole, found = policy.in_force(()), policy.in_force(chosen)
    for key in KEYS.values():
        if key.per_file:
            lines = list(_lines(key, found))
            if lines != list(_lines(key, whole)):
                yield from lines


def _lines(key: Key, found: Mapping[str, Any]) -> Iterator[str]:
    if key.name == "require":
        chosen, why = required(dict(found))
        yield _line(f"require = {toml(chosen or 'none')}", why)
    elif key.name == "caps":
        yield from _caps(found.get("caps", {}))
    elif key.name not in found or not found[key.name]:
        yield _default(key)
    elif key.joined is None:
        given = found[key.name][""]
        yield _line(f"{key.name} = {toml(given.value)}", given.section.source)
    else:
        for path, value, sources in _entries(key, found):
            yield _line(f"{path} = {toml(value)}", ", ".join(sources))


def _entries(key: Key, found: Mapping[str, Any]) -> Iterator[tuple[str, object, list[str]]]:
    """Dotted key, value and sources of each entry of a table; the patterns of one rule are one entry."""
    patterns: dict[str, tuple[list[str], list[str]]] = {}
    for path, given in found[key.name].items():
        source = given.section.source
        if isinstance(given.value, tuple):
            rule, pattern = given.value
            texts, sources = patterns.setdefault(rule, ([], []))
            texts.append(pattern)
            if source not in sources:
                sources.append(source)
        else:
            names = path.split(".", 1) if key.name == "limits" else [path]
            yield ".".join([key.name, *map(quoted, names)]), given.value, [source]
    for rule, (texts, sources) in patterns.items():
        yield f"{key.name}.{rule}", tuple(texts), sources


def _caps(given: Mapping[str, Any]) -> Iterator[str]:
    for name, value in Caps._defaults.items():
        if name in given:
            yield _line(f"caps.{name} = {given[name].value}", given[name].section.source)
        else:
            yield _line(f"caps.{name} = {value}", "default")


def _accepted(policy: Policy) -> Iterator[str]:
    """The entries as comments: where they are written, and whether their last day has passed."""
    entries = policy.settings(None).accept
    if not entries:
        yield _default(KEYS["accept"])
    for entry in entries:
        given = {"rule": entry.rule, "layer": entry.layer, "file": entry.artifact, "reason": entry.reason}
        named = {name: text for name, text in given.items() if text != "*"}
        ended = f"expired on {entry.until}" if entry.expired else f"until {entry.until}" if entry.until else "no end"
        yield f"# accept: {toml(named)}  # {entry.source}, {ended}"


def _default(key: Key) -> str:
    value = key.default if key.default is not None else _field(key.goes)
    if value is None or value == () or isinstance(value, Mapping) or key.unset:
        return _line(f"# {key.name}: {key.unset or 'none'}", "default")
    return _line(f"{key.name} = {toml(value)}", "default")


def _field(name: str) -> object:
    if name.startswith("run."):
        return RunOptions._defaults[name[4:]]
    return Settings._defaults.get(name)


def _line(text: str, source: str) -> str:
    return f"{text.ljust(_COLUMN)}  # {source}"


def toml(value: object) -> str:
    """A value as TOML."""
    if isinstance(value, (Severity, Confidence)):
        return basic_string(value.label)
    if isinstance(value, Enum):
        return basic_string(str(value.value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{quoted(str(name))} = {toml(each)}" for name, each in value.items()) + "}"
    return basic_string(value) if isinstance(value, str) else str(value)
