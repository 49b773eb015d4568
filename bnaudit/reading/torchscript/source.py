"""The text of TorchScript's `code/` files: split into definitions, parsed one at a time, never run.

TorchScript prints every class and function at the start of a line and escapes line breaks in strings, so that a file
can be split without parsing it, and one broken definition hides only itself. The text is Python's grammar except for
attributes named like Python keywords (`self.lambda`), which TorchScript's own parser accepts.
"""

from __future__ import annotations

import ast
import re
import warnings
from keyword import kwlist

from bnaudit.errors import MalformedError

_START = re.compile(r"^(?=(?:class|def) )", re.MULTILINE)
_NAME = re.compile(r"(?:class|def) (\w+)")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*("?)|\'(?:[^\'\\\n]|\\.)*(\'?)')
"""One that is not closed ends with its line: searching on from each of its quotes would take the square of it."""
_TRIPLE_QUOTES = ('"""', "'''")
_BRACKETS = re.compile(r"[][(){}]")
_KEYWORD = "|".join(kwlist)
_KEYWORD_ATTRIBUTE = re.compile(rf"(?<=\.)({_KEYWORD})\b|^(  )({_KEYWORD})(?= : )", re.MULTILINE)
_ESCAPED = "__keyword"
_CHAIN = 8_000
"""Characters between two commas of one statement; TorchScript writes hundreds. CPython 3.10 crashes on chains of
100,000 links (`a.b.b.b…`), which its parser builds without counting."""


def definitions(text: str) -> dict[str, str]:
    """The classes and functions of one file: name to text. A name that is defined twice keeps its first text."""
    found: dict[str, str] = {}
    for piece in _START.split(text):
        name = _NAME.match(piece)
        if name is not None:
            found.setdefault(name[1], piece)
    return found


def parse_definition(text: str, where: str) -> ast.ClassDef | ast.FunctionDef:
    """The syntax tree of one class or function.

    Raises MalformedError when it is no code that TorchScript writes, or too deep to parse.
    """
    if any(quotes in text for quotes in _TRIPLE_QUOTES):  # TorchScript escapes every quote in a string
        raise _unreadable(where, "a string in three quotes")
    if _longest_chain(text) > _CHAIN:
        raise _unreadable(where, "an expression is too long")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript escapes what Python does not
        try:
            body = _parse(text)
        except (SyntaxError, ValueError) as error:
            raise _unreadable(where, getattr(error, "msg", "") or type(error).__name__) from error
        except (RecursionError, MemoryError) as error:
            raise _unreadable(where, "it is nested too deeply") from error
    if len(body) != 1 or not isinstance(body[0], (ast.ClassDef, ast.FunctionDef)):
        raise _unreadable(where, "it is not one class or function")
    return body[0]


def attribute_name(identifier: str) -> str:
    """The attribute that an identifier of a syntax tree means: undoes the escape of Python's keywords."""
    return identifier.removesuffix(_ESCAPED)


def _parse(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except SyntaxError:
        escaped = _KEYWORD_ATTRIBUTE.sub(lambda found: f"{found[2] or ''}{found[1] or found[3]}{_ESCAPED}", text)
        return ast.parse(escaped).body


def _longest_chain(text: str) -> int:
    """The most characters between two commas of a statement, strings left out, lines in brackets joined."""
    if len(text) <= _CHAIN:
        return 0
    longest = length = depth = 0
    for line in _STRING.sub(_without_content, text).split("\n"):
        for bracket in _BRACKETS.findall(line):
            depth += 1 if bracket in "([{" else -1
        first, *rest = line.split(",")
        longest = max(longest, length + len(first), *(len(piece) for piece in rest))
        length = (len(rest[-1]) if rest else length + len(first)) if depth > 0 or line.endswith("\\") else 0
    return longest


def _without_content(string: re.Match[str]) -> str:
    """Nothing in a string is code; what follows a quote that is never closed may be, and is one piece."""
    return "''" if string[1] or string[2] else string[0].replace(",", " ")


def _unreadable(where: str, why: str) -> MalformedError:
    return MalformedError("code that cannot be read", where=f"{where}: {why}")
