"""The changes that a mutant is made by, each on one node of the syntax tree."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from mutation.scopes import Scope
from mutation.source_text import source_text
from mutation.swaps import COMPARISONS, MEMBERS, NAMES, OPERATORS

_LONGEST = 60
"""Of a collection with more items than this (a table of names) no item is taken out."""


class Edit(NamedTuple):
    """One change: what is there, what is there after `apply`, and where."""

    operator: str
    before: str
    after: str
    line: int
    column: int
    apply: Callable[[], None]


def edits(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """The changes of this node itself; those of its children are the children's."""
    for make in _MAKERS:
        yield from make(node, scope)


def _edit(operator: str, node: Any, change: Callable[[Any], None]) -> Edit:
    twin = copy.deepcopy(node)
    change(twin)
    return Edit(operator, source_text(node), source_text(twin), node.lineno, node.col_offset, partial(change, node))


def _comparisons(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    if not isinstance(node, ast.Compare):
        return
    for place, op in enumerate(node.ops):
        for other in COMPARISONS[type(op)]:

            def change(at: ast.Compare, place: int = place, other: type[ast.cmpop] = other) -> None:
                at.ops[place] = other()

            yield _edit("comparison", node, change)


def _clauses(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """A clause dropped; `a and a` is `a`, and a syntax tree needs two."""
    if not isinstance(node, ast.BoolOp):
        return
    for place in range(len(node.values)):

        def change(at: ast.BoolOp, place: int = place) -> None:
            kept = [value for position, value in enumerate(at.values) if position != place]
            at.values = kept if len(kept) > 1 else [kept[0], copy.deepcopy(kept[0])]

        dropped = f"without {source_text(node.values[place])}"
        yield Edit("clause", source_text(node), dropped, node.lineno, node.col_offset, partial(change, node))


def _conditions(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    if isinstance(node, (ast.If, ast.While, ast.IfExp)) and not _is_flipped_otherwise(node.test):

        def negate(at: ast.If | ast.While | ast.IfExp) -> None:
            at.test = ast.UnaryOp(ast.Not(), at.test)

        text = source_text(node.test)
        yield Edit("condition", text, f"not ({text})", node.test.lineno, node.test.col_offset, lambda: negate(node))
    if isinstance(node, ast.comprehension):
        for place, test in enumerate(node.ifs):
            if not _is_flipped_otherwise(test):

                def turn(at: ast.comprehension = node, place: int = place) -> None:
                    at.ifs[place] = ast.UnaryOp(ast.Not(), at.ifs[place])

                yield Edit(
                    "condition", source_text(test), f"not ({source_text(test)})", test.lineno, test.col_offset, turn
                )
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):

        def drop(at: ast.UnaryOp = node) -> None:
            at.operand = ast.UnaryOp(ast.Not(), at.operand)

        yield Edit("condition", source_text(node), source_text(node.operand), node.lineno, node.col_offset, drop)


def _is_flipped_otherwise(test: ast.expr) -> bool:
    is_not = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    return is_not or (isinstance(test, ast.Compare) and len(test.ops) == 1)


def _names(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    if not isinstance(node, ast.Call):
        return
    if isinstance(node.func, ast.Name) and node.func.id in NAMES:

        def rename(at: ast.Call) -> None:
            at.func.id = NAMES[at.func.id]  # type: ignore[attr-defined]

        yield _edit("call", node, rename)
    if isinstance(node.func, ast.Attribute) and node.func.attr in NAMES:

        def rename_method(at: ast.Call) -> None:
            at.func.attr = NAMES[at.func.attr]  # type: ignore[attr-defined]

        yield _edit("call", node, rename_method)


def _arithmetic(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in OPERATORS:

        def swap(at: ast.BinOp | ast.AugAssign) -> None:
            at.op = OPERATORS[type(at.op)]()

        yield _edit("arithmetic", node, swap)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):

        def unsign(at: ast.UnaryOp) -> None:
            at.op = ast.UAdd()

        yield _edit("arithmetic", node, unsign)


def _numbers(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    if not isinstance(node, ast.Constant) or scope.place:
        return
    for value in _others(node.value, scope.limit):

        def shift(at: ast.Constant, value: Any = value) -> None:
            at.value = value

        yield _edit("constant", node, shift)


def _others(value: object, both: bool) -> tuple[object, ...]:
    """True ↔ False; an integer one more and, for a limit, one less; a float a tenth more and, for a limit, less."""
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return (value + 1, value - 1) if both else (value + 1,)
    if not isinstance(value, float):
        return ()
    if value == 0.0:
        return (1.0,)
    factors = (1.1, 0.9) if both else (1.1,)
    return tuple(float(f"{value * factor:.6g}") for factor in factors)


def _members(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        others = MEMBERS.get(node.value.id, {})
        if node.attr in others:

            def change(at: ast.Attribute) -> None:
                at.attr = others[at.attr]

            yield _edit("member", node, change)


def _statements(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """A yield, a call for its effect, a bare return, `continue` or `break` taken out."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        statements: list[ast.stmt] = block if isinstance(block, list) else []
        for place, statement in enumerate(statements):
            if _has_effect_alone(statement):

                def remove(block: list[ast.stmt] = statements, place: int = place) -> None:
                    # Kept behind `if False`, so that a generator stays one.
                    block[place] = ast.If(ast.Constant(False), [block[place]], [])

                text = source_text(statement)
                yield Edit("statement", text, "pass", statement.lineno, statement.col_offset, remove)


def _has_effect_alone(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.Continue, ast.Break)):
        return True
    if isinstance(statement, ast.Return):
        return statement.value is None
    return isinstance(statement, ast.Expr) and isinstance(statement.value, (ast.Yield, ast.YieldFrom, ast.Call))


def _returned(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """A collection that is returned, or the channels of a hit, emptied."""
    if isinstance(node, ast.Return) and node.value is not None:
        value, empty = node.value, _empty(node.value)
    elif isinstance(node, ast.keyword) and node.arg == "channels":
        value, empty = node.value, ast.Tuple([], ast.Load())
    else:
        return
    if empty is not None and ast.dump(empty) != ast.dump(value):

        def clear(at: ast.Return | ast.keyword, empty: ast.expr = empty) -> None:
            at.value = copy.deepcopy(empty)

        yield _edit("emptied", node, clear)


def _empty(value: ast.expr) -> ast.expr | None:
    if isinstance(value, (ast.List, ast.ListComp)):
        return ast.List([], ast.Load())
    if isinstance(value, (ast.Dict, ast.DictComp)):
        return ast.Dict([], [])
    called = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
    if isinstance(value, ast.Tuple) or called == "tuple":
        return ast.Tuple([], ast.Load())
    return ast.List([], ast.Load()) if called in ("list", "sorted") else None


def _items(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """An item of a list of alternatives taken out."""
    if not scope.listed or not isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.Dict)):
        return
    items = node.keys if isinstance(node, ast.Dict) else node.elts
    fewest = 2 if isinstance(node, ast.Set) else 1
    if not fewest <= len(items) <= _LONGEST:
        return
    for place, item in enumerate(items):

        def remove(at: ast.Tuple | ast.List | ast.Set | ast.Dict = node, place: int = place) -> None:
            if isinstance(at, ast.Dict):
                del at.keys[place], at.values[place]
            else:
                del at.elts[place]

        shown = item if item is not None else node
        yield Edit("item", f"…, {source_text(shown)}, …", "…, …", shown.lineno, shown.col_offset, remove)


_MAKERS = (
    _comparisons,
    _clauses,
    _conditions,
    _names,
    _arithmetic,
    _numbers,
    _members,
    _statements,
    _returned,
    _items,
)
