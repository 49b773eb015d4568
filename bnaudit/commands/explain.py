"""`bnaudit explain`: the page of a rule, or the arithmetic of a batch norm with numbers."""

from __future__ import annotations

from typing import Annotated

import typer

from bnaudit.plugins import names

EPILOG = """
Examples:

  bnaudit explain BN105

  bnaudit explain immature-statistics

  bnaudit explain arithmetic
"""


def _topics(incomplete: str) -> list[str]:
    from bnaudit.rules import rule_id

    topics = ["arithmetic", *(rule_id(name) for name in names("bnaudit.rules"))]
    return [topic for topic in topics if topic.lower().startswith(incomplete.lower())]


def command(
    topic: Annotated[
        str, typer.Argument(help="A rule's id or name, or `arithmetic`.", autocompletion=_topics, show_default=False)
    ],
) -> int:
    """Explain a rule: what it finds, why it matters, worked arithmetic, how to fix it, its limits."""
    from bnaudit.output import view, write

    seen = view()
    write(_rendered(_page(topic), seen.width, seen.color))
    return 0


def _page(topic: str) -> str:
    if topic.lower() == "arithmetic":
        from bnaudit.worked_arithmetic import worked_example

        return worked_example()
    from difflib import get_close_matches

    from bnaudit.errors import UsageError
    from bnaudit.rules import load_rule, rule_id

    wanted = topic.lower().replace("-", "_")
    known = names("bnaudit.rules")
    for name in known:
        if wanted in (rule_id(name).lower(), name.split("_", 1)[1]):
            rule = load_rule(name)
            defaults = ", ".join(f"`{key}` {value:g}" for key, value in rule.limits.items())
            footer = f"\n\nDefault severity: {rule.severity.label}." + (f" Settings: {defaults}." if defaults else "")
            return f"# {rule.id} {rule.name}\n\n{rule.doc.strip()}{footer}\n"
    choices = {key: rule_id(name) for name in known for key in (rule_id(name).lower(), name.split("_", 1)[1])}
    close = get_close_matches(wanted, choices, n=1)
    remedy = f"did you mean {choices[close[0]]}?" if close else "`bnaudit rules` lists them"
    raise UsageError(f"nothing is called {topic!r}", remedy=remedy)


def _rendered(page: str, width: int, color: bool) -> str:
    if not color:
        return page
    import io

    from rich.console import Console
    from rich.markdown import Markdown

    buffer = io.StringIO()
    Console(file=buffer, width=min(width, 100), force_terminal=True, color_system="standard").print(Markdown(page))
    return buffer.getvalue()
