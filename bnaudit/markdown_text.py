"""Text of any origin in GitHub's Markdown: names stay names, and nothing in them becomes a link, a mention or HTML.

What could mean something to Markdown or to GitHub goes into a code span as a whole word, so that the raw text can
still be read. Backslashes would not do: GitHub looks for mentions and references after they are gone.
"""

from __future__ import annotations

import re
from html import escape

from bnaudit.printable import printable

_LONGEST = 400
"""Characters of a name or sentence before it is cut; names come from files and may be of any length."""
_WORD = re.compile(r"[^\s(]+\([^()\n]*\)|\S+")
"""A word, or a call with its arguments: `update_bn(loader, model)`."""
_SPECIAL = re.compile(r"[`*_~<>|&\\@#$\[\]{}^=!]|://|www\.|^[+-]+$|^\d+[.)]$|\b[gG][hH]-\d|\b[0-9a-f]{7,40}\b")
"""What Markdown or GitHub would not leave as it is: `GH-12` and a commit's hash are links too."""
_EDGES = re.compile(r"^([(\"']*)(.*?)([,.;:?\"')]*)$", re.DOTALL)


def code(text: str) -> str:
    """A code span; not for tables, see `cell_code`."""
    shown = _clipped(text)
    ticks = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    padded = f" {shown} " if "`" in (shown[:1], shown[-1:]) or shown != shown.strip() or not shown else shown
    return f"{ticks}{padded}{ticks}"


def cell_code(text: str) -> str:
    """Code in a cell of a table, where a bar would end the cell whatever stands around it."""
    shown = _clipped(text)
    if not set("|`\\") & set(shown):
        return code(shown)
    return f"<code>{''.join(c if c.isalnum() else f'&#{ord(c)};' for c in shown)}</code>"


def html_code(text: str) -> str:
    """Code in a line of HTML, in which no Markdown is read."""
    return f"<code>{escape(_clipped(text), quote=False)}</code>"


def prose(text: str) -> str:
    """A sentence whose plain words stay plain; every other word is code."""
    return _WORD.sub(lambda found: _word(found[0]), " ".join(_clipped(text).split()))


def cell(text: str) -> str:
    """A sentence for a cell of a table."""
    found = _WORD.finditer(" ".join(_clipped(text).split()))
    return " ".join(cell_code(word[0]) if _SPECIAL.search(word[0]) else word[0] for word in found)


def _word(word: str) -> str:
    if not _SPECIAL.search(word):
        return word
    before, middle, after = _edges(word)
    return f"{before}{code(middle)}{after}" if middle else code(word)


def _edges(word: str) -> tuple[str, str, str]:
    """Punctuation around a word; a bracket that the word opened stays in it."""
    found = _EDGES.match(word)
    before, middle, after = found.groups() if found is not None else ("", word, "")
    while after.startswith(")") and middle.count("(") > middle.count(")"):
        middle, after = middle + after[0], after[1:]
    return before, middle, after


def _clipped(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "…"
