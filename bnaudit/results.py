"""What is concluded: hits become findings, findings and verdicts become a report."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from bnaudit.description import Artifact, Description, Gap
from bnaudit.plugins import load
from bnaudit.records import Record

if TYPE_CHECKING:
    from bnaudit.comparison import Comparison
    from bnaudit.measurement import Measured


class Severity(IntEnum):
    """How bad it is. Comparable: NOTE < WARNING < ERROR."""

    NOTE = 1
    """worth knowing"""
    WARNING = 2
    """predictions are likely wrong, or wrong under a stated condition"""
    ERROR = 3
    """predictions are or will be wrong"""

    @property
    def label(self) -> str:
        """`note`, `warning`, `error`."""
        return self.name.lower()


class Confidence(IntEnum):
    """How good the evidence is; it caps the severity: LOW is at most a note, MEDIUM at most a warning."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3

    @property
    def label(self) -> str:
        """`low`, `medium`, `high`."""
        return self.name.lower()


class Question(str, Enum):
    """The five questions that a report opens with; the value is the verdict's name on the command line."""

    BUFFERS = "buffers"
    EVAL_MODE = "eval-mode"
    NEIGHBOURS = "neighbours"
    GAP = "train-eval-gap"
    FROZEN = "frozen"

    @property
    def claim(self) -> str:
        """The verdict as a claim that passes or fails."""
        return _CLAIMS[self]


_CLAIMS = {
    Question.BUFFERS: "buffers complete",
    Question.EVAL_MODE: "eval mode holds",
    Question.NEIGHBOURS: "neighbours do not matter",
    Question.GAP: "train–eval gap",
    Question.FROZEN: "frozen means frozen",
}


class Outcome(str, Enum):
    """How a question was decided."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    NOT_CHECKED = "not checked"


class Verdict(Record):
    """One question's answer. `reason` says why; `needs` what to give when it was not decided."""

    question: Question
    outcome: Outcome
    reason: str = ""
    needs: str = ""


class Hit(Record):
    """What a rule yields. The engine adds the rule and the artifact and makes it a Finding."""

    message: str
    """What is wrong in one sentence, without the layer's name and without the advice."""
    advice: str
    """What to do, one line, the same text for every layer with the same cause (reports show it once)."""
    layer: str | None = None
    """The norm layer's or module's stored name; None: the whole artifact."""
    part: str = ""
    value: float | int | str | None = None
    """The number found, in the unit of `limit`."""
    limit: float | int | str | None = None
    channels: tuple[int, ...] = ()
    """The channels concerned, worst first, at most 16; empty: all or not per channel."""
    severity: Severity | None = None
    """Set where it differs from the rule's default."""
    confidence: Confidence = Confidence.HIGH
    undecided: str = ""
    """The rule's question can not be decided because of this: the verdict becomes *inconclusive: <this text>*."""
    settles: bool | None = None
    """Whether it fails the rule's question; None: when its severity is warning or error."""


class Acceptance(Record):
    """What the user knows of and accepts: a finding that it fits stays in the report and fails nothing."""

    source: str
    """Where it is written: `bnaudit.toml: accept[0]`, or the path of a baseline."""
    rule: str
    """Prefix of rule ids."""
    reason: str = ""
    until: str = ""
    """The last day on which it holds, `2027-01-31`; "": no end."""
    expired: bool = False
    """`until` has passed: what it fits is a finding again, and says so."""
    layer: str = "*"
    """Shell pattern of layer or module names; findings on a whole artifact need `*`."""
    artifact: str = "*"
    """Shell pattern of paths, relative to `root`."""
    root: str = ""
    """Folder of the file that it is written in."""
    fingerprint: str = ""
    """Of the one finding that a baseline means; "": whatever fits the patterns."""
    label: str = ""
    """The layer that the baseline names beside the fingerprint, for people."""


class Finding(Record):
    """A hit with its rule, artifact and fingerprint. `severity` is capped by the confidence."""

    rule: str
    name: str
    severity: Severity
    confidence: Confidence
    artifact: str
    part: str
    layer: str | None
    message: str
    value: float | int | str | None
    limit: float | int | str | None
    advice: str
    channels: tuple[int, ...]
    question: Question | None
    fails: bool
    """Whether it fails its question."""
    undecided: str
    fingerprint: str
    """Survives retraining: made of rule, part and layer without wrapper prefixes, never of numbers or paths."""
    intended: bool = False
    """The settings say that it is meant to be so: a note, whatever its severity was, that fails nothing."""
    acceptance: Acceptance | None = None
    """By which the user accepts it, or did until a day that has passed."""

    @property
    def accepted(self) -> bool:
        """Known and accepted: it keeps its severity and fails nothing."""
        return self.acceptance is not None and not self.acceptance.expired


class Skipped(Record):
    """A rule that did not run and what it needs."""

    rule: str
    name: str
    needs: str


class Failed(Record):
    """A rule that broke; an internal failure, reported and never swallowed."""

    rule: str
    name: str
    error: str


class LedgerRow(Record):
    """One norm layer or a run of like layers, and the three questions answered for it."""

    layers: tuple[str, ...]
    label: str
    """The names compressed: `layer{1..4}.{0..5}.bn{1,2,3}`."""
    part: str
    kind: str
    channels: tuple[int, int] | None
    """Smallest and largest."""
    counter: tuple[float, float] | None
    """Smallest and largest num_batches_tracked."""
    residual: float | None
    """Largest share of the initial statistics that is still in the running ones, (1 − momentum)^counter."""
    mode: str
    """`training` or `eval`; `…, fixed` where the graph says so whatever eval() does; `batch, fixed`: statistics
    computed from the input; `no modes`; `not saved`: a state dict; `unknown`."""
    state: str
    """`complete`, `no counter`, `no running_mean, running_var`, `affine only`, `non-finite`, …"""
    eps: float | None
    momentum: str
    """A number, `cumulative`, or "" when unknown."""
    needs_exact_eps: float | None
    """Share of channels whose gain moves by more than 10 % between epsilon 1e-5 and 1e-3."""


class Audit(Record, eq=False):
    """The conclusions about one artifact."""

    artifact: Artifact
    description: Description
    verdicts: tuple[Verdict, ...]
    ledger: tuple[LedgerRow, ...]
    findings: tuple[Finding, ...]
    """Worst first."""
    skipped: tuple[Skipped, ...]
    failed: tuple[Failed, ...]
    gaps: tuple[Gap, ...]
    measured: Measured | None = None
    """What running the model showed; None: it was not run, see `not_run`."""
    not_run: str = ""
    """Why it was not run, or stopped before anything was measured."""
    run_needs: str = ""
    """What to give or allow so that it is."""
    run_failed: bool = False
    """It should have run, with what the user gave, and could not: exit code 2."""
    fail_on: Severity = Severity.ERROR
    """Lowest severity that fails this artifact."""
    required: tuple[Question, ...] = ()
    """Questions that have to pass for this artifact."""
    limits: Mapping[str, Mapping[str, float]] = MappingProxyType({})
    """Rule id → limit name → value: what the settings put in place of the rules' own limits."""
    selected: tuple[str, ...] = ()
    """Ids of the rules that it was checked with, of another artifact there may be others; (): not known."""
    comparison: Comparison | None = None
    """With its baseline; then the findings are about differences and there are no verdicts."""

    @property
    def open_findings(self) -> tuple[Finding, ...]:
        """Those that nobody accepted, worst first."""
        return tuple(finding for finding in self.findings if not finding.accepted)

    @property
    def failing_findings(self) -> tuple[Finding, ...]:
        """Those at or above `fail_on` that nobody accepted or meant, worst first."""
        return tuple(each for each in self.open_findings if each.severity >= self.fail_on and not each.intended)

    @property
    def undecided(self) -> tuple[Verdict, ...]:
        """Required verdicts that are inconclusive or not checked; folded norms have no buffers to require."""
        decided = (Outcome.PASSED, Outcome.FAILED)
        open_ones = [v for v in self.verdicts if v.question in self.required and v.outcome not in decided]
        return tuple(v for v in open_ones if not (v.question is Question.BUFFERS and self._is_folded))

    @property
    def _is_folded(self) -> bool:
        parts = self.description.parts
        return bool(parts) and all(part.folded and not part.layers for part in parts)

    @property
    def exit_code(self) -> int:
        """What this artifact alone gives: 2 failed or not run, 1 findings, 3 not looked at or not decided, 0."""
        if self.failed or self.run_failed:
            return 2
        refused = any(v.question in self.required and v.outcome is Outcome.FAILED for v in self.verdicts)
        if refused or self.failing_findings:
            return 1
        return 3 if self.undecided or not self.looked else 0

    @property
    def looked(self) -> bool:
        """Whether anything was checked: there is a model, and not all that may be norm layers is unread; of two, that
        anything of one could be held against the other."""
        if self.comparison is not None:
            return self.comparison.compared
        layers = [layer for _, layer in self.description.layers]
        tensors = [tensor for layer in layers for tensor in layer.tensors]
        if layers:
            return not tensors or not all(tensor.unread for tensor in tensors)
        hidden = any(gap.hides_norms for gap in self.gaps)
        return bool(self.description.parts) and (self.measured is not None or not hidden)


class Unaudited(Record):
    """A path that was not audited. `error`: it should have been (exit code 2); else it is a format not read."""

    path: str
    why: str
    error: bool

    @property
    def exit_code(self) -> int:
        """What this path alone gives."""
        return 2 if self.error else 3


class Unmatched(Record):
    """Something in the settings, or in a baseline, that fits nothing in what was audited."""

    key: str
    """Its place: `bnaudit.toml: intended.BN302`."""
    why: str
    """One sentence with what to do."""
    error: bool
    """A pattern that is probably mistyped (exit code 2); else an accepted finding that is gone."""


class Report(Record, eq=False):
    """All that a renderer gets."""

    version: str
    audits: tuple[Audit, ...]
    unaudited: tuple[Unaudited, ...] = ()
    other_files: int = 0
    """Files of no model format met in directories."""
    rules: Mapping[str, str] | None = None
    """Id → name of the rules that were selected."""
    interrupted: bool = False
    """The user stopped it (Ctrl-C): what was found so far."""

    gate: bool = False
    """A gate: an artifact that was named or met and not audited does not pass."""
    exit_zero: bool = False
    """A gate for information only: findings and undecided verdicts do not fail it."""
    unmatched: tuple[Unmatched, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings of all artifacts."""
        return tuple(finding for audit in self.audits for finding in audit.findings)

    @property
    def worst(self) -> Severity | None:
        """The highest severity found and not accepted, None without findings."""
        return max((finding.severity for audit in self.audits for finding in audit.open_findings), default=None)

    @property
    def looked(self) -> bool:
        """Whether anything was checked, in every artifact that was audited."""
        return bool(self.audits) and all(audit.looked for audit in self.audits)

    def exit_code(self) -> int:
        """0 passed; 1 findings; 2 unreadable, failed or mistyped; 3 not checked or not decided; 130 interrupted.

        2 goes before 1, 1 before 3. Never 0 when nothing was looked at.
        """
        if self.interrupted:
            return 130
        codes = {audit.exit_code for audit in self.audits}
        codes |= {2 for unread in self.unaudited if unread.error} | {2 for entry in self.unmatched if entry.error}
        if not self.audits or (self.gate and self.unaudited):
            codes.add(3)
        return overall(codes, excused=self.exit_zero and self.looked)

    def __repr__(self) -> str:
        counted = []
        for level in reversed(Severity):
            found = [finding.rule for finding in self.findings if finding.severity is level]
            ids = sorted(set(found))
            if found:
                counted.append(f"{_count(len(found), level.label)} ({', '.join([*ids[:4], *['…'][: len(ids) > 4]])})")
        parts = [_count(len(self.audits), "artifact"), ", ".join(counted) or "no findings", f"exit {self.exit_code()}"]
        if self.unaudited:
            parts.insert(1, f"{len(self.unaudited)} not audited")
        return f"<Report: {' · '.join(parts)}>"

    def _repr_html_(self) -> str:
        """The report in a notebook."""
        # By name: values stand below all that shows them.
        return str(load("bnaudit", "notebook").html(self))


def overall(codes: Collection[int], *, excused: bool = False) -> int:
    """The exit code of several: 2 goes before 1, 1 before 3. Excused: only 2 is not 0."""
    code = next((worst for worst in (2, 1, 3) if worst in codes), 0)
    return 0 if excused and code != 2 else code


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
