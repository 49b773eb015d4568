"""bnaudit on a live module, with its defaults: every finding at warning or above."""

from __future__ import annotations

from bnaudit import Severity, audit


def check(net, inputs, labels, batch):  # type: ignore[no-untyped-def]
    report = audit(net, inputs=inputs, batch_size=batch)
    return [f"{finding.rule} {finding.layer}" for finding in report.findings if finding.severity >= Severity.WARNING]
