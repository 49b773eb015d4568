"""`bnaudit inspect` behind its options: audit with a progress bar, write the report, give the exit code."""

from __future__ import annotations

from collections.abc import Sequence

from bnaudit.auditing import audit
from bnaudit.clean_stdout import stdout_kept_clean
from bnaudit.early_exit import early_exit_told
from bnaudit.output import view, write
from bnaudit.progress_bar import ProgressBar
from bnaudit.reports import renderer
from bnaudit.settings import Settings


def inspect(paths: Sequence[str], format: str, settings: Settings) -> int:
    """Audit the paths, and the live model of the settings, and write the report in this format to stdout.

    Returns the exit code. What a model prints while it runs goes to stderr: stdout is the report's alone. Raises
    UsageError for an unknown format or rule.
    """
    chosen = renderer(format)
    with stdout_kept_clean(), early_exit_told(), ProgressBar() as bar:
        report = audit(paths or None, settings, bar)
    write(chosen.render(report, view(in_full=settings.all_layers)))
    return report.exit_code()
