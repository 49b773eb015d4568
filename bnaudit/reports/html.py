"""The report as one HTML file for a browser: no network, no script needed to read it, pictures where there are data."""

from __future__ import annotations

from bnaudit.reports import Renderer, View
from bnaudit.results import Report


def render(report: Report, view: View) -> str:
    """One self-contained HTML document. Raises UsageError when Jinja2 or matplotlib is not installed."""
    from bnaudit.html.page import page

    return page(report, view)


def prepare() -> None:
    """Raises UsageError when Jinja2 or matplotlib is not installed, without the time that importing them takes."""
    from importlib.util import find_spec

    from bnaudit.html.environment import NEEDED, not_there

    for name in NEEDED:
        if find_spec(name) is None:
            raise not_there(name)


RENDERER = Renderer(name="html", suffix=".html", render=render, prepare=prepare)
