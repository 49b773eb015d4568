"""Follows TorchScript code from a method through everything it calls, without running any of it.

One pass answers: with every `training` attribute in the given state, which operators that matter are reached, and
what is known of their arguments? Two passes, one per state, tell a training flag that obeys `eval()` from one that the
code fixes: healthy scripted code holds `bn_training = True` in one branch, and calls dropout with a literal `True`
behind a condition that eval mode makes false.

A condition that is known takes one branch, any other takes both. Loops are gone through once, with what they change
unknown. Nothing is evaluated by Python: only names, attributes, literals and a few comparisons are understood.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from bnaudit.errors import MalformedError
from bnaudit.reading.torchscript.code import CodeLibrary
from bnaudit.reading.torchscript.expressions import Expressions
from bnaudit.reading.torchscript.frames import Frame
from bnaudit.reading.torchscript.objects import ScriptObject
from bnaudit.reading.torchscript.source import attribute_name
from bnaudit.reading.torchscript.values import UNKNOWN, Items, Value, join, truth

_DEEPEST = 24
"""Calls within calls; what lies deeper is followed afterwards, from the top, so that Python's stack suffices."""
_LONGEST_TRAIL = 120
_MOST_DEFERRED = 10_000
_MOST_BRANCHES = 64
"""Conditions around a place that are remembered, the innermost ones."""


class _Invocation(NamedTuple):
    function: ast.FunctionDef
    bound: dict[str, Value]
    frame: Frame


class Interpreter(Expressions):
    """One pass over the code with all training flags as given.

    Raises MalformedError for code nested beyond reason, CapExceededError above `nodes` expressions. What was recorded
    until then stays.
    """

    def __init__(self, library: CodeLibrary, constants: Sequence[Value], *, training: bool, nodes: int) -> None:
        super().__init__(library, constants, training, nodes)
        self._deferred: deque[_Invocation] = deque()
        self._executors: dict[type[ast.stmt], Callable[[Any, Frame], None]] = {
            ast.Assign: self._assign,
            ast.AnnAssign: self._annotated,
            ast.Expr: self._expression,
            ast.Return: self._return,
            ast.If: self._if,
            ast.For: self._for,
            ast.While: self._while,
            ast.With: self._with,
            ast.FunctionDef: self._nested_function,
        }

    def follow(self, target: ScriptObject, method: str) -> None:
        """Follow a method of an object with unknown arguments, and all that it calls."""
        code = self.library.class_code(target.type_name)
        function = code.methods.get(method) if code is not None else None
        if function is None:
            return
        self.nesting = 0
        try:
            self.invoke(function, [target], {}, Frame.start(target, method))
            while self._deferred:
                later = self._deferred.popleft()
                self._body(later.function, later.bound, later.frame)
        except RecursionError:
            raise MalformedError("code that cannot be followed", where=f"{target.type_name}.{method}") from None
        finally:
            self._deferred.clear()

    def invoke(
        self, function: ast.FunctionDef, arguments: Sequence[Value], keywords: Mapping[str, Value], frame: Frame
    ) -> Value:
        """The value of a call, as far as it is known."""
        bound = self._bind(function, arguments, keywords, frame)
        if frame.owner is not None:
            self.visited.add(id(frame.owner))
        if frame.depth > _DEEPEST:
            if len(frame.trail) > _LONGEST_TRAIL or len(self._deferred) > _MOST_DEFERRED:
                raise MalformedError("calls nested beyond reason", where=function.name)
            self._deferred.append(_Invocation(function, bound, frame.at_top()))
            return UNKNOWN
        return self._body(function, bound, frame)

    def _bind(
        self, function: ast.FunctionDef, arguments: Sequence[Value], keywords: Mapping[str, Value], frame: Frame
    ) -> dict[str, Value]:
        names = [argument.arg for argument in function.args.args]
        defaults = function.args.defaults
        bound: dict[str, Value] = {}
        for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
            bound[name] = self.value(default, frame)
        bound.update(zip(names, arguments, strict=False))
        bound.update((name, value) for name, value in keywords.items() if name in names)
        return {name: bound.get(name, UNKNOWN) for name in names}

    def _body(self, function: ast.FunctionDef, bound: dict[str, Value], frame: Frame) -> Value:
        frame.scopes = [bound]
        around, self.nesting = self.nesting, 0
        self._block(function.body, frame)
        self.nesting = around
        return UNKNOWN if frame.returned is None else frame.returned

    def _block(self, body: Sequence[ast.stmt], frame: Frame) -> None:
        for statement in body:
            execute = self._executors.get(type(statement))
            if execute is not None:
                execute(statement, frame)

    def _assign(self, statement: ast.Assign, frame: Frame) -> None:
        value = self.value(statement.value, frame)
        for target in statement.targets:
            self._store(target, value, frame)

    def _annotated(self, statement: ast.AnnAssign, frame: Frame) -> None:
        if statement.value is not None:
            self._store(statement.target, self.value(statement.value, frame), frame)

    def _store(self, target: ast.expr, value: Value, frame: Frame) -> None:
        if isinstance(target, ast.Name):
            frame.scopes[-1][target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            known = isinstance(value, Items) and len(value.values) == len(target.elts)
            for index, element in enumerate(target.elts):
                self._store(element, value.values[index] if known and isinstance(value, Items) else UNKNOWN, frame)
        elif isinstance(target, ast.Attribute):
            owner = self.value(target.value, frame)
            if isinstance(owner, ScriptObject):
                self.overwritten.add((id(owner), attribute_name(target.attr)))

    def _expression(self, statement: ast.Expr, frame: Frame) -> None:
        self.value(statement.value, frame)

    def _return(self, statement: ast.Return, frame: Frame) -> None:
        value = self.value(statement.value, frame) if statement.value is not None else UNKNOWN
        frame.returned = value if frame.returned is None else join(frame.returned, value)

    def _if(self, statement: ast.If, frame: Frame) -> None:
        holds = truth(self.value(statement.test, frame))
        if holds is not None:
            self._block(statement.body if holds else statement.orelse, frame)
            return
        then = self._branch(statement.body, frame, statement, True)
        otherwise = self._branch(statement.orelse, frame, statement, False)
        for name in {**then, **otherwise}:
            before = frame.lookup(name)
            first, second = then.get(name, before), otherwise.get(name, before)
            frame.scopes[-1][name] = UNKNOWN if first is None or second is None else join(first, second)

    def _branch(self, body: Sequence[ast.stmt], frame: Frame, statement: ast.If, arm: bool) -> dict[str, Value]:
        frame.scopes.append({})
        outside = frame.branches
        frame.branches = (*outside[1 - _MOST_BRANCHES :], (id(statement), arm))
        self._block(body, frame)
        frame.branches = outside
        return frame.scopes.pop()

    def _for(self, statement: ast.For, frame: Frame) -> None:
        self.value(statement.iter, frame)
        self._loop(statement, frame)

    def _while(self, statement: ast.While, frame: Frame) -> None:
        self._loop(statement, frame)
        self.value(statement.test, frame)

    def _loop(self, statement: ast.For | ast.While, frame: Frame) -> None:
        """What the body assigns is unknown when it starts, because an earlier round may have assigned it."""
        changed = _assigned(statement)
        for name in changed:
            if frame.lookup(name) is not None:
                frame.scopes[-1][name] = UNKNOWN
        frame.scopes.append({})
        self._block(statement.body, frame)
        inside = frame.scopes.pop()
        for name in changed:
            known_before = frame.lookup(name) is not None
            frame.scopes[-1][name] = UNKNOWN if known_before else inside.get(name, UNKNOWN)

    def _with(self, statement: ast.With, frame: Frame) -> None:
        for item in statement.items:
            self.value(item.context_expr, frame)
        self._block(statement.body, frame)

    def _nested_function(self, statement: ast.FunctionDef, frame: Frame) -> None:
        """A forked function: it sees the variables around it and runs once, about here."""
        frame.scopes.append({})
        returned = frame.returned
        self._block(statement.body, frame)
        frame.returned = returned
        frame.scopes.pop()


def _assigned(loop: ast.For | ast.While) -> set[str]:
    return {node.id for node in ast.walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
