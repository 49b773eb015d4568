"""Where a node of the syntax tree stands, as far as it decides what is changed there."""

from __future__ import annotations

import ast
from typing import NamedTuple

CHOOSING = {"startswith", "endswith", "isinstance", "issubclass"}
"""Calls in which a tuple is a list of alternatives."""


class Scope(NamedTuple):
    """Where a node stands."""

    name: str = ""
    """The function, with its class."""
    in_body: bool = False
    """Of a function: run when it is called, not when the module is imported."""
    limit: bool = False
    """Numbers here are limits, tried in both directions."""
    place: bool = False
    """Within the brackets of a subscript, or digits to round to."""
    listed: bool = False
    """A collection here is a list of alternatives, of which each item counts."""

    def within(self, node: ast.AST, field: str, child: ast.AST) -> Scope:
        """The scope of a child of the node."""
        scope = self._replace(listed=self._lists(node, field, child))
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            return Scope(f"{self.name}.{child.name}".lstrip("."))
        if isinstance(node, ast.FunctionDef):
            return scope._replace(limit=field == "decorator_list", in_body=field == "body")
        if isinstance(node, ast.Compare) or (isinstance(node, ast.Module) and isinstance(child, ast.Assign)):
            return scope._replace(limit=True)
        return scope._replace(place=True) if _is_place(node, field, child) else scope

    def _lists(self, node: ast.AST, field: str, child: ast.AST) -> bool:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and field == "value":
            return not self.name
        if isinstance(node, ast.keyword):
            return node.arg in ("yields_to", "needs")
        if isinstance(node, ast.Compare):
            return any(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops) and field == "comparators"
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            return called in CHOOSING or (self.listed and called in ("frozenset", "set", "tuple"))
        return self.listed and isinstance(node, (ast.BinOp, ast.Set, ast.Dict))


def _is_place(node: ast.AST, field: str, child: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "round" and child is not node.args[0]
    return isinstance(node, ast.Subscript) and field == "slice"
