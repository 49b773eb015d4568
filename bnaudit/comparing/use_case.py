"""The use case: read two artifacts, pair their layers, hold one against the other, draw the conclusions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from bnaudit import __version__
from bnaudit.call_options import with_options
from bnaudit.comparing.outputs import ComparedOutputs, outputs_of
from bnaudit.comparing.parts import Choice, best_choice, chosen_of, parts_of
from bnaudit.comparing.sides import Side, opened_side
from bnaudit.comparing.weights import weights_of
from bnaudit.comparison import Comparison
from bnaudit.description import Gap, Part
from bnaudit.errors import BnauditError, NotAuditedError, UsageError
from bnaudit.ledger import ledger
from bnaudit.measuring import Run
from bnaudit.progress import Progress, Silent
from bnaudit.records import replace
from bnaudit.results import Audit, Report, Unaudited
from bnaudit.rule_findings import check
from bnaudit.rules import Rule, rules
from bnaudit.settings import Settings, check_selectors

_OF_BOTH = ("BN108",)
"""Rules of one artifact that say more of two."""


def compare(
    baseline: object,
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
    chosen = _rules(settings)
    progress = progress or Silent()
    report = partial(Report, version=__version__, rules=MappingProxyType({rule.id: rule.name for rule in chosen}))
    given = [baseline, _second(baseline, subject, settings, roundtrip)]
    sides: list[Side] = []
    unread: list[Unaudited] = []
    for each in given:
        try:
            sides.append(opened_side(each, settings))
        except UsageError:
            raise
        except BnauditError as error:
            unread.append(Unaudited(path=str(each), why=str(error), error=not isinstance(error, NotAuditedError)))
    if unread:
        return report(audits=(), unaudited=tuple(dict.fromkeys(unread)))
    return report(audits=(_audit(sides[0], sides[1], settings, chosen, progress, roundtrip),))


def _second(baseline: object, subject: object, settings: Settings, roundtrip: bool) -> object:
    """What is asked about. Raises UsageError where there is nothing, or too much."""
    if roundtrip and subject is not None:
        raise UsageError("a round trip is of one model", remedy="give one path with --roundtrip")
    if roundtrip:
        return baseline
    if subject is None:
        if settings.run.model is None:
            raise UsageError(
                "there is nothing to compare with", remedy="give a second path, or --model file.py:callable"
            )
        return settings.run.model
    return subject


def _rules(settings: Settings) -> list[Rule]:
    """Those about two artifacts that the settings select. Raises UsageError where none is."""
    check_selectors((*settings.select, *settings.ignore, *(rule for rule, _ in settings.intended)))
    able = [rule for rule in rules() if "baseline" in rule.needs or rule.id in _OF_BOTH]
    chosen = [rule for rule in able if settings.selects(rule.id)]
    if not chosen:
        ids = ", ".join(rule.id for rule in able)
        raise UsageError("no rule about two artifacts is selected", remedy=f"there are {ids}; inspect has the others")
    return chosen


def _audit(
    baseline: Side, subject: Side, settings: Settings, chosen: Sequence[Rule], progress: Progress, roundtrip: bool
) -> Audit:
    choice = best_choice(*_candidates(baseline, subject))
    outputs = outputs_of(baseline, subject, choice, settings.run, progress)
    own = replace(subject.description, parts=(choice.subject,))
    comparison = _comparison(baseline, subject, choice, outputs, settings)
    ran = Run(own, why_not=comparison.not_run, needs=comparison.run_needs, failed=outputs.failed)
    found = check(own, settings, chosen, (), ran, comparison)
    return Audit(
        artifact=own.artifact,
        description=own,
        verdicts=(),
        ledger=ledger(own.parts, settings.covers, settings.all_layers),
        findings=tuple(finding for finding in found.findings if settings.covers(finding.layer)),
        skipped=tuple(found.skipped),
        failed=tuple(found.failed),
        gaps=(*_gaps(baseline, subject), *own.gaps),
        not_run=comparison.not_run,
        run_needs=comparison.run_needs,
        run_failed=outputs.failed,
        fail_on=settings.fail_on,
        limits=settings.limits,
        selected=tuple(rule.id for rule in chosen),
        comparison=comparison,
    )


def _candidates(baseline: Side, subject: Side) -> tuple[Sequence[Part], Sequence[Part]]:
    """The parts of the subject and of the baseline to choose from; of one file never the same one twice.

    Raises UsageError where nothing is left to compare with.
    """
    ours, theirs = subject.parts, baseline.parts
    if not baseline.is_same_file(subject):
        return ours, theirs
    if baseline.part is not None:
        ours = [part for part in ours if part.name != baseline.part]
    elif subject.part is not None:
        theirs = [part for part in theirs if part.name != subject.part]
    if not ours or not theirs or baseline.part is subject.part is None:
        named = [f"{baseline.name}#{part.name}" for part in parts_of(baseline.description) if part.name]
        parts = f"two files, or two parts, {named[0]} and {named[1]}" if len(named) > 1 else "two files"
        raise UsageError(f"{baseline.name} is compared with itself", remedy=f"give {parts}")
    return ours, theirs


def _gaps(baseline: Side, subject: Side) -> list[Gap]:
    """What could not be read of the baseline, said with its name: the report is on the subject."""
    if baseline.is_same_file(subject):
        return []
    return [replace(gap, where=f"{gap.where} of {baseline.name}") for gap in baseline.description.gaps]


def _comparison(
    baseline: Side, subject: Side, choice: Choice, outputs: ComparedOutputs, settings: Settings
) -> Comparison:
    weights = weights_of(baseline, subject, choice, settings.caps)
    return Comparison(
        baseline=replace(baseline.description, parts=(choice.baseline,)),
        subject_part=choice.subject,
        baseline_part=choice.baseline,
        matching=choice.matching,
        moves=choice.moves,
        folds=weights.folds,
        reshaped=weights.reshaped,
        run=outputs.run,
        not_run=outputs.not_run,
        run_needs=outputs.needs,
        remarks=(
            *chosen_of(baseline.description, choice.baseline, baseline.parts),
            *chosen_of(subject.description, choice.subject, subject.parts),
            *weights.remarks,
        ),
    )
