"""What is known of an expression in TorchScript code; the operators met on the way are recorded."""

from __future__ import annotations

import ast
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from bnaudit.errors import CapExceededError, MalformedError
from bnaudit.reading.tensor_refs import TensorRef
from bnaudit.reading.torchscript_builtins import evaluate
from bnaudit.reading.torchscript_code import CodeLibrary
from bnaudit.reading.torchscript_frames import Branches, Frame
from bnaudit.reading.torchscript_objects import ScriptObject
from bnaudit.reading.torchscript_operators import Signature, argument_names, short_operator, signature
from bnaudit.reading.torchscript_source import attribute_name
from bnaudit.reading.torchscript_values import UNKNOWN, Items, Known, Named, StoredValue, Value, join, truth

_NUMBERS = {"inf": math.inf, "nan": math.nan}
_DEEPEST = 60
"""Expressions within expressions; TorchScript breaks them up after a few."""
_RECORD = 20
"""What a recorded call costs, in expressions."""


class OperatorCall:
    """One operator that the code reaches, with what is known of its arguments by name."""

    __slots__ = ("arguments", "branches", "method", "operator", "owner", "signature", "trail")

    def __init__(self, operator: str, found: Signature, arguments: dict[str, Value], frame: Frame, place: int) -> None:
        self.operator = operator
        self.signature = found
        self.arguments = arguments
        self.owner = frame.owner
        self.method = frame.method
        self.branches: Branches = frame.branches
        self.trail = (*frame.trail, place)

    def known(self, argument: str) -> Known | None:
        """An argument whose plain value is known."""
        found = self.arguments.get(argument)
        return found if isinstance(found, Known) else None

    def stored(self, argument: str) -> StoredValue | None:
        """An argument that is a stored tensor."""
        found = self.arguments.get(argument)
        return found if isinstance(found, StoredValue) else None


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
        found = self._value(node, frame)
        self.nesting -= 1
        return found

    def _step(self, cost: int) -> None:
        self._steps += cost
        if self._steps > self._nodes:
            raise CapExceededError(f"code of more than {self._nodes} steps", where="TorchScript", cap="graph_nodes")

    def _value(self, node: ast.expr, frame: Frame) -> Value:
        if isinstance(node, ast.Name):
            return self._name(node.id, frame)
        if isinstance(node, ast.Attribute):
            return self._attribute(self.value(node.value, frame), attribute_name(node.attr))
        if isinstance(node, ast.Call):
            return self._call(node, frame)
        if isinstance(node, ast.Constant):
            return (
                Known(node.value) if node.value is None or isinstance(node.value, (bool, int, float, str)) else UNKNOWN
            )
        if isinstance(node, (ast.Tuple, ast.List)):
            return Items([self.value(element, frame) for element in node.elts])
        if isinstance(node, ast.Subscript):
            return self._subscript(self.value(node.value, frame), self.value(node.slice, frame))
        if isinstance(node, ast.UnaryOp):
            return self._unary(node, frame)
        if isinstance(node, ast.IfExp):
            return self._choice(node, frame)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child, frame)
        return UNKNOWN

    def _name(self, name: str, frame: Frame) -> Value:
        found = frame.lookup(name)
        if found is not None:
            return found
        return Known(_NUMBERS[name]) if name in _NUMBERS else Named(name)

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

    def _subscript(self, base: Value, index: Value) -> Value:
        position = index.value if isinstance(index, Known) else None
        if not isinstance(position, int):
            return UNKNOWN
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
            if isinstance(base, ScriptObject):
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
            function = self.library.function(callee.name)
            inner = frame.inner(frame.owner, frame.method, id(node))
            return UNKNOWN if function is None else self.invoke(function, arguments, keywords, inner)
        self._record(callee.name, arguments, keywords, node, frame)
        return evaluate(callee.name, arguments)

    def _method(self, owner: ScriptObject, name: str, node: ast.Call, frame: Frame) -> Value:
        arguments: list[Value] = [owner, *(self.value(argument, frame) for argument in node.args)]
        keywords = {word.arg: self.value(word.value, frame) for word in node.keywords if word.arg is not None}
        code = self.library.class_code(owner.type_name)
        function = code.methods.get(name) if code is not None else None
        if function is None:
            return UNKNOWN
        return self.invoke(function, arguments, keywords, frame.inner(owner, name, id(node)))

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


def _type_of(frame: Frame) -> str:
    return frame.owner.class_name if frame.owner is not None else "a function"


def constant_value(value: object) -> Value:
    """A literal of the code as a value."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return Known(value)
    if isinstance(value, (tuple, list)):
        return Items([constant_value(item) for item in value])
    return UNKNOWN


def stored_value(owner: ScriptObject | None, name: str, value: object) -> Value:
    """What data.pkl or constants.pkl holds, as a value; `name` is the attribute, or the name of the constant."""
    if isinstance(value, ScriptObject):
        return value
    if isinstance(value, TensorRef):
        return StoredValue(owner.name_of(name) if owner is not None else name, value, owner, name)
    if isinstance(value, list):
        return Items([stored_value(owner, f"{name}[{index}]", item) for index, item in enumerate(value)])
    return constant_value(value)
