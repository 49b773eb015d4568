"""Turns the pickle machine's stand-ins back into Python values, so that tests can compare them with the originals."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from typing import Any

from bnaudit.reading.pickles.stand_ins import Call, Global, LazyBytes, PickleDict

_MAPPINGS: dict[str, Any] = {
    "OrderedDict": OrderedDict,
    "dict": dict,
    "defaultdict": lambda pairs: defaultdict(list, pairs),
}
_SEQUENCES: dict[str, Any] = {"set": set, "frozenset": frozenset, "deque": deque, "list": list}


def python_value(value: object) -> Any:
    """The Python value that a stand-in stands for; containers and plain values only."""
    if isinstance(value, PickleDict):
        return {python_value(key): python_value(item) for key, item in value.pairs()}
    if isinstance(value, (tuple, list)):
        return type(value)(python_value(item) for item in value)
    if isinstance(value, LazyBytes):
        raw = value.read()
        return raw.decode("utf-8", "surrogatepass") if value.text else raw
    if not isinstance(value, Call):
        return value
    assert isinstance(value.callee, Global)
    name = value.callee.name
    if name in _MAPPINGS:
        items = [] if value.items is None else list(value.items.pairs())
        return _MAPPINGS[name]((python_value(key), python_value(item)) for key, item in items)
    if name in _SEQUENCES:
        return _SEQUENCES[name](python_value(item) for item in value.appended or [])
    if name == "complex":
        return complex(*value.args)
    raise AssertionError(f"no Python value for {value.callee.full_name}")
