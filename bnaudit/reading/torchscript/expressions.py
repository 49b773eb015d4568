"""What is known of an expression in TorchScript code; the operators met on the way are recorded."""

from __future__ import annotations

import ast
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bnaudit.errors import CapExceededError, MalformedError
from bnaudit.reading.torchscript.builtins import evaluate
from bnaudit.reading.torchscript.code import CodeLibrary
from bnaudit.reading.torchscript.frames import Frame
from bnaudit.reading.torchscript.objects import ScriptObject
from bnaudit.reading.torchscript.operator_call import OperatorCall
from bnaudit.reading.torchscript.operators import argument_names, short_operator, signature
from bnaudit.reading.torchscript.source import attribute_name
from bnaudit.reading.torchscript.values import (
    UNKNOWN,
    Items,
    Known,
    Named,
    OneOf,
    Value,
    constant_value,
    join,
    stored_value,
    truth,
)

_NUMBERS = {"inf": math.inf, "nan": math.nan}
_DEEPEST = 60
"""Expressions within expressions; TorchScript breaks them up after a few."""
_CUSTOM = "__torch__.torch.classes."
_RECORD = 20
"""What a recorded call costs, in expressions."""


class Expressions(ABC):
    """The expression half of the interpreter.

    `calls` are the operators reached that have a signature, `operators` counts all, `visited` holds the identities of
    the objects whose methods were followed, `flags_read` those whose training flag was asked for, `overwritten` the
    attributes that were assigned on the way.
    """

    def __init__(self, library: CodeLibrary, constants: Sequence[Value], training: bool, nodes: int) -> None:
        self.library = library
        self.calls: list[OperatorCall] = []
        self.operators = 0
        self.visited: set[int] = set()
        self.overwritten: set[tuple[int, str]] = set()
        self.flags_read: set[int] = set()
        self._constants = constants
        self._training = training
        self._nodes = nodes
        self._steps = 0
        self.nesting = 0
        self._evaluators: dict[type[ast.expr], Callable[[Any, Frame], Value]] = {
            ast.Name: self._variable,
            ast.Attribute: self._dotted,
            ast.Call: self._call,
            ast.Constant: self._literal,
            ast.Tuple: self._sequence,
            ast.List: self._sequence,
            ast.Subscript: self._subscript,
            ast.UnaryOp: self._unary,
            ast.IfExp: self._choice,
        }

    @abstractmethod
    def invoke(
        self, function: ast.FunctionDef, arguments: Sequence[Value], keywords: Mapping[str, Value], frame: Frame
    ) -> Value:
        """Follow a call."""

    def value(self, node: ast.expr, frame: Frame) -> Value:
        """What is known of an expression.

        Raises MalformedError when it is nested beyond reason, CapExceededError above the cap on steps.
        """
        self._step(1)
        self.nesting += 1
        if self.nesting > _DEEPEST:
            raise MalformedError("an expression nested beyond reason", where=f"{frame.method} of {_type_of(frame)}")
        found = self._evaluators.get(type(node), self._other)(node, frame)
        self.nesting -= 1
        return found

    def _step(self, cost: int) -> None:
        self._steps += cost
        if self._steps > self._nodes:
            raise CapExceededError(f"code of more than {self._nodes} steps", where="TorchScript", cap="graph_nodes")

    def _variable(self, node: ast.Name, frame: Frame) -> Value:
        found = frame.lookup(node.id)
        if found is not None:
            return found
        return Known(_NUMBERS[node.id]) if node.id in _NUMBERS else Named(node.id)

    def _dotted(self, node: ast.Attribute, frame: Frame) -> Value:
        return self._attribute(self.value(node.value, frame), attribute_name(node.attr))

    def _literal(self, node: ast.Constant, frame: Frame) -> Value:
        return constant_value(node.value)

    def _sequence(self, node: ast.Tuple | ast.List, frame: Frame) -> Value:
        return Items([self.value(element, frame) for element in node.elts])

    def _other(self, node: ast.expr, frame: Frame) -> Value:
        """An expression that is not understood may hold calls that matter."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child, frame)
        return UNKNOWN

    def _attribute(self, base: Value, name: str) -> Value:
        if isinstance(base, ScriptObject):
            return self._member(base, name)
        if not isinstance(base, Named):
            return UNKNOWN
        if base.name == "CONSTANTS":
            digits = name[1:]
            index = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else len(self._constants)
            return self._constants[index] if index < len(self._constants) else UNKNOWN
        return Named(f"{base.name}.{name}")

    def _member(self, owner: ScriptObject, name: str) -> Value:
        """An attribute of an object: as stored, unless some method assigns it."""
        if name == "training" and isinstance(owner.attributes.get(name), bool):
            self.flags_read.add(id(owner))
            return Known(self._training)
        code = self.library.class_code(owner.type_name)
        if (id(owner), name) in self.overwritten or (code is not None and name in code.written):
            return UNKNOWN
        if name in owner.attributes:
            return stored_value(owner, name, owner.attributes[name])
        return constant_value(code.constants[name]) if code is not None and name in code.constants else UNKNOWN

    def _subscript(self, node: ast.Subscript, frame: Frame) -> Value:
        base, index = self.value(node.value, frame), self.value(node.slice, frame)
        position = index.value if isinstance(index, Known) else None
        if not isinstance(position, int):
            return _any_child(base) if isinstance(base, ScriptObject) else UNKNOWN
        if isinstance(base, Items) and -len(base.values) <= position < len(base.values):
            return base.values[position]
        return self._member(base, str(position)) if isinstance(base, ScriptObject) else UNKNOWN

    def _unary(self, node: ast.UnaryOp, frame: Frame) -> Value:
        operand = self.value(node.operand, frame)
        if isinstance(operand, Known) and isinstance(node.op, ast.USub) and isinstance(operand.value, (int, float)):
            return Known(-operand.value)
        holds = truth(operand)
        return Known(not holds) if isinstance(node.op, ast.Not) and holds is not None else UNKNOWN

    def _choice(self, node: ast.IfExp, frame: Frame) -> Value:
        holds = truth(self.value(node.test, frame))
        if holds is not None:
            return self.value(node.body if holds else node.orelse, frame)
        return join(self.value(node.body, frame), self.value(node.orelse, frame))

    def _call(self, node: ast.Call, frame: Frame) -> Value:
        if isinstance(node.func, ast.Attribute):
            base = self.value(node.func.value, frame)
            if isinstance(base, (ScriptObject, OneOf)):
                return self._method(base, attribute_name(node.func.attr), node, frame)
            callee = self._attribute(base, attribute_name(node.func.attr))
        else:
            callee = self.value(node.func, frame)
        arguments = [self.value(argument, frame) for argument in node.args]
        keywords = {word.arg: self.value(word.value, frame) for word in node.keywords if word.arg is not None}
        if not isinstance(callee, Named):
            return UNKNOWN
        if callee.name == "getattr" and len(arguments) == 2:
            name = arguments[1]
            return self._attribute(arguments[0], str(name.value)) if isinstance(name, Known) else UNKNOWN
        if callee.name.startswith("__torch__."):
            return self._function(callee.name, arguments, keywords, frame.inner(frame.owner, frame.method, id(node)))
        self._record(callee.name, arguments, keywords, node, frame)
        return evaluate(callee.name, arguments)

    def _function(self, name: str, arguments: list[Value], keywords: dict[str, Value], frame: Frame) -> Value:
        function = self.library.function(name)
        if function is not None:
            return self.invoke(function, arguments, keywords, frame)
        if not name.startswith(_CUSTOM):
            self.library.require(name)
        return UNKNOWN

    def _method(self, base: ScriptObject | OneOf, name: str, node: ast.Call, frame: Frame) -> Value:
        arguments: list[Value] = [self.value(argument, frame) for argument in node.args]
        keywords = {word.arg: self.value(word.value, frame) for word in node.keywords if word.arg is not None}
        results = []
        for number, owner in enumerate([base] if isinstance(base, ScriptObject) else base.objects):
            code = self.library.class_code(owner.type_name)
            function = code.methods.get(name) if code is not None else None
            if function is not None:
                place = hash((id(node), number)) if number else id(node)
                results.append(self.invoke(function, [owner, *arguments], keywords, frame.inner(owner, name, place)))
        return results[0] if len(results) == 1 else UNKNOWN

    def _record(
        self, name: str, arguments: list[Value], keywords: dict[str, Value], node: ast.Call, frame: Frame
    ) -> None:
        operator = short_operator(name)
        if not operator:
            return
        self.operators += 1
        found = signature(operator)
        if found is not None:
            fourth = arguments[3] if len(arguments) > 3 else UNKNOWN
            is_flag = isinstance(fourth, Known) and isinstance(fourth.value, bool)
            names = argument_names(operator, found, is_flag)
            named = dict(zip(names, arguments, strict=False)) | keywords
            self._step(_RECORD)
            self.calls.append(OperatorCall(operator, found, named, frame, id(node)))


def _any_child(owner: ScriptObject) -> Value:
    children = [value for value in owner.attributes.values() if isinstance(value, ScriptObject)]
    return OneOf(children) if children else UNKNOWN


def _type_of(frame: Frame) -> str:
    return frame.owner.class_name if frame.owner is not None else "a function"
