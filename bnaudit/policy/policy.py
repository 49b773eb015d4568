"""The policy: the settings in force for each artifact."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from bnaudit.last_days import is_over
from bnaudit.nearest_name import nearest
from bnaudit.policy.artifact_paths import check_pattern, concerns, fits, is_pattern, start_of
from bnaudit.policy.document import Document, named, nearest_above
from bnaudit.policy.keys import KEYS
from bnaudit.policy.place import Place, is_file, written
from bnaudit.policy.sections import (
    ABOUT_A_MODEL,
    LARGEST_GAP,
    TYPED,
    Given,
    Merged,
    Section,
    merged,
    sections_of,
    typed_section,
)
from bnaudit.records import replace
from bnaudit.results import Acceptance, Question
from bnaudit.rules import rules
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings
from bnaudit.targets import expand


def load(config: str | None, start: Path, typed: Mapping[str, object], *, today: date | None = None) -> Policy:
    """The settings of the file that `config` names, or of the nearest one from `start` upwards, and what was typed.

    `typed` are options in the vocabulary of the file; tables may be lists of texts (`["BN404.mean_shift=0.4"]`).
    Raises UsageError for whatever is wrong in either.
    """
    document = named(config) if config is not None else nearest_above(start)
    return Policy(document, sections_of(document), typed_section(typed), today or date.today())


class Policy:
    """What is asked of each artifact, and where that is written."""

    def __init__(self, document: Document, sections: tuple[Section, ...], typed: Section, today: date) -> None:
        self.source = document.source
        """The settings file as the user would write it; "": there is none."""
        self.root = document.root
        """Its folder, or where the search for one began."""
        self.typed = typed
        self.top, *others = sections
        self.sections = tuple(others)
        """Those of `files`, in order."""
        self._today = today
        self._merged: dict[tuple[int, ...], Merged] = {}
        self._settings: dict[tuple[int, ...], Settings] = {}
        self._refuse_what_is_not_there()
        self._refuse_arguments_without_a_model()

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """What is audited when no paths are given: `paths`, else the models that the patterns of `files` fit."""
        given = self._own("paths")
        if given is not None:
            place = given.section.places["paths"]
            return tuple(Path(place.path(text)) for text in cast("tuple[str, ...]", given.value))
        starts = dict.fromkeys(Path(written(start_of(each.pattern, self.root))) for each in self.sections)
        there = [path for path in starts if os.path.lexists(path)]  # a link to nowhere is named, and an error
        found = expand(there, self.settings(None).caps, self.excludes, self.sections_for).paths
        return tuple(path for path in found if self.sections_for(path) and not self.excludes(path))

    @property
    def names_artifacts(self) -> bool:
        """Whether the settings say what is audited when no paths are given."""
        given = self._own("paths")
        return bool(given.value) if given is not None else bool(self.sections)

    @property
    def baseline(self) -> Path | None:
        """The baseline. Raises UsageError when it is not there."""
        given = self._own("baseline")
        if given is None:
            return None
        place = given.section.places["baseline"]
        path = Path(place.path(str(given.value)))
        if os.path.lexists(path) and not is_file(path):
            place.refuse(f"{path} is no file", "name the file that `bnaudit baseline create` wrote")
        if not is_file(path):
            place.refuse(f"there is no baseline {path}", f"`bnaudit baseline create -o {path}` makes it")
        return path

    @property
    def has_entries(self) -> bool:
        """Whether the settings accept or mean anything, which may fit nothing."""
        everywhere = (self.top, *self.sections, self.typed)
        return any(section.values.get(name) for section in everywhere for name in ("accept", "intended"))

    def excludes(self, path: Path) -> bool:
        """Whether the settings leave this file out."""
        given = self._own("exclude")
        if given is None:
            return False
        folder = given.section.places["exclude"].folder.absolute()
        return any(fits(path, pattern, folder) for pattern in cast("tuple[str, ...]", given.value))

    def sections_for(self, artifact: Path | None) -> tuple[int, ...]:
        """Positions of the sections that are about this artifact."""
        if artifact is None:
            return ()
        return tuple(i for i, each in enumerate(self.sections) if concerns(artifact, each.pattern, self.root))

    def in_force(self, chosen: tuple[int, ...]) -> Merged:
        """What is set, with where it is written, for artifacts of these sections."""
        if chosen not in self._merged:
            self._merged[chosen] = merged((self.top, *(self.sections[i] for i in chosen), self.typed))
        return self._merged[chosen]

    def settings(self, artifact: Path | None) -> Settings:
        """The complete settings for this artifact; None: a live model."""
        chosen = self.sections_for(artifact)
        if chosen not in self._settings:
            self._settings[chosen] = _settings(self.in_force(chosen), self._today)
        return self._settings[chosen]

    def shown(self, artifacts: Sequence[Path]) -> str:
        """The text of --show-settings."""
        from bnaudit.policy.showing import shown

        return shown(self, artifacts)

    def _own(self, name: str) -> Given | None:
        return self.in_force(()).get(name, {}).get("")

    def _refuse_what_is_not_there(self) -> None:
        for section in self.sections:
            place = Place(section.source, self.root)
            check_pattern(section.pattern, self.root, place)
        for section in (self.top, self.typed):
            for text in cast("tuple[str, ...]", section.values.get("paths", ())):
                _check_path(text, section.places["paths"])

    def refuse_idle_sections(self, artifacts: Iterable[Path]) -> None:
        """Raise UsageError for a section that says something of files, and of no model: it would hold for nothing."""
        used = {position for path in artifacts for position in self.sections_for(path)}
        for position, each in enumerate(self.sections):
            if position not in used and not self._fits_a_model(each.pattern):
                remedy = "name what is audited: a folder of weights is one model, and its files are none"
                Place(each.source, self.root).refuse("no model fits this pattern", remedy)

    def _fits_a_model(self, pattern: str) -> bool:
        start = Path(written(start_of(pattern, self.root)))
        found = expand([start], self.settings(None).caps).paths
        return any(concerns(path, pattern, self.root) for path in found)

    def _refuse_arguments_without_a_model(self) -> None:
        everywhere = (self.top, *self.sections, self.typed)
        for section in everywhere:
            above = everywhere if section in (self.top, self.typed) else (self.top, section, self.typed)
            if any("model" in each.values for each in above):
                continue
            example = KEYS["model"].as_typed if section is self.typed else KEYS["model"].example
            for name in ABOUT_A_MODEL:
                if section.values.get(name):
                    what = f"`{name}` is about a model that is not given"
                    section.places[name].refuse(what, f"give it with {example}")


_SELECTING = ("select", "ignore")
_DEMANDING = ("model", "run", "trust-pickle", "inputs")
"""Where one of these is given, verdicts that a run decides are required. A library of operators is no such wish."""


def required(found: Merged) -> tuple[tuple[Question, ...], str]:
    """The verdicts that have to pass, and where that comes from."""
    chosen: tuple[Question, ...] = (Question.BUFFERS,)
    why = "default"
    gap = found["max-gap"][""] if "max-gap" in found else None
    if "require" in found:
        given = found["require"][""]
        chosen, why = cast("tuple[Question, ...]", given.value), given.section.source
        if not chosen and (gap is None or gap.rank <= given.rank):
            return (), why
    else:
        if any(found[name][""].value for name in _DEMANDING if name in found):
            chosen, why = (
                (Question.BUFFERS, Question.EVAL_MODE, Question.NEIGHBOURS),
                "default where a run is asked for",
            )
        if left_out := _not_asked(found).intersection(chosen):
            chosen = tuple(question for question in chosen if question not in left_out)
            why += ", without what select and ignore leave open"
    # Verdicts that are typed win over a gap of the file: `--static --require buffers` runs nothing that shows one.
    overruled = why == TYPED and gap is not None and gap.section.source != TYPED
    if gap is not None and Question.GAP not in chosen and not overruled:
        chosen, why = (*chosen, Question.GAP), f"{why}; max-gap"
    return tuple(question for question in Question if question in chosen), why


def _not_asked(found: Merged) -> set[Question]:
    """Questions that cannot pass, since rules that decide them were left out on purpose."""
    select, ignore = (cast("tuple[str, ...]", found[key][""].value) if key in found else () for key in _SELECTING)
    if not select and not ignore:
        return set()
    chosen = Settings(select=select, ignore=ignore)
    return {rule.question for rule in rules() if rule.question is not None and not chosen.selects(rule.id)}


def _settings(found: Merged, today: date) -> Settings:
    fields: dict[str, Any] = {key.goes: key.default for key in KEYS.values() if key.default is not None}
    for name, entries in found.items():
        key = KEYS[name]
        if key.goes:
            values = {path: given.value for path, given in entries.items()}
            fields[key.goes] = key.joined(values) if key.joined is not None else values[""]
    if "max-gap" in found:
        limits = dict(fields.get("limits", {}))
        rule, _, name = LARGEST_GAP.partition(".")
        limits[rule] = MappingProxyType({**limits.get(rule, {}), name: found["max-gap"][""].value})
        fields["limits"] = MappingProxyType(limits)
    fields["require"] = required(found)[0]
    fields["accept"] = tuple(_dated(each, today) for each in fields.get("accept", ()))
    of_run = {name[4:]: fields.pop(name) for name in list(fields) if name.startswith("run.")}
    return Settings(**fields, run=RunOptions(**of_run))


def _dated(entry: Acceptance, today: date) -> Acceptance:
    return replace(entry, expired=True) if is_over(entry.until, today) else entry


def _check_path(text: str, place: Place) -> None:
    path = Path(place.path(text))
    if os.path.lexists(path) or (is_pattern(text) and any(_glob(path))):
        return
    folder = path.parent
    beside = sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []
    place.refuse(f"there is no {text}", nearest(path.name, beside, "check the path"))


def _glob(path: Path) -> Any:
    absolute = path.absolute()
    anchor = Path(absolute.anchor)
    return anchor.glob(str(absolute.relative_to(anchor)))
