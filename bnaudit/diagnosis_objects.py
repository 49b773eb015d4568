"""A Diagnosis as plain objects, in a shape of its own: `reports/diagnosis-1.schema.json`, versioned."""

from __future__ import annotations

from typing import Any

from bnaudit.diagnosis import Diagnosis, Distinguishing, FamilyMatch, Hypothesis, LogEvidence, Tried
from bnaudit.json_numbers import number
from bnaudit.variation import Altered, Variation

SCHEMA = "bnaudit.diagnosis/1"


def diagnosis_object(diagnosis: Diagnosis) -> dict[str, Any]:
    """Everything that the diagnosis says; NaN and infinities as the strings NaN, Infinity, -Infinity."""
    artifact, log, apart = diagnosis.artifact, diagnosis.log, diagnosis.distinguishing
    return {
        "schema": SCHEMA,
        "version": diagnosis.version,
        "exit_code": diagnosis.exit_code,
        "interrupted": diagnosis.interrupted,
        "artifact": None if artifact is None else {"path": artifact.path, "format": artifact.format},
        "observed": diagnosis.observed,
        "inputs": diagnosis.inputs,
        "conclusion": diagnosis.conclusion.value,
        "reason": diagnosis.reason,
        "explanations": [_tried(tried) for tried in diagnosis.explanations],
        "precision": number(diagnosis.precision),
        "margin": number(diagnosis.margin),
        "tried": [_tried(tried) for tried in diagnosis.tried],
        "unseen": list(diagnosis.unseen),
        "coinciding": [list(claims) for claims in diagnosis.coinciding],
        "distinguishing": None if apart is None else _distinguishing(apart),
        "families": [_family(match) for match in diagnosis.families],
        "log": None if log is None else _log(log),
        "untried": [{"claim": claim, "needs": needs} for claim, needs in diagnosis.untried],
        "runner": diagnosis.runner,
        "forwards": diagnosis.forwards,
        "seconds": number(diagnosis.seconds),
        "remarks": list(diagnosis.remarks),
    }


def _tried(tried: Tried) -> dict[str, Any]:
    return {
        "hypothesis": _hypothesis(tried.hypothesis),
        "residual": number(tried.residual),
        "floor": number(tried.floor),
        "at_floor": bool(tried.at_floor),
        "agreement": number(tried.agreement),
        "coincides_with": list(tried.coincides_with),
        "why": tried.why,
    }


def _hypothesis(hypothesis: Hypothesis) -> dict[str, Any]:
    return {
        "key": hypothesis.key,
        "name": hypothesis.name,
        "claim": hypothesis.claim,
        "advice": hypothesis.advice,
        "layers": list(hypothesis.layers),
        "batching": hypothesis.batching,
        "input_fault": hypothesis.input_fault,
        "part": hypothesis.part,
        "joins": list(hypothesis.singles),
        "variation": _variation(hypothesis.variation),
    }


def _variation(variation: Variation) -> dict[str, Any]:
    return {
        "dtype": variation.dtype,
        "dropout": variation.drops,
        "layers": {name: _altered(altered) for name, altered in sorted(variation.layers.items())},
    }


def _altered(altered: Altered) -> dict[str, Any]:
    """What of the layer is changed; arrays are named, not listed."""
    replaced = [field for field in ("mean", "var", "gamma", "beta") if getattr(altered, field) is not None]
    return {"training": altered.training, "eps": number(altered.eps), "replaced": replaced}


def _distinguishing(found: Distinguishing) -> dict[str, Any]:
    mixtures = [{"row": row, "other": other, "weight": number(weight)} for row, other, weight in found.mixtures]
    return {"rows": list(found.rows), "mixtures": mixtures, "separation": number(found.separation)}


def _family(match: FamilyMatch) -> dict[str, Any]:
    return {
        "name": match.name,
        "claim": match.claim,
        "consistent": match.consistent,
        "inside": number(match.inside),
        "signature": match.signature,
        "needs": match.needs,
    }


def _log(log: LogEvidence) -> dict[str, Any]:
    return {
        "observations": log.observations,
        "inputs": log.inputs,
        "repeated": log.repeated,
        "differing": log.differing,
        "spread": number(log.spread),
        "limit": number(log.limit),
        "scatter_by_size": [
            {"batch_size": size, "observations": count, "scatter": number(scatter)}
            for size, count, scatter in log.scatter_by_size
        ],
        "common_error": number(log.common_error),
        "points_to": list(log.points_to),
        "reasons": list(log.reasons),
        "needs": list(log.needs),
        "examples": list(log.examples),
    }
