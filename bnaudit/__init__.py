"""bnaudit audits the normalization layers of a model before it is deployed.

    import bnaudit
    bnaudit.describe("model.pt")   # Description: what the file says
    bnaudit.audit("model.pt")      # Report: verdicts, ledger, findings
    bnaudit.compare("trained.pt", "deployed.onnx")   # Report: what differs, and why
    bnaudit.diagnose("scores.csv", "model.pt", inputs="x.npz")   # Diagnosis: why production's scores differ
    bnaudit.assert_deployable(net, batch)   # AssertionError unless it may be deployed

The names below are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from bnaudit.auditing import audit, describe
    from bnaudit.comparing.use_case import compare
    from bnaudit.deployable import assert_deployable
    from bnaudit.description import Description
    from bnaudit.errors import BnauditError
    from bnaudit.results import Finding, Report, Severity
    from bnaudit.score_triage import diagnose
    from bnaudit.settings import Settings
    from bnaudit.watching.watch import watch

_HOMES = {
    "assert_deployable": "bnaudit.deployable",
    "audit": "bnaudit.auditing",
    "compare": "bnaudit.comparing.use_case",
    "describe": "bnaudit.auditing",
    "diagnose": "bnaudit.score_triage",
    "BnauditError": "bnaudit.errors",
    "Description": "bnaudit.description",
    "Finding": "bnaudit.results",
    "Report": "bnaudit.results",
    "Settings": "bnaudit.settings",
    "Severity": "bnaudit.results",
    "watch": "bnaudit.watching.watch",
}

__all__ = [
    "BnauditError",
    "Description",
    "Finding",
    "Report",
    "Settings",
    "Severity",
    "__version__",
    "assert_deployable",
    "audit",
    "compare",
    "describe",
    "diagnose",
    "watch",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'bnaudit' has no attribute {name!r}")
