"""The pages of rules, Markdown in the source, as HTML without any that a page could bring along."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from bnaudit.rules import Rule, load_rule, rule_files

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markupsafe import Markup

_DEEPER = 2
"""Levels that a page's headings are moved down: `##` stands below the rule's own heading, an `h3`."""


class RulePage(NamedTuple):
    """What `bnaudit explain` prints of one rule."""

    id: str
    name: str
    summary: Markup
    body: Markup


def rule_pages(ids: Iterable[str]) -> tuple[RulePage, ...]:
    """The pages of those of the rules that exist, in the order of their ids."""
    files = rule_files()
    return tuple(_page(load_rule(files[id])) for id in sorted(set(ids)) if id in files)


def _page(rule: Rule) -> RulePage:
    from markupsafe import Markup

    _, _, rest = rule.doc.strip().partition("\n")
    made = _markdown()
    return RulePage(rule.id, rule.name, Markup(made.renderInline(rule.summary)), Markup(made.render(rest)))


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False}).enable("table")
    # Nothing on the page leads out of the file.
    made.disable(["link", "autolink", "image"])

    def deeper(state: object) -> None:
        for token in state.tokens:  # type: ignore[attr-defined]
            if token.type in ("heading_open", "heading_close"):
                token.tag = f"h{min(int(token.tag[1:]) + _DEEPER, 6)}"
            elif token.type in ("code_block", "fence"):
                # A block that may scroll is reached with the keyboard.
                token.attrSet("tabindex", "0")

    made.core.ruler.push("deeper", deeper)
    return made
