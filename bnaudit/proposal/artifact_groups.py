"""Like artifacts under one pattern: the checkpoints of one net in one folder."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from glob import escape
from pathlib import Path
from typing import NamedTuple

from bnaudit.description import Carrier, Description
from bnaudit.policy.artifact_paths import fits
from bnaudit.proposal.folder_search import Model

_LONGEST_SUFFIX = 12


class Group(NamedTuple):
    """Models that need the same settings."""

    pattern: str
    """Fits these and no other model that was found; relative to the settings file, with `/`."""
    models: tuple[Model, ...]

    @property
    def first(self) -> Description:
        """What one of them says; of what a section is about they all say the same."""
        return self.models[0].description


def groups(models: Sequence[Model], root: Path) -> tuple[Group, ...]:
    """The models by folder, suffix, carrier and norm layers, in the order of their paths."""
    alike: dict[object, list[Model]] = {}
    for model in models:
        alike.setdefault(_likeness(model), []).append(model)
    found: list[Group] = []
    for members in alike.values():
        pattern = next(_patterns_for(members, models, root), None)
        if pattern is not None:
            found.append(Group(pattern, tuple(members)))
        else:
            found.extend(Group(escape(below(each.path, root)), (each,)) for each in members)
    return tuple(sorted(found, key=lambda group: group.models[0].path))


def below(path: Path, root: Path) -> str:
    """The path as a settings file in `root` writes it."""
    return os.path.relpath(path.absolute(), root.absolute()).replace(os.sep, "/")


def kinds(description: Description) -> Counter[str]:
    """How many norm layers there are of each kind."""
    return Counter(layer.kind.value for _, layer in description.layers)


def carriers(description: Description) -> tuple[Carrier, ...]:
    """What holds the layers, each once."""
    return tuple(dict.fromkeys(part.carrier for part in description.parts))


def _likeness(model: Model) -> object:
    layers = frozenset((layer.name, layer.kind) for _, layer in model.description.layers)
    return model.path.parent, _suffix(model.path), carriers(model.description), layers


def _suffix(path: Path) -> str:
    suffix = "".join(path.suffixes[-1:])
    return suffix if len(suffix) <= _LONGEST_SUFFIX else ""


def _patterns_for(members: list[Model], models: Sequence[Model], root: Path) -> Iterator[str]:
    """Patterns that fit the members and no other model, the widest first."""
    if len(members) == 1:
        yield escape(below(members[0].path, root))
    folder = below(members[0].path.parent, root)
    prefix = "" if folder == "." else f"{escape(folder)}/"
    suffix = escape(_suffix(members[0].path))
    stem = escape(_common_start([each.path.name for each in members]))
    wanted = {each.path for each in members}
    for pattern in (f"{prefix}*{suffix}", f"{prefix}{stem}*{suffix}"):
        if {each.path for each in models if fits(each.path, pattern, root)} == wanted:
            yield pattern


def _common_start(names: list[str]) -> str:
    first, last = min(names), max(names)
    return first[: next((i for i, c in enumerate(first) if i >= len(last) or last[i] != c), len(first))]
