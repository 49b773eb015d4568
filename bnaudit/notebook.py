"""A report as HTML for a notebook: the terminal's report with its colours, self-contained and escaped."""

from __future__ import annotations

import io

from bnaudit.results import Report

WIDTH = 100
"""Characters of a line; a notebook's cell holds about 120."""
_FORMAT = (
    '<pre class="bnaudit-report" style="font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 0.9em; '
    'line-height: 1.35; white-space: pre; overflow-x: auto; color: inherit; background: none">{code}</pre>'
)
_GREEN, _RED, _YELLOW, _CYAN, _GREY = (46, 139, 87), (217, 54, 62), (166, 118, 0), (14, 138, 154), (125, 125, 125)
"""Contrast of at least 3.5 : 1 against white and against #111, so that one fragment serves light and dark pages."""


def html(report: Report) -> str:
    """The report as one `<pre>` element with inline styles: no script, no link, nothing that is not escaped."""
    from rich.console import Console
    from rich.terminal_theme import TerminalTheme

    from bnaudit.terminal.whole_report import whole_report

    console = Console(
        file=io.StringIO(),
        record=True,
        width=WIDTH,
        force_terminal=True,
        color_system="standard",
        legacy_windows=False,
        force_jupyter=False,
        markup=False,
        emoji=False,
        highlight=False,
    )
    whole_report(console, report, in_full=False, show_accepted=False)
    # A dim text is drawn half-way between the theme's two ends: both the same grey, whatever page it stands on.
    ansi = [_GREY, _RED, _GREEN, _YELLOW, _CYAN, _CYAN, _CYAN, _GREY]
    theme = TerminalTheme(_GREY, _GREY, ansi, ansi)
    return console.export_html(theme=theme, inline_styles=True, code_format=_FORMAT)
