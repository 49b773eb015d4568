"""Which pictures an artifact gets, and which artifacts get any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bnaudit.html.charts.gap_by_layer import gap_by_layer
from bnaudit.html.charts.output_change import output_change
from bnaudit.html.charts.picture import Picture, Plain
from bnaudit.html.charts.received_statistics import statistics_pictures
from bnaudit.html.charts.stored_values import stored_pictures
from bnaudit.html.layer_rows import LayerRow
from bnaudit.results import Audit

MOST_ARTIFACTS = 12
"""Artifacts with pictures; of more, those that do not pass and those that were run come first."""


class Pictures(NamedTuple):
    """Pictures, and in words what would be none."""

    drawn: tuple[Picture, ...]
    plain: tuple[Plain, ...]


def pictures(audit: Audit, rows: Sequence[LayerRow], prefix: str) -> Pictures:
    """All pictures for which there are data; `prefix` makes their ids unique in the page."""
    measured = [output_change(audit.measured, prefix, audit.limits), *statistics_pictures(audit, prefix)]
    found = [*measured, gap_by_layer(audit.measured, prefix, audit.limits)]
    found += stored_pictures(rows, prefix, audit.limits)
    return Pictures(
        tuple(each for each in found if isinstance(each, Picture)),
        tuple(each for each in found if isinstance(each, Plain)),
    )


def illustrated(audits: Sequence[Audit]) -> frozenset[int]:
    """The positions of the audits that get pictures."""
    worth = sorted(range(len(audits)), key=lambda at: (audits[at].exit_code == 0, audits[at].measured is None, at))
    return frozenset(worth[:MOST_ARTIFACTS])
