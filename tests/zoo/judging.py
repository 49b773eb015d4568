"""Holds what an audit said against what is true of the artifact."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from zoo.faults import Planted

    from bnaudit.results import Report

LEVELS = ("note", "warning", "error")
Found = dict[str, Any]


class Heard(NamedTuple):
    """What one audit said, in plain values."""

    findings: list[Found]
    layers: list[str]
    crash: str
    """Why it counts as a crash; empty: none."""


def hear(report: Report) -> Heard:
    """The findings, the layers that were seen, and whatever did not work. A gap is a crash: these files are whole."""
    crashes = [entry.why for entry in report.unaudited]
    findings: list[Found] = []
    layers: list[str] = []
    for audit in report.audits:
        crashes += [f"{failed.rule}: {failed.error}" for failed in audit.failed]
        crashes += [f"gap at {gap.where}: {gap.why}" for gap in audit.gaps]
        crashes += [audit.not_run] if audit.run_failed else []
        layers += [layer.name for _, layer in audit.description.layers]
        findings += [
            {"rule": f.rule, "severity": f.severity.label, "layer": f.layer, "message": f.message[:300]}
            for f in audit.findings
        ]
    return Heard(findings, layers, "; ".join(crashes)[:500])


def loud(findings: Iterable[Found]) -> list[Found]:
    """Those at warning and above."""
    return [found for found in findings if found["severity"] != "note"]


def false_alarms(findings: Iterable[Found], never_ran: Collection[str] = ()) -> list[Found]:
    """What a healthy net must not be told. A layer that never ran in training is told so, rightly, by BN103."""
    return [each for each in loud(findings) if not (each["rule"] == "BN103" and each["layer"] in never_ran)]


class Outcome(NamedTuple):
    """How a planted fault was found."""

    found: bool
    located: bool
    beside: list[Found]
    """Findings at warning and above that are neither the fault nor told of the net without it."""


def outcome(planted: Planted, findings: list[Found], before: list[Found]) -> Outcome:
    """Whether the rule found the fault at its severity or above, at exactly its layers, and what was told beside it.

    `before` is what was told of the same net without the fault. A rule that speaks of the whole artifact names the
    layers in its sentence.
    """
    least = LEVELS.index(planted.severity)
    hits = [f for f in findings if f["rule"] == planted.rule and LEVELS.index(f["severity"]) >= least]
    new = [f for f in hits if f not in before]
    named = {_planted_at(f["layer"], planted.layers) for f in new}
    located = named == set(planted.layers) or (named == {None} and _in_sentence(planted, new))
    beside = [f for f in loud(findings) if f not in before and f not in hits]
    beside += [f for f in loud(new) if f["layer"] and _planted_at(f["layer"], planted.layers) not in planted.layers]
    return Outcome(bool(new), located, beside)


def as_record(planted: Planted, told: Outcome, findings: list[Found]) -> dict[str, Any]:
    """What is kept of it; what was said only where that is not as it should be."""
    return {
        "planted": planted.fault,
        "rule": planted.rule,
        "where": list(planted.layers[:3]),
        "found": told.found,
        "located": told.located,
        "false_alarms": told.beside,
        "heard": [] if told.found and told.located else findings[:10],
    }


def _planted_at(named: str | None, layers: Collection[str]) -> str | None:
    """The layer that is named. TorchScript of a class that is not torch's (timm's GroupNormAct) shows the norm as a
    call in the module's code, `bn2.forward.group_norm`: that is `bn2`."""
    module = (named or "").partition(".forward.")[0]
    return module if named and module in layers else named


def _in_sentence(planted: Planted, hits: list[Found]) -> bool:
    return all(any(layer in hit["message"] for hit in hits) for layer in planted.layers)
