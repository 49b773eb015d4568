"""Rules look at an artifact and at what running it showed: their hits become findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from bnaudit.description import Artifact, Description
from bnaudit.errors import where_raised
from bnaudit.layer_names import strip_wrappers
from bnaudit.measuring import Run
from bnaudit.records import replace
from bnaudit.results import Failed, Finding, Hit, Severity, Skipped
from bnaudit.rules import Case, Rule
from bnaudit.settings import Settings

if TYPE_CHECKING:
    from bnaudit.comparison import Comparison

_Places = Mapping[str, set[tuple[str, str | None]]]
"""Rule id → parts and layers that it hit."""


class Checked(NamedTuple):
    """What came of the rules."""

    findings: Sequence[Finding]
    """Of the selected rules, worst first."""
    skipped: Sequence[Skipped]
    failed: Sequence[Failed]


def check(
    description: Description,
    settings: Settings,
    selected: Sequence[Rule],
    unselected: Sequence[Rule],
    ran: Run,
    comparison: Comparison | None = None,
) -> Checked:
    """Apply the selected rules; an unselected one still silences the less specific ones that yield to it."""
    wanted = {id for rule in selected for id in rule.yields_to}
    asked = (*selected, *(other for other in unselected if other.id in wanted))
    hits: dict[str, list[Hit]] = {}
    failed: list[Failed] = []
    for rule in asked:
        if _lacking(rule, ran, comparison):
            continue
        try:
            hits[rule.id] = _hits(rule, description, settings, ran, comparison)
        except Exception as error:
            failed.append(Failed(rule=rule.id, name=rule.name, error=where_raised(error)))
    places = {id: {(hit.part, hit.layer) for hit in found} for id, found in hits.items()}
    findings = [
        _finding(rule, hit, description.artifact, settings, _is_intended(hit, rule, asked, places, settings))
        for rule in selected
        for hit in hits.get(rule.id, ())
        if not _yields(hit, rule, places)
    ]
    skipped = [
        Skipped(rule=rule.id, name=rule.name, needs=lacking)
        for rule in selected
        if (lacking := _lacking(rule, ran, comparison))
    ]
    return Checked(sorted(findings, key=lambda f: (-f.severity, f.rule)), skipped, failed)


def _lacking(rule: Rule, ran: Run, comparison: Comparison | None) -> str:
    """What a rule would have to be given; "" when it has all."""
    if comparison is None or "baseline" not in rule.needs:
        return ran.lacks(rule.needs)
    trip = comparison.round_trip
    if "outputs" in rule.needs and comparison.run is None and (trip is None or trip.not_done):
        return comparison.run_needs or ("a run of both that works" if trip is None else "a round trip that works")
    return ""


def _hits(
    rule: Rule, description: Description, settings: Settings, ran: Run, comparison: Comparison | None
) -> list[Hit]:
    limits = MappingProxyType({**rule.limits, **settings.limits.get(rule.id, {})})
    found = list(rule.check(Case(description, limits, comparison=comparison, measured=ran.measured)))
    if ran.measured is None or not rule.needs:
        return found
    # What was measured is of the part that was run.
    return [hit if hit.part else replace(hit, part=ran.measured.part) for hit in found]


def _yields(hit: Hit, rule: Rule, places: _Places) -> bool:
    """Whether a more specific rule says it of the same layer."""
    place = (hit.part, hit.layer)
    return hit.layer is not None and any(place in places.get(id, ()) for id in rule.yields_to)


def _is_intended(hit: Hit, rule: Rule, asked: Sequence[Rule], places: _Places, settings: Settings) -> bool:
    """Whether the settings mean it, by this rule or by a less specific one that saw the same and yields to it."""
    if settings.intends(rule.id, hit.layer):
        return True
    place = (hit.part, hit.layer)
    return any(
        rule.id in other.yields_to and place in places.get(other.id, ()) and settings.intends(other.id, hit.layer)
        for other in asked
    )


def _finding(rule: Rule, hit: Hit, artifact: Artifact, settings: Settings, intended: bool) -> Finding:
    own = settings.severity(rule.id, hit.severity or rule.severity)
    severity = settings.cap(own, hit.confidence)
    fails = hit.settles if hit.settles is not None else severity >= Severity.WARNING and not hit.undecided
    fingerprint = _fingerprint(rule.id, hit)
    acceptance = settings.acceptance(rule.id, hit.layer, fingerprint, artifact.path)
    if intended:
        severity, acceptance = Severity.NOTE, None
    excused = intended or (acceptance is not None and not acceptance.expired)
    return Finding(
        rule=rule.id,
        name=rule.name,
        severity=severity,
        confidence=hit.confidence,
        artifact=artifact.path,
        part=hit.part,
        layer=hit.layer,
        message=hit.message,
        value=hit.value,
        limit=hit.limit,
        advice=hit.advice,
        channels=hit.channels,
        question=rule.question,
        fails=fails and not excused,
        undecided="" if excused else hit.undecided,
        intended=intended,
        acceptance=acceptance,
        fingerprint=fingerprint,
    )


def _fingerprint(rule: str, hit: Hit) -> str:
    """Made of what survives retraining: never of numbers. Findings on a whole artifact differ by what they name."""
    from hashlib import sha256

    if hit.layer is not None:
        place = f"layer {strip_wrappers(hit.layer)}"
    else:
        place = f"artifact {hit.value}" if isinstance(hit.value, str) else "artifact"
    return sha256(f"{rule}\0{hit.part}\0{place}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
