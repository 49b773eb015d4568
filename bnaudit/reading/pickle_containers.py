"""Gives the containers of every protocol one shape.

Protocol 0 writes `set([…])` as a call with a list, protocol 4 as opcodes; Python 2 writes an OrderedDict as a call with
a list of pairs, Python 3 fills an empty one. After `settle`, a dict-like Call has its pairs in `items` and a list-like
or set-like one its values in `appended`, and `copyreg`'s constructors are calls of the class itself.
"""

from __future__ import annotations

from bnaudit.reading.pickle_state import PickleState
from bnaudit.reading.stand_ins import Call, Global, PickleDict

_BUILTINS = ("builtins", "__builtin__")
_MAPPINGS = frozenset(
    [f"{module}.dict" for module in _BUILTINS]
    + [f"collections.{name}" for name in ("OrderedDict", "defaultdict", "Counter")]
)
_SEQUENCES = frozenset(
    [f"{module}.{name}" for module in _BUILTINS for name in ("set", "frozenset", "list", "tuple")]
    + ["collections.deque"]
)
_RECONSTRUCTORS = frozenset(("copyreg._reconstructor", "copy_reg._reconstructor"))
_NEW_OBJECTS = frozenset(("copyreg.__newobj__", "copy_reg.__newobj__"))
_NEW_OBJECTS_EX = frozenset(("copyreg.__newobj_ex__", "copy_reg.__newobj_ex__"))
_SETTLED = _MAPPINGS | _SEQUENCES | _RECONSTRUCTORS | _NEW_OBJECTS | _NEW_OBJECTS_EX


def settles(callee: Global) -> bool:
    """Whether calls of this global have a shape of their own."""
    return callee.full_name in _SETTLED


def settle(state: PickleState, callee: Global, args: tuple[object, ...]) -> Call:
    """The Call for `callee(*args)` in its one shape."""
    name = callee.full_name
    if name in _MAPPINGS:
        made = Call(callee, args)
        _fill(state, made, args[1:] if name == "collections.defaultdict" else args)
    elif name in _SEQUENCES:
        made = Call(callee, args)
        _fill(state, made, args[:1])
    else:
        made = _construct(state, name, args) or Call(callee, args)
    return made


def _construct(state: PickleState, name: str, args: tuple[object, ...]) -> Call | None:
    """The object that copyreg's functions make: a call of the class they are given; None: wrong arguments."""
    if name in _NEW_OBJECTS and args:
        state.imports.called(args[0], args[1:])
        return Call(args[0], args[1:])
    if name in _NEW_OBJECTS_EX and len(args) == 3:
        cls, positional, keywords = args
        if isinstance(positional, tuple) and isinstance(keywords, PickleDict):
            state.imports.called(cls, positional)
            return Call(cls, positional, keywords)
    if name in _RECONSTRUCTORS and len(args) == 3:
        cls, base, value = args
        values = () if isinstance(base, Global) and base.name == "object" else (value,)
        state.imports.called(cls, values)
        made = Call(cls, values)
        _fill(state, made, values)
        return made
    return None


def _fill(state: PickleState, made: Call, args: tuple[object, ...]) -> None:
    """Put the pairs or values that the call is given where later opcodes would put them."""
    if len(args) != 1:
        return
    (given,) = args
    if isinstance(given, PickleDict):
        state.meter.charge(state.source, len(given))
        _fill_items(made, list(given.pairs()))
    elif isinstance(given, (list, tuple)):
        state.meter.charge(state.source, len(given))
        if made.callee_name not in _MAPPINGS:
            made.appended = list(given)
        elif all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in given):
            _fill_items(made, [(pair[0], pair[1]) for pair in given if isinstance(pair, (list, tuple))])


def _fill_items(made: Call, pairs: list[tuple[object, object]]) -> None:
    made.items = PickleDict()
    for key, value in pairs:
        made.items[key] = value
