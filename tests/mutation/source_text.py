"""A node of the syntax tree as ids and reports write it."""

from __future__ import annotations

import ast
import copy
import re

_IN_BRACKETS = re.compile(r"\bfor \(([\w, ]+)\) in ")
"""As Python 3.10 writes several names behind `for`."""


def source_text(node: ast.AST) -> str:
    """One line of source, the same in every version of Python."""
    text = " ".join(ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).split())
    text = _IN_BRACKETS.sub(r"for \1 in ", text).replace('"', "'")
    return text if len(text) <= 110 else f"{text[:70]} … {text[-37:]}"
