"""`bnaudit inspect` and `bnaudit compare` behind their options: work with a progress bar, write the report, give the
exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bnaudit.auditing import audit
from bnaudit.clean_stdout import stdout_kept_clean
from bnaudit.early_exit import early_exit_told
from bnaudit.output import view, write
from bnaudit.progress import Progress
from bnaudit.progress_bar import ProgressBar
from bnaudit.reports import renderer
from bnaudit.results import Report
from bnaudit.settings import Settings


def inspect(paths: Sequence[str], format: str, settings: Settings) -> int:
    """Audit the paths, and the live model of the settings, and write the report in this format to stdout.

    Returns the exit code. Raises UsageError for an unknown format or rule.
    """
    return reported(lambda progress: audit(paths or None, settings, progress), format, settings)


def compare_two(
    baseline: str | None, subject: str | None, format: str, settings: Settings, *, roundtrip: bool = False
) -> int:
    """Hold the subject against the baseline, as `bnaudit.compare` does, and write the report in this format to stdout.

    Returns the exit code. Raises UsageError for an unknown format, rule or part.
    """
    from bnaudit.comparing.use_case import compare

    return reported(
        lambda progress: compare(baseline, subject, settings, progress, roundtrip=roundtrip), format, settings
    )


def reported(use_case: Callable[[Progress], Report], format: str, settings: Settings) -> int:
    """Let the use case work and write its report in this format to stdout; returns the exit code.

    What a model prints while it runs goes to stderr: stdout is the report's alone. Raises UsageError for an unknown
    format, and what the use case raises.
    """
    chosen = renderer(format)
    with stdout_kept_clean(), early_exit_told(), ProgressBar() as bar:
        report = use_case(bar)
    write(chosen.render(report, view(in_full=settings.all_layers)))
    return report.exit_code()
