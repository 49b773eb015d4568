"""Reports that show every way in which an audit can end, for the formats that have a public schema."""

from __future__ import annotations

from builders import batch_norm, description, part
from compared_reports import all_of_them
from measured import measured

from bnaudit.auditing import conclude
from bnaudit.description import Carrier, Gap
from bnaudit.measurement import Unmeasured
from bnaudit.records import replace
from bnaudit.results import Acceptance, Audit, Failed, Question, Report, Severity, Skipped, Unaudited, Unmatched
from bnaudit.rules import rules
from bnaudit.settings import Settings

RULES = tuple(rules())
NAMES = {rule.id: rule.name for rule in RULES}
CARRIERS = tuple(Carrier)
NEGATIVE = (-1.0, 1.0, 2.0)
"""A variance that BN107, an error, is about."""


def accepted(rule: str = "BN107", layer: str = "*", **fields: object) -> Acceptance:
    """An entry of the settings."""
    settings = {"source": "bnaudit.toml: accept[0]", "reason": "retrained in spring", "until": "2030-01-31", **fields}
    return Acceptance(rule=rule, layer=layer, **settings)


def audit(*broken: str, healthy: tuple[str, ...] = ("bn1",), path: str = "model.pt", **settings: object) -> Audit:
    """An audit of a state dict in which the layers named first have a negative variance."""
    layers = [batch_norm(name) for name in healthy] + [batch_norm(name, var=NEGATIVE) for name in broken]
    found = conclude(description(part(layers)), Settings(**settings), RULES)
    artifact = replace(found.artifact, path=path)
    return replace(found, artifact=artifact, findings=tuple(replace(f, artifact=path) for f in found.findings))


def endings() -> dict[str, Report]:
    """One report for each way to end."""
    sound, broken = audit(), audit("bn2", "bn3")
    excused = audit("bn2", accept=(accepted(),))
    expired = audit("bn2", accept=(accepted(until="2020-01-31", expired=True),))
    meant = audit("bn2", intended=(("BN107", "bn2"),))
    required = audit(require=(Question.BUFFERS, Question.NEIGHBOURS))
    failed = Failed(rule="BN199", name="broken-rule", error="ZeroDivisionError: division by zero at bn199.py:7")
    unnamed = Failed(rule="", name="running the model", error="OSError: gone")
    waiting = Skipped(rule="BN301", name="neighbour-dependent-prediction", needs="a run of the model")
    late = Unmeasured(probe="updates", why="the budget of 1 s is spent", needs="a longer --budget", inconclusive=True)
    ran = replace(sound, measured=measured(unmeasured=(late,), seconds=1.25))
    gap = replace(sound, gaps=(Gap(where="data/7", why="sparse tensor", hides_norms=True),))
    unread = Unaudited(path="broken.pt", why="broken.pt is truncated: copy it again", error=True)
    known = Unaudited(path="net.tflite", why="a TensorFlow Lite model is not audited", error=False)
    typo = Unmatched(
        key="bnaudit.toml: intended.BN302", why="no layer fits 'prente.*': did you mean prenet?", error=True
    )
    stale = Unmatched(key=".bnaudit-baseline.json: 0123", why="it is gone: create the baseline again", error=False)

    def report(*audits: Audit, **fields: object) -> Report:
        return Report(**{"version": "0.1.0", "audits": audits, "rules": NAMES, **fields})

    compared = {f"compared: {name}": report(each) for name, each in all_of_them().items()}
    return {
        **compared,
        "nothing": report(),
        "healthy": report(sound),
        "findings": report(broken),
        "accepted": report(excused),
        "expired": report(expired),
        "intended": report(meant),
        "required": report(required, gate=True),
        "for information": report(required, broken, gate=True, exit_zero=True),
        "broken": report(replace(sound, failed=(failed, unnamed), skipped=(waiting,))),
        "could not run": report(replace(sound, run_failed=True, not_run="no module named net", run_needs="the module")),
        "measured": report(ran),
        "gap": report(gap),
        "unread": report(sound, unaudited=(unread, known)),
        "unread in a gate": report(sound, unaudited=(known,), gate=True),
        "unmatched": report(sound, unmatched=(typo, stale), gate=True),
        "interrupted": report(sound, interrupted=True),
        "strict": report(audit("bn2", fail_on=Severity.NOTE), gate=True),
        "lenient": report(replace(expired, fail_on=Severity.ERROR)),
        "all": report(
            sound, broken, excused, expired, required, ran, gap, unaudited=(unread, known), unmatched=(typo,)
        ),
    }


def many_layers(number: int) -> Report:
    """The same finding on so many layers."""
    return Report(version="0.1.0", audits=(audit(*(f"blocks.{i}.bn" for i in range(number))),), rules=NAMES)
