"""The use case: read two artifacts, pair their layers, hold one against the other, draw the conclusions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from bnaudit import __version__
from bnaudit.call_options import with_options
from bnaudit.comparing.shown import Shown
from bnaudit.comparing.sides import Side, opened_side
from bnaudit.comparing.there_and_back import there_and_back
from bnaudit.comparing.two_artifacts import two_artifacts
from bnaudit.errors import BnauditError, NotAuditedError, UsageError
from bnaudit.ledger import ledger
from bnaudit.measuring import Run
from bnaudit.progress import Progress, Silent
from bnaudit.results import Audit, Report, Unaudited
from bnaudit.rule_findings import check
from bnaudit.rules import Rule, rules
from bnaudit.settings import Settings, check_selectors

_OF_BOTH = ("BN108",)
"""Rules of one artifact that say more of two."""


def compare(
    baseline: object = None,
    subject: object = None,
    settings: Settings | None = None,
    progress: Progress | None = None,
    *,
    roundtrip: bool = False,
    **options: Any,
) -> Report:
    """Hold the subject, which is asked about, against the baseline, which is trusted.

    Each is the path of a file or model folder, a part of one (`checkpoint.pt#state_dict_ema`), or a live model.
    Without a subject it is the model of the options, as it is built; with `roundtrip` the baseline itself, saved,
    loaded in a fresh process and run again. Outputs are compared where `inputs` or a `model` are given. `options` are
    fields of Settings and RunOptions by name, as of `audit`. The report has one audit, of the subject, with its
    `comparison`; an artifact that cannot be read is an entry of `unaudited`.

    Raises UsageError for a part or an option that does not exist, TypeError for an unknown option.
    """
    settings = with_options(Settings() if settings is None else settings, options, "compare")
    _check(settings)
    chosen = rules_on_two(settings, roundtrip)
    progress = progress or Silent()
    report = partial(Report, version=__version__, rules=MappingProxyType({rule.id: rule.name for rule in chosen}))
    sides, unread = _sides(_given(baseline, subject, settings, roundtrip), settings)
    if unread:
        return report(audits=(), unaudited=unread)
    if roundtrip:
        shown = there_and_back(sides[0], settings, progress)
    else:
        shown = two_artifacts(sides[0], sides[1], settings, progress)
    return report(audits=(concluded(shown, settings, chosen),))


def _check(settings: Settings) -> None:
    """Raises UsageError for what is of one artifact alone."""
    if settings.require:
        raise UsageError("a comparison has no verdicts that could be required", remedy="bnaudit gate has them")
    if settings.run.part:
        what = "each of two has its own part"
        raise UsageError(what, where=f"part {settings.run.part}", remedy=f"write file.pt#{settings.run.part}")


def _given(baseline: object, subject: object, settings: Settings, roundtrip: bool) -> list[object]:
    """What is to be described. Raises UsageError where there is too little, or too much."""
    model = settings.run.model
    if roundtrip:
        if subject is not None:
            raise UsageError("a round trip is of one model", remedy="give one path with --roundtrip")
        if baseline is None and model is None:
            raise UsageError("there is no model to save", remedy="give a path, or --model file.py:callable")
        return [model if baseline is None else baseline]
    if baseline is None or (subject is None and model is None):
        given = "a path" if baseline is None else "a second path, or --model file.py:callable"
        raise UsageError("there is nothing to compare with", remedy=f"give {given}")
    return [baseline, model if subject is None else subject]


def _sides(given: Sequence[object], settings: Settings) -> tuple[list[Side], tuple[Unaudited, ...]]:
    """What could be described, and what not, each once."""
    sides: list[Side] = []
    unread: list[Unaudited] = []
    for each in given:
        try:
            sides.append(opened_side(each, settings))
        except UsageError:
            raise
        except BnauditError as error:
            known = isinstance(error, NotAuditedError)
            unread.append(Unaudited(path=str(each), why=str(error), error=not known))
    return sides, tuple(dict.fromkeys(unread))


def rules_on_two(settings: Settings, roundtrip: bool) -> list[Rule]:
    """Those about two artifacts that the settings select. Raises UsageError where none is."""
    check_selectors((*settings.select, *settings.ignore, *(rule for rule, _ in settings.intended)))
    able = [rule for rule in rules() if _is_about_two(rule) and (not roundtrip or "outputs" in rule.needs)]
    chosen = [rule for rule in able if settings.selects(rule.id)]
    if not chosen:
        ids = ", ".join(rule.id for rule in able)
        raise UsageError("no rule about two artifacts is selected", remedy=f"there are {ids}; inspect has the others")
    return chosen


def _is_about_two(rule: Rule) -> bool:
    return "baseline" in rule.needs or rule.id in _OF_BOTH


def concluded(shown: Shown, settings: Settings, chosen: Sequence[Rule]) -> Audit:
    """The rules applied; a comparison has no verdicts."""
    comparison, description = shown.comparison, shown.description
    ran = Run(description, why_not=comparison.not_run, needs=comparison.run_needs, failed=shown.failed)
    found = check(description, settings, chosen, (), ran, comparison)
    return Audit(
        artifact=description.artifact,
        description=description,
        verdicts=(),
        ledger=ledger(description.parts, settings.covers, settings.all_layers),
        findings=tuple(finding for finding in found.findings if settings.covers(finding.layer)),
        skipped=tuple(found.skipped),
        failed=tuple(found.failed),
        gaps=shown.gaps,
        not_run=comparison.not_run,
        run_needs=comparison.run_needs,
        run_failed=shown.failed,
        fail_on=settings.fail_on,
        limits=settings.limits,
        selected=tuple(rule.id for rule in chosen),
        comparison=comparison,
    )
