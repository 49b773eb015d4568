"""The report as JSON, in a shape of its own: `report-1.schema.json` in this folder, versioned."""

from __future__ import annotations

from typing import Any

from bnaudit.comparison_objects import comparison_object
from bnaudit.description import CUMULATIVE, Cumulative, NormLayer, Part, StoredTensor
from bnaudit.finding_objects import finding_object, limits_object, verdict_object
from bnaudit.json_numbers import number
from bnaudit.json_text import json_text
from bnaudit.reports import Renderer, View
from bnaudit.results import Audit, LedgerRow, Report
from bnaudit.run_objects import run_object

SCHEMA = "bnaudit.report/1"


def render(report: Report, view: View) -> str:
    """The whole report as one JSON document; NaN and infinities are written as the strings NaN, Infinity, -Infinity."""
    document = {
        "schema": SCHEMA,
        "version": report.version,
        "exit_code": report.exit_code(),
        "interrupted": report.interrupted,
        "gate": report.gate,
        "exit_zero": report.exit_zero,
        "artifacts": [_audit(audit) for audit in report.audits],
        "not_audited": [{"path": u.path, "reason": u.why, "error": u.error} for u in report.unaudited],
        "other_files": report.other_files,
        "unmatched": [{"key": u.key, "reason": u.why, "error": u.error} for u in report.unmatched],
        "rules": dict(report.rules or {}),
    }
    return json_text(document, indent=2) + "\n"


def _audit(audit: Audit) -> dict[str, Any]:
    artifact, description = audit.artifact, audit.description
    return {
        "path": artifact.path,
        "format": artifact.format,
        "size": artifact.size,
        "bytes_read": artifact.bytes_read,
        "producer": artifact.producer,
        "exit_code": audit.exit_code,
        "fail_on": audit.fail_on.label,
        "required": [question.value for question in audit.required],
        "limits": limits_object(audit.limits),
        "looked": audit.looked,
        "steps": description.steps,
        "has_optimizer": description.has_optimizer,
        "steps_name": description.steps_name,
        "remarks": list(description.remarks),
        "imports": [
            {
                "name": imported.name,
                "called": imported.called,
                "arguments": list(imported.arguments),
                "foreign_target": imported.foreign_target,
                "modified": imported.modified,
                "fetched": imported.fetched,
            }
            for imported in description.imports
        ],
        "verdicts": [verdict_object(verdict) for verdict in audit.verdicts],
        "findings": [finding_object(finding) for finding in audit.findings],
        "measured": run_object(audit.measured) if audit.measured is not None else None,
        "not_run": audit.not_run,
        "run_needs": audit.run_needs,
        "run_failed": audit.run_failed,
        "comparison": comparison_object(audit.comparison) if audit.comparison is not None else None,
        "parts": [_part(part) for part in description.parts],
        "ledger": [_row(row) for row in audit.ledger],
        "gaps": [{"where": gap.where, "why": gap.why, "hides_norms": gap.hides_norms} for gap in audit.gaps],
        "skipped": [{"rule": s.rule, "name": s.name, "needs": s.needs} for s in audit.skipped],
        "failed": [{"rule": f.rule, "name": f.name, "error": f.error} for f in audit.failed],
    }


def _part(part: Part) -> dict[str, Any]:
    return {
        "name": part.name,
        "carrier": part.carrier.value,
        "wrappers": list(part.wrappers),
        "averaged_over": part.averaged_over,
        "has_metadata": part.has_metadata,
        "tensors": part.tensors,
        "floating_dtypes": list(part.floating_dtypes),
        "trainable": part.trainable,
        "frozen": part.frozen,
        "inputs": [
            {"name": given.name, "dtype": given.dtype, "shape": None if given.shape is None else list(given.shape)}
            for given in part.inputs
        ],
        "operators": part.operators,
        "traced": part.traced,
        "folded": part.folded,
        "buffers_to_mutate": list(part.buffers_to_mutate),
        "layers": [_layer(layer) for layer in part.layers],
        "mode_dependent": [
            {
                "name": other.name,
                "kind": other.kind,
                "class": other.class_name,
                "probability": number(other.probability),
                "training": other.training,
                "graph_training": other.graph_training,
            }
            for other in part.mode_dependent
        ],
        "hidden": [
            {
                "path": module.path,
                "class": module.class_name,
                "training": module.training,
                "in_training": module.in_training,
                "mode_dependent": list(module.mode_dependent),
            }
            for module in part.hidden
        ],
    }


def _layer(layer: NormLayer) -> dict[str, Any]:
    momentum = layer.momentum
    return {
        "name": layer.name,
        "kind": layer.kind.value,
        "evidence": layer.evidence.value,
        "class": layer.class_name,
        "metadata_version": layer.metadata_version,
        "channels": layer.channels,
        "eps": number(layer.eps),
        "momentum": CUMULATIVE.value if isinstance(momentum, Cumulative) else number(momentum),
        "affine": layer.affine,
        "tracks_statistics": layer.tracks_statistics,
        "training": layer.training,
        "graph_training": layer.graph_training,
        "statistics_from_input": layer.statistics_from_input,
        "spelled_out": layer.spelled_out,
        "hooked": layer.hooked,
        "counter": number(layer.counter),
        "requires_grad": layer.requires_grad,
        "block_requires_grad": layer.block_requires_grad,
        "tensors": [_tensor(tensor) for tensor in layer.tensors],
    }


def _tensor(tensor: StoredTensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "has_values": tensor.values is not None,
        "absence": tensor.absence,
        "unread": tensor.unread,
        "requires_grad": tensor.requires_grad,
    }


def _row(row: LedgerRow) -> dict[str, Any]:
    return {
        "label": row.label,
        "layers": list(row.layers),
        "part": row.part,
        "kind": row.kind,
        "channels": list(row.channels) if row.channels else None,
        "counter": [number(count) for count in row.counter] if row.counter else None,
        "residual": number(row.residual),
        "mode": row.mode,
        "state": row.state,
        "eps": number(row.eps),
        "momentum": row.momentum,
        "needs_exact_eps": number(row.needs_exact_eps),
    }


RENDERER = Renderer(name="json", suffix=".json", render=render)
