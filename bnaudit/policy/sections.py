"""Layers of settings (defaults, the file's top, its sections, the command line), checked, and laid over one another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, cast

from bnaudit.nearest_name import nearest
from bnaudit.policy.document import Document
from bnaudit.policy.keys import KEYS, Key
from bnaudit.policy.place import Place, quoted

TYPED = "command line"
LARGEST_GAP = "BN403.max_gap"
"""The limit that `max-gap` sets."""
ABOUT_A_MODEL = ("model-args", "part", "as-is")
"""Settings that mean nothing without `model`."""


class Section(NamedTuple):
    """Values that are written in one place, each checked."""

    source: str
    """`bnaudit.toml`, `bnaudit.toml: files."models/*.pt"`, `command line`."""
    values: Mapping[str, object]
    """By key; the entries of tables by their paths."""
    places: Mapping[str, Place]
    pattern: str = ""
    """Of the artifacts that it is about; "": all."""


class Given(NamedTuple):
    """A value in force and the section that it comes from."""

    value: object
    section: Section
    rank: int = 0
    """Of the section, the nearest to the command line has the highest."""


Merged = dict[str, dict[str, Given]]
"""Key → "" → value; of a table, path → value."""


def sections_of(document: Document) -> tuple[Section, ...]:
    """The top of the file and its sections, in order. Raises UsageError for whatever is wrong in it."""
    root = Place(f"{document.source}: {document.prefix}", document.root)
    keyed = {name: value for name, value in document.settings.items() if name != "files"}
    top = _checked(document.source, keyed, lambda name: root._replace(text=f"{root.text}{quoted(name)}"), "")
    files = KEYS["files"]
    at = root._replace(text=f"{root.text}files", example=files.example)
    patterns = files.check(document.settings.get("files", {}), at)
    return (top, *(_section(pattern, values, at.inside(pattern)) for pattern, values in patterns.items()))


def typed_section(options: Mapping[str, object]) -> Section:
    """What was typed; None is not typed. Raises UsageError with the option's name."""
    given = {name: value for name, value in options.items() if value is not None}

    def place(name: str) -> Place:
        option, example = (KEYS[name].option, KEYS[name].as_typed) if name in KEYS else (f"--{name}", "")
        shown = f" {given[name]}" if isinstance(given[name], (str, int, float)) and given[name] is not True else ""
        return Place(f"{option}{shown}", Path(), typed=True, example=example)

    return _checked(TYPED, given, place, "")


def merged(sections: Iterable[Section]) -> Merged:
    """Later sections over earlier ones: values replace, tables are merged entry by entry.

    A section that says `static` takes back what earlier ones asked to run, and the other way round.
    """
    found: Merged = {}
    for rank, section in enumerate(sections):
        if section.values.get("static"):
            for name in (*_ASKING, *ABOUT_A_MODEL):
                found.pop(name, None)
        elif any(section.values.get(name) for name in _ASKING):
            found.pop("static", None)
        for name, value in section.values.items():
            if KEYS[name].joined is None:
                found[name] = {"": Given(value, section, rank)}
            elif isinstance(value, Mapping):
                entries = found.setdefault(name, {})
                entries.update({path: Given(entry, section, rank) for path, entry in value.items()})
        _keep_one_largest_gap(found, rank)
    return found


def _keep_one_largest_gap(found: Merged, rank: int) -> None:
    """Of `max-gap` and the limit that it sets, the nearer one holds."""
    limits = found.get("limits", {})
    if "max-gap" in found and LARGEST_GAP in limits:
        limit = limits.pop(LARGEST_GAP)
        if limit.rank == rank:
            found["max-gap"] = {"": limit}


_ASKING = tuple(key.name for key in KEYS.values() if key.asks_to_run)


def _section(pattern: str, values: object, place: Place) -> Section:
    if not isinstance(values, Mapping):
        place.refuse("a section needs a table", f"write [files.{quoted(pattern)}]")
    return _checked(place.text, values, place.inside, pattern)


def _checked(source: str, given: Mapping[str, object], place: Callable[[str], Place], pattern: str) -> Section:
    values: dict[str, object] = {}
    places: dict[str, Place] = {}
    for name, value in given.items():
        at = place(name)
        key = _known(name, value, at, pattern)
        places[name] = at if at.typed else at._replace(example=key.example)
        values[name] = key.check(value, places[name])
    section = Section(source, MappingProxyType(values), MappingProxyType(places), pattern)
    _refuse_contradictions(section)
    return section


def _known(name: str, value: object, place: Place, pattern: str) -> Key:
    key = KEYS.get(name)
    if key is None:
        if pattern and isinstance(value, Mapping):
            place.refuse("there is no such setting", f'a pattern needs quotes, [files."{pattern}.{name}"]')
        if name == "tool" and not pattern:
            place.refuse("there is no such setting", "in bnaudit.toml the settings stand at the top, without a table")
        place.refuse("there is no such setting", nearest(name, KEYS, "`bnaudit gate --show-settings` lists them"))
    if pattern and not key.per_file:
        place.refuse("this is no setting of single files", f"write it at the top, {key.example}")
    return key


def _refuse_contradictions(section: Section) -> None:
    if "max-gap" in section.values and LARGEST_GAP in cast("Mapping[str, object]", section.values.get("limits", {})):
        section.places["max-gap"].refuse(f"`max-gap` and the limit {LARGEST_GAP} are the same", "leave out one of them")
    if section.values.get("static"):
        for name in _ASKING:
            if section.values.get(name):
                what = f"`static` runs nothing, and `{name}` asks for a run"
                section.places[name].refuse(what, "leave out one of the two")
