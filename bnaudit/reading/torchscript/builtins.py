"""The few functions of TorchScript code whose results are worked out: conditions, casts, and views of the input."""

from __future__ import annotations

import operator
from collections.abc import Callable

from bnaudit.reading.torchscript.values import ONE_SAMPLE, UNKNOWN, Computed, Items, Known, Value, is_none, truth

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "torch.eq": operator.eq,
    "torch.ne": operator.ne,
    "torch.lt": operator.lt,
    "torch.le": operator.le,
    "torch.gt": operator.gt,
    "torch.ge": operator.ge,
}
_RESHAPES = ("torch.view", "torch.reshape", "torch._unsafe_view")
_KEEPS_SHAPE = frozenset(
    f"torch.{name}" for name in ("to", "contiguous", "float", "half", "double", "type_as", "clone", "detach", "alias")
)


def evaluate(name: str, arguments: list[Value]) -> Value:
    """The value of a function of known arguments, UNKNOWN where it depends on more than they tell."""
    if name in ("annotate", "unchecked_cast") and len(arguments) == 2:
        return arguments[1]
    if len(arguments) == 2 and name in _COMPARISONS:
        return _compare(_COMPARISONS[name], *arguments)
    if len(arguments) == 2 and name in ("torch.__is__", "torch.__isnot__"):
        return _identity(name == "torch.__is__", *arguments)
    if len(arguments) == 1 and name in ("torch.__not__", "bool"):
        holds = truth(arguments[0])
        return UNKNOWN if holds is None else Known(holds is (name == "bool"))
    if len(arguments) == 2 and name in ("torch.__and__", "torch.__or__"):
        return _logic(name == "torch.__or__", *arguments)
    return _view(name, arguments)


def _compare(test: Callable[[float, float], bool], first: Value, second: Value) -> Value:
    if not isinstance(first, Known) or not isinstance(second, Known):
        return UNKNOWN
    left, right = first.value, second.value
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return Known(test(left, right))
    if isinstance(left, str) and isinstance(right, str) and test in (operator.eq, operator.ne):
        return Known((left == right) is (test is operator.eq))
    return UNKNOWN


def _identity(wanted: bool, first: Value, second: Value) -> Value:
    for one, other in ((first, second), (second, first)):
        if isinstance(other, Known) and other.value is None:
            none = is_none(one)
            return UNKNOWN if none is None else Known(none is wanted)
    return UNKNOWN


def _logic(decisive: bool, first: Value, second: Value) -> Value:
    """`and` is decided by one False, `or` by one True."""
    sides = [truth(first), truth(second)]
    if decisive in sides:
        return Known(decisive)
    return UNKNOWN if None in sides else Known(not decisive)


def _view(name: str, arguments: list[Value]) -> Value:
    if not arguments:
        return UNKNOWN
    if name in _RESHAPES and len(arguments) > 1:
        shape = arguments[1]
        return ONE_SAMPLE if isinstance(shape, Items) and shape.values and _is_number(shape.values[0], 1) else UNKNOWN
    if name == "torch.unsqueeze" and len(arguments) == 2:
        return ONE_SAMPLE if _is_number(arguments[1], 0) else UNKNOWN
    first = arguments[0]
    return first if name in _KEEPS_SHAPE and isinstance(first, Computed) else UNKNOWN


def _is_number(value: Value, wanted: int) -> bool:
    return isinstance(value, Known) and type(value.value) is int and value.value == wanted
