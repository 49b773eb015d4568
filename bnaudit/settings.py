"""What the user asked for: which rules, which layers, which limits."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType

from bnaudit.caps import Caps
from bnaudit.errors import UsageError
from bnaudit.layer_names import spellings
from bnaudit.nearest_name import nearest
from bnaudit.records import Record
from bnaudit.results import Acceptance, Confidence, Question, Severity
from bnaudit.rules import rule_files
from bnaudit.run_options import RunOptions


class Settings(Record, eq=False):
    """Settings of one audit; every field has the default of the command line."""

    select: tuple[str, ...] = ()
    """Prefixes of rule ids (`BN1`, `BN105`); empty: all rules."""
    ignore: tuple[str, ...] = ()
    """The same, taken away from the selection."""
    layers: tuple[str, ...] = ()
    """Shell patterns of layer names, with or without `module.` and the like in front, nodes of a graph also by their
    module (`/head/MatMul` is `head`); empty: all layers.
    """
    all_layers: bool = False
    """One row of the ledger for every layer instead of one per run of like layers."""
    min_confidence: Confidence = Confidence.HIGH
    """Findings of this confidence and above keep their severity; each level below lowers the most they can be."""
    fail_on: Severity = Severity.ERROR
    limits: Mapping[str, Mapping[str, float]] = MappingProxyType({})
    """Rule id → limit name → value, in place of the rule's own."""
    intended: tuple[tuple[str, str], ...] = ()
    """(prefix of rule ids, shell pattern of layer or module names): what is meant to be so (`BN302`, `prenet.*`)."""
    severities: Mapping[str, Severity] = MappingProxyType({})
    """Prefix of rule ids → severity of what they find, before the confidence caps it; the longest prefix holds."""
    require: tuple[Question, ...] = ()
    """Questions that have to be decided, and passed."""
    accept: tuple[Acceptance, ...] = ()
    """Findings that are known and fail nothing; the first that fits and has not expired holds."""
    caps: Caps = Caps()
    run: RunOptions = RunOptions()

    def selects(self, id: str) -> bool:
        """Whether the rule with this id is selected."""
        chosen = not self.select or id.startswith(self.select)
        return chosen and not (self.ignore and id.startswith(self.ignore))

    def covers(self, layer: str | None) -> bool:
        """Whether findings on this layer are wanted; findings on a whole artifact always are."""
        if not self.layers or layer is None:
            return True
        return any(fnmatchcase(name, pattern) for name in spellings(layer) for pattern in self.layers)

    def intends(self, id: str, layer: str | None) -> bool:
        """Whether a finding of this rule here is meant to be so; one on a whole artifact needs the pattern `*`."""
        names = spellings(layer or "")
        return any(
            id.startswith(rule) and any(fnmatchcase(name, pattern) for name in names) for rule, pattern in self.intended
        )

    def severity(self, id: str, own: Severity) -> Severity:
        """The severity of what this rule finds, in place of its own."""
        fitting = [prefix for prefix in self.severities if id.startswith(prefix)]
        return self.severities[max(fitting, key=len)] if fitting else own

    def acceptance(self, id: str, layer: str | None, fingerprint: str, artifact: str) -> Acceptance | None:
        """By which a finding is accepted; one that has expired only when no other fits."""
        fitting = [each for each in self.accept if _fits(each, id, layer, fingerprint, artifact)]
        return min(fitting, key=lambda each: each.expired, default=None)

    def cap(self, severity: Severity, confidence: Confidence) -> Severity:
        """The severity that a finding of this confidence may have."""
        below = self.min_confidence - confidence
        return severity if below <= 0 else min(severity, Severity(max(Severity.ERROR - below, Severity.NOTE)))


def _fits(each: Acceptance, id: str, layer: str | None, fingerprint: str, artifact: str) -> bool:
    if not id.startswith(each.rule) or (each.fingerprint and each.fingerprint != fingerprint):
        return False
    if not any(fnmatchcase(name, each.layer) for name in spellings(layer or "")):
        return False
    return is_at(artifact, each.artifact, each.root) or is_at_its_place(artifact, each.artifact, each.root)


def is_at(artifact: str, pattern: str, root: str) -> bool:
    """Whether an artifact's path fits a pattern of paths below the folder `root`, `/` between folders on any system.

    A pattern fits a folder's content too: `models` stands for all in it, as `models/*` does, and where the folder is
    one model, for the model.
    """
    path, pattern = Path(artifact).absolute(), posixpath.normpath(pattern)
    try:
        below = os.path.normpath(path) if Path(pattern).is_absolute() else os.path.relpath(path, root or os.curdir)
    except ValueError:  # another drive
        below = str(path)
    name = below.replace(os.sep, "/")
    if pattern == ".":
        return not name.startswith("..")
    return any(map(fnmatchcase, (name, name, f"{name}/"), (pattern, f"{pattern}/*", pattern)))


def is_at_its_place(artifact: str, pattern: str, root: str) -> bool:
    """The same, for the path that links lead to, below the place of the folder: `/tmp` is itself a link somewhere."""
    real, place = os.path.realpath(artifact), os.path.realpath(root)
    return (real, place) != (artifact, root) and is_at(real, pattern, place)


def check_selectors(selectors: Iterable[str]) -> tuple[str, ...]:
    """The selectors in upper case. Raises UsageError when one matches no rule, with the nearest id."""
    known = rule_files()
    checked = []
    for selector in selectors:
        prefix = selector.strip().upper()
        if not prefix or not any(id.startswith(prefix) for id in known):
            remedy = nearest(prefix, known, "`bnaudit rules` lists them")
            raise UsageError(f"no rule has an id that starts with {selector!r}", remedy=remedy)
        checked.append(prefix)
    return tuple(checked)


def caps_from(assignments: Iterable[str]) -> Caps:
    """Caps from `name=number` texts. Raises UsageError for an unknown name or a number below 1."""
    values: dict[str, int] = {}
    for assignment in assignments:
        name, _, number = assignment.partition("=")
        if name not in Caps._fields:
            raise UsageError(f"no cap is called {name!r}", remedy=f"there are {', '.join(Caps._fields)}")
        if not number.isdecimal() or int(number) < 1:
            raise UsageError(f"cap {name} needs a whole number above 0", where=assignment, remedy=f"{name}=1000000")
        values[name] = int(number)
    return Caps(**values)
