"""What is inside pickled objects, and how Python would write the way to it: `encoder.norms[2]`."""

from __future__ import annotations

from bnaudit.reading.modules.objects import PickledModule, pairs_of
from bnaudit.reading.pickles.stand_ins import Call, PickleDict

_LONGEST_PATH = 300
_MOST_STEPS = 300
_INERT = ("torch._utils.", "torch._tensor.", "torch.storage.", "torch.Size", "numpy.")
"""Calls that make tensors and arrays: nothing but numbers is inside."""
_HOLDING = (Call, list, tuple, PickleDict)
_GETATTR = ("builtins.getattr", "__builtin__.getattr")
_PARTIAL = "functools.partial"


class Place:
    """Where an object was met. The path is written out only for what is found."""

    __slots__ = ("parent", "prefix", "suffix", "value")

    def __init__(self, parent: Place | None, prefix: str, suffix: str, value: object) -> None:
        self.parent = parent
        self.prefix = prefix
        self.suffix = suffix
        self.value = value

    def written(self) -> str:
        """The path; of a very long one only the end, after an ellipsis."""
        before, after, place = "", "", self
        for _ in range(_MOST_STEPS):
            before, after = before + place.prefix, place.suffix + after
            if len(before) + len(after) > _LONGEST_PATH:
                break
            if place.parent is None:
                return before + after.removeprefix(".")
            place = place.parent
        return f"…{after[-_LONGEST_PATH:]}"


def inside_module(place: Place, module: PickledModule, *, children: bool) -> list[Place]:
    """What a module's attributes hold; its registered modules only with `children`."""
    found: list[Place] = []
    for key, value in module.attributes.pairs():
        if key == "_modules":
            if children:
                found += _attributes(place, value)
        elif key not in ("_parameters", "_buffers"):
            found += _kept(place, "", f".{key}" if isinstance(key, str) else "", value)
    return found


def breadth(value: object) -> int:
    """How many objects stand directly in another that may hold something themselves: at most these become places."""
    if isinstance(value, (list, tuple)):
        return sum(isinstance(item, _HOLDING) for item in value)
    if isinstance(value, PickleDict):
        keys = 0 if value.plain else len(value)
        return keys + sum(isinstance(item, _HOLDING) for _, item in value.pairs())
    if isinstance(value, Call):
        state = value.state if isinstance(value.state, tuple) else (value.state,)
        return sum(map(breadth, (value.args, value.kwargs, value.appended, value.items, *state)))
    return 0


def inside(place: Place) -> list[Place]:
    """What a container or an object that is no module holds."""
    value = place.value
    if isinstance(value, (list, tuple)):
        return _values(place, value)
    if isinstance(value, PickleDict):
        return _entries(place, value)
    if not isinstance(value, Call):
        return []
    found = _kept(place, "", "", value.callee)
    found += _arguments(place, value)
    found += _attributes(place, value.kwargs)
    if value.appended is not None:
        found += _values(place, value.appended, unordered=value.callee_name.endswith(("set", "Set")))
    if value.items is not None:
        found += _entries(place, value.items)
    return found + _state(place, value)


def _arguments(place: Place, call: Call) -> list[Place]:
    if call.callee_name in _GETATTR:
        return _kept(place, "", ".__self__", call.args[0] if call.args else None)
    if call.callee_name == _PARTIAL:
        return _kept(place, "", ".func", call.args[0] if call.args else None)
    if call.appended is not None or call.items is not None:
        return []  # what a set or dict was made from is already in it
    return _values(place, call.args)


def _state(place: Place, call: Call) -> list[Place]:
    """What BUILD gives: the attributes, or those and the slots; partial's is (func, args, keywords, attributes)."""
    state = call.state
    if call.callee_name == _PARTIAL and isinstance(state, tuple) and len(state) == 4:
        named = zip((".func", ".args", ".keywords", ""), state, strict=True)
        return [kept for suffix, value in named for kept in _kept(place, "", suffix, value)]
    if isinstance(state, tuple) and all(part is None or isinstance(part, PickleDict) for part in state):
        return [kept for part in state for kept in _attributes(place, part)]
    if isinstance(state, PickleDict):
        return _attributes(place, state)
    return _kept(place, "", "", state)


def _attributes(place: Place, attributes: object) -> list[Place]:
    found: list[Place] = []
    for key, value in pairs_of(attributes):
        found += _kept(place, "", f".{key}" if isinstance(key, str) else "", value)
    return found


def _values(place: Place, values: list[object] | tuple[object, ...], *, unordered: bool = False) -> list[Place]:
    before, after = ("list(", ")") if unordered else ("", "")
    found: list[Place] = []
    for index, value in enumerate(values):
        found += _kept(place, before, f"{after}[{index}]", value)
    return found


def _entries(place: Place, entries: PickleDict) -> list[Place]:
    found: list[Place] = []
    for index, (key, value) in enumerate(entries.pairs()):
        if isinstance(key, (str, int, float, bytes)) or key is None:
            found += _kept(place, "", f"[{key!r}]", value)
        else:
            found += _kept(place, "list(", f".values())[{index}]", value)
            found += _kept(place, "list(", f")[{index}]", key)
    return found


def _kept(place: Place, prefix: str, suffix: str, value: object) -> list[Place]:
    """A place for what may hold modules, none for numbers, texts, names, tensors and what is empty."""
    if isinstance(value, (list, tuple, PickleDict)):
        return [Place(place, prefix, suffix, value)] if len(value) else []
    if not isinstance(value, Call) or value.callee_name.startswith(_INERT):
        return []
    empty = value.callee_name == "collections.OrderedDict" and value.items is None and value.state is None
    return [] if empty else [Place(place, prefix, suffix, value)]
