"""The opcodes that import names, call them and give objects their state (Lib/pickletools.py)."""

from __future__ import annotations

from bnaudit.reading.pickles.normal_forms import is_special, normal_form
from bnaudit.reading.pickles.stand_ins import Call, Global, PersistentId, PickleDict
from bnaudit.reading.pickles.state import (
    CALL_BYTES,
    DICT_BYTES,
    IDENTITY_BYTES,
    PAIR_BYTES,
    Handler,
    PickleState,
    text_bytes,
)

_LONGEST_NAME = 4096
_OF_SCRIPT = "__torch__."
_PERSISTENT_BYTES = 60


def _global(state: PickleState) -> None:
    module, name = state.line(_LONGEST_NAME), state.line(_LONGEST_NAME)
    state.stack.append(_named(state, module, name))


def _named(state: PickleState, module: bytes, name: bytes) -> Global:
    try:
        return state.imports.named(module.decode(), name.decode())
    except UnicodeDecodeError:
        raise state.malformed("an import whose name is not UTF-8") from None


def _stack_global(state: PickleState) -> None:
    name, module = state.stack.pop(), state.stack.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise state.malformed("an import whose name is no text")
    state.stack.append(state.imports.named(module, name))


def _extension(state: PickleState) -> None:
    raise state.malformed("an extension code, which only the program that wrote it can resolve")


def _reduce(state: PickleState) -> None:
    """A member of an enum class in TorchScript is a call with the bare value (torch/csrc/jit/serialization/pickler.cpp
    of 2.x pushes the class, the value and REDUCE); its classes alone are called `__torch__…`."""
    args, callee = state.stack.pop(), state.stack[-1]
    if not isinstance(args, tuple) and isinstance(callee, Global) and callee.full_name.startswith(_OF_SCRIPT):
        args = (args,)
    state.stack[-1] = _call(state, callee, args)


def _new_object_ex(state: PickleState) -> None:
    keywords, args = state.stack.pop(), state.stack.pop()
    if not isinstance(keywords, PickleDict):
        raise state.malformed("keyword arguments that are no dict")
    made = _call(state, state.stack[-1], args)
    state.imports.handed_on(value for _, value in keywords.pairs())
    if isinstance(made, Call):
        made.kwargs = keywords
    state.stack[-1] = made


def _inst(state: PickleState) -> None:
    callee = _named(state, state.line(_LONGEST_NAME), state.line(_LONGEST_NAME))
    args = state.taken()
    state.stack.append(_call(state, callee, args))


def _obj(state: PickleState) -> None:
    values = state.taken()
    if not values:
        raise state.malformed("an object without a class")
    state.stack.append(_call(state, values[0], values[1:]))


def _call(state: PickleState, callee: object, args: object) -> object:
    if not isinstance(args, tuple):
        raise state.malformed("arguments that are no tuple")
    state.memory += CALL_BYTES
    state.imports.called(callee, args)
    if isinstance(callee, Global) and is_special(callee):
        return normal_form(state, callee, args)
    return Call(callee, args)


def _build(state: PickleState) -> None:
    """Give the object its state. A second dict is merged into the first, as updating `__dict__` would.

    A global takes one, too: unpickling would set attributes of the class or call its `__setstate__`.
    """
    given, target = state.stack.pop(), state.stack[-1]
    if isinstance(given, tuple):
        state.imports.handed_on(given)
    if state.imports.modified(target):
        return
    if not isinstance(target, Call):
        if given:  # unpickling ignores an empty state
            raise state.malformed("a state for something that is no object")
    elif isinstance(given, PickleDict) and isinstance(target.state, PickleDict):
        size = len(given) + len(target.state)
        state.memory += DICT_BYTES + (PAIR_BYTES + IDENTITY_BYTES) * size
        state.charge(size)
        merged = PickleDict()
        for key, value in [*target.state.pairs(), *given.pairs()]:
            merged[key] = value
        target.state = merged
    else:
        target.state = given


def _pers_id(state: PickleState) -> None:
    line = state.line(_LONGEST_NAME)
    state.memory += text_bytes(line)
    state.stack.append(_persistent(state, line.decode("latin-1")))


def _bin_pers_id(state: PickleState) -> None:
    """`('module', class, file, source)` is torch's way to carry a class with its source: it stands for the class."""
    pid = state.stack[-1]
    carries_class = isinstance(pid, tuple) and len(pid) >= 2 and pid[0] == "module" and isinstance(pid[1], Global)
    state.stack[-1] = pid[1] if carries_class and isinstance(pid, tuple) else _persistent(state, pid)


def _persistent(state: PickleState, pid: object) -> PersistentId:
    state.memory += _PERSISTENT_BYTES
    made = PersistentId(pid)
    state.persistent_ids.append(made)
    return made


HANDLERS: dict[bytes, Handler] = {
    b"c": _global,
    b"\x93": _stack_global,
    b"\x82": _extension,
    b"\x83": _extension,
    b"\x84": _extension,
    b"R": _reduce,
    b"\x81": _reduce,
    b"\x92": _new_object_ex,
    b"i": _inst,
    b"o": _obj,
    b"b": _build,
    b"P": _pers_id,
    b"Q": _bin_pers_id,
}
