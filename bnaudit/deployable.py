"""An audit as an assertion: of a test, of a script before it exports, of anything that stops at an AssertionError."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bnaudit.auditing import audit
from bnaudit.call_options import with_options
from bnaudit.errors import BnauditError, UsageError
from bnaudit.nearest_name import nearest
from bnaudit.printable import printable
from bnaudit.records import replace
from bnaudit.reports import View, renderer
from bnaudit.results import Audit, Question, Report, Severity
from bnaudit.settings import Settings
from bnaudit.terminal.exit_meaning import meaning

REQUIRED = (Question.BUFFERS, Question.EVAL_MODE, Question.NEIGHBOURS)
_WIDTH = 80
_IN_PYTHON = {
    "--model file.py:factory": "model=factory",
    "--inputs": "inputs=…",
    "--trust-pickle": "trust_pickle=True",
    "--run": "run=True",
    "--batch-size": "batch_size=…",
    "--batch-axis": "axis=…",
    "without --static": "without static=True",
}
"""What a verdict needs, as an option of the command line and as one of this function."""


class NotDeployableError(AssertionError):
    """The text says why, and what to give; then the report as a terminal without colour shows it."""

    def __init__(self, report: Report) -> None:
        self.report = report
        super().__init__(_failure_text(report))


def assert_deployable(
    model: object = None,
    inputs: object = None,
    /,
    *,
    require: str | Question | Iterable[str | Question] = REQUIRED,
    fail_on: str | Severity = Severity.WARNING,
    settings: Settings | None = None,
    **options: Any,
) -> Report:
    """Audit a live model, a function that builds one, or a path, and return the report if it may be deployed.

    `require` names the verdicts that have to be decided, and passed: `buffers`, `eval-mode`, `neighbours`,
    `train-eval-gap`, `frozen`, or `all`. `options` are those of `bnaudit.audit`; with a path, `model=` is what its
    weights are loaded into. The user's model is left as it was, bit for bit.

    Raises NotDeployableError, an AssertionError, for findings at or above `fail_on`, a required verdict that failed
    or is not decided, and what could not be read or run; UsageError for names that do not exist, UnreadableError
    when a live model cannot be built.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    if inputs is not None:
        options["inputs"] = inputs
    try:
        settings = with_options(settings or Settings(), {**options, "require": require, "fail_on": fail_on})
        report = audit(model, settings)
        _refuse_what_fits_nothing(report, settings.layers)
    except BnauditError as error:
        raise error.with_traceback(None) from None  # its sentence says all; where bnaudit noticed it does not help
    if report.interrupted:
        raise KeyboardInterrupt
    report = replace(report, gate=True)
    if report.exit_code() != 0:
        raise NotDeployableError(report)
    return report


def _refuse_what_fits_nothing(report: Report, patterns: Iterable[str]) -> None:
    """A mistyped pattern of layers would hide all findings."""
    names = [layer.name for entry in report.audits for _, layer in entry.description.layers]
    for pattern in patterns:
        if names and not any(map(Settings(layers=(pattern,)).covers, names)):
            what = f"layers={pattern!r} fits no layer of what was audited"
            raise UsageError(what, remedy=nearest(pattern, names, "check the pattern"))


def _failure_text(report: Report) -> str:
    """Why it does not pass, what each required verdict lacks to be decided, the report; 80 columns, no styles."""
    lines = [f"not deployable: {meaning(report)}"]
    for entry in report.audits:
        lines += _folded(_lacking(entry), entry.artifact.path if len(report.audits) > 1 else "")
    return "\n".join([*lines, "", renderer("terminal").render(report, View(width=_WIDTH)).rstrip("\n")])


def _lacking(entry: Audit) -> Mapping[str, Sequence[str]]:
    """What the undecided verdicts lack → their names."""
    names: dict[str, list[str]] = {}
    for verdict in entry.undecided:
        given = f"; give {_in_python(verdict.needs)}" if verdict.needs else ""
        names.setdefault(f"{verdict.outcome.value}: {verdict.reason}{given}", []).append(verdict.question.value)
    return names


def _in_python(needs: str) -> str:
    return re.sub("|".join(map(re.escape, _IN_PYTHON)), lambda found: _IN_PYTHON[found[0]], needs)


def _folded(lacking: Mapping[str, Sequence[str]], where: str) -> list[str]:
    from textwrap import wrap

    of = f" of {where}" if where else ""
    lines = [printable(f"{', '.join(names)}{of} {what}") for what, names in lacking.items()]
    return [piece for line in lines for piece in wrap(line, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)]
