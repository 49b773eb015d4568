"""A line of JSON for each artifact, in a shape of its own: `artifact-1.schema.json` in this folder, versioned."""

from __future__ import annotations

from bnaudit.artifact_objects import artifact_line
from bnaudit.reports import Renderer, View
from bnaudit.results import Report


def render(report: Report, view: View) -> str:
    """A line for each artifact, audited or not, in the order of the report; "" when there is none."""
    audited, unaudited = map(artifact_line, report.audits), map(artifact_line, report.unaudited)
    return "".join((*audited, *unaudited))


RENDERER = Renderer(name="jsonl", suffix=".jsonl", render=render, stream=artifact_line)
