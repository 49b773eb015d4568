"""Mutants of a module: each is its source with one small thing wrong, in the conditions, limits and hits of its code.

Left alone are docstrings, annotations, imports, what is under `if TYPE_CHECKING` and what stands in f-strings: they
are wording, and no rule decides by it. `edits` says which changes there are.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from mutation.edits import Edit, edits
from mutation.scopes import Scope

_SKIPPED = (ast.JoinedStr, ast.Import, ast.ImportFrom)
_ANNOTATIONS = {"annotation", "returns", "type_comment"}


class Mutant(NamedTuple):
    """One change of one module."""

    id: str
    """`rules/bn105_….py::function::operator::before -> after`, and `#2` for the second alike: it survives that lines
    move."""
    file: str
    line: int
    column: int
    operator: str
    before: str
    after: str
    node: int
    """Which node of the walk."""
    choice: int
    """Which of the node's edits."""
    at_import: bool
    """It is in no function's body: who imported the module before does not see it."""


def mutants(source: str, file: str) -> list[Mutant]:
    """All mutants of a module, from top to bottom; `file` is what their ids begin with."""
    found: list[Mutant] = []
    met: Counter[str] = Counter()
    for number, (scope, node) in enumerate(_walk(ast.parse(source), Scope())):
        for choice, edit in enumerate(edits(node, scope)):
            name = f"{file}::{scope.name or 'module'}::{edit.operator}::{edit.before} -> {edit.after}"
            met[name] += 1
            id = name if met[name] == 1 else f"{name} #{met[name]}"
            line, column = edit.line, edit.column
            late = scope.in_body or edit.operator == "statement"
            found.append(
                Mutant(id, file, line, column, edit.operator, edit.before, edit.after, number, choice, not late)
            )
    return sorted(found, key=lambda each: (each.line, each.column))


def mutated(source: str, mutant: Mutant) -> ast.Module:
    """The module with the one change, to be compiled; line numbers are those of the source."""
    tree = ast.parse(source)
    _edit_of(tree, mutant).apply()
    return ast.fix_missing_locations(tree)


def _edit_of(tree: ast.Module, mutant: Mutant) -> Edit:
    for number, (scope, node) in enumerate(_walk(tree, Scope())):
        if number == mutant.node:
            return list(edits(node, scope))[mutant.choice]
    raise LookupError(mutant.id)


def _walk(node: ast.AST, scope: Scope) -> Iterator[tuple[Scope, ast.AST]]:
    yield scope, node
    for field, child in _children(node):
        if isinstance(child, _SKIPPED) or field in _ANNOTATIONS or _is_for_types(child):
            continue
        yield from _walk(child, scope.within(node, field, child))


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield field, child


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
