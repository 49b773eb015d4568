"""The opcodes that build containers and objects, use the memo and import names (Lib/pickletools.py)."""

from __future__ import annotations

from struct import Struct

from bnaudit.errors import CapExceededError
from bnaudit.reading.pickle_normal_forms import is_special, normal_form
from bnaudit.reading.pickle_state import Handler, PickleState
from bnaudit.reading.stand_ins import Call, Global, PersistentId, PickleDict

_LONGEST_NAME = 4096
_DICT_UNITS, _CALL_UNITS, _IMPORT_UNITS = 3, 2, 8
_uint32 = Struct("<I").unpack_from


class Stopped(Exception):
    """STOP was reached."""


def _stop(state: PickleState) -> None:
    raise Stopped


def _mark(state: PickleState) -> None:
    if len(state.marks) >= state.source.caps.pickle_depth:
        raise CapExceededError("a pickle nested too deeply", where=state.source.name, cap="pickle_depth")
    state.marks.append(state.stack)
    state.stack = []


def _pop(state: PickleState) -> None:
    if state.stack:
        state.stack.pop()
    else:
        state.above_mark()


def _pop_mark(state: PickleState) -> None:
    state.above_mark()


def _dup(state: PickleState) -> None:
    state.stack.append(state.stack[-1])


# Containers


def _empty_tuple(state: PickleState) -> None:
    state.stack.append(())


def _tuple(state: PickleState) -> None:
    values = tuple(state.above_mark())
    state.units += 1
    state.stack.append(values)


def _tuple1(state: PickleState) -> None:
    state.units += 1
    state.stack[-1] = (state.stack[-1],)


def _tuple2(state: PickleState) -> None:
    stack = state.stack
    state.units += 1
    second = stack.pop()
    stack[-1] = (stack[-1], second)


def _tuple3(state: PickleState) -> None:
    stack = state.stack
    state.units += 1
    third, second = stack.pop(), stack.pop()
    stack[-1] = (stack[-1], second, third)


def _empty_list(state: PickleState) -> None:
    state.units += 1
    state.stack.append([])


def _list(state: PickleState) -> None:
    values = state.above_mark()
    state.units += 1
    state.stack.append(values)


def _append(state: PickleState) -> None:
    value = state.stack.pop()
    _values_of(state, state.stack[-1]).append(value)


def _appends(state: PickleState) -> None:
    values = state.above_mark()
    _values_of(state, state.stack[-1]).extend(values)


def _values_of(state: PickleState, target: object) -> list[object]:
    if isinstance(target, list):
        return target
    if not isinstance(target, Call):
        raise state.malformed("it appends to something that is no list")
    if target.appended is None:
        state.units += 1
        target.appended = []
    return target.appended


def _empty_set(state: PickleState) -> None:
    state.units += _CALL_UNITS
    made = Call(state.imports.builtin("set"), ())
    made.appended = []
    state.stack.append(made)


def _frozen_set(state: PickleState) -> None:
    values = state.above_mark()
    state.units += _CALL_UNITS
    made = Call(state.imports.builtin("frozenset"), ())
    made.appended = values
    state.stack.append(made)


def _empty_dict(state: PickleState) -> None:
    state.units += _DICT_UNITS
    state.stack.append(PickleDict())


def _dict(state: PickleState) -> None:
    values = state.above_mark()
    state.units += _DICT_UNITS
    made = PickleDict()
    _fill(state, made, values)
    state.stack.append(made)


def _set_item(state: PickleState) -> None:
    value, key = state.stack.pop(), state.stack.pop()
    state.units += 1
    _pairs_of(state, state.stack[-1])[key] = value


def _set_items(state: PickleState) -> None:
    values = state.above_mark()
    _fill(state, _pairs_of(state, state.stack[-1]), values)


def _fill(state: PickleState, target: PickleDict, values: list[object]) -> None:
    if len(values) % 2:
        raise state.malformed("a key without a value")
    state.units += len(values) // 2
    for key, value in zip(values[::2], values[1::2], strict=True):
        target[key] = value


def _pairs_of(state: PickleState, target: object) -> PickleDict:
    if isinstance(target, PickleDict):
        return target
    if not isinstance(target, Call):
        raise state.malformed("it sets items of something that is no dict")
    if target.items is None:
        state.units += _DICT_UNITS
        target.items = PickleDict()
    return target.items


# Memo


def _get(state: PickleState) -> None:
    state.stack.append(state.memo[_memo_index(state)])


def _bin_get(state: PickleState) -> None:
    state.stack.append(state.memo[state.data[state.pos]])
    state.pos += 1


def _long_bin_get(state: PickleState) -> None:
    state.stack.append(state.memo[_uint32(state.data, state.pos)[0]])
    state.pos += 4


def _put(state: PickleState) -> None:
    state.units += 1
    state.memo[_memo_index(state)] = state.stack[-1]


def _bin_put(state: PickleState) -> None:
    state.units += 1
    state.memo[state.data[state.pos]] = state.stack[-1]
    state.pos += 1


def _long_bin_put(state: PickleState) -> None:
    state.units += 1
    state.memo[_uint32(state.data, state.pos)[0]] = state.stack[-1]
    state.pos += 4


def _memoize(state: PickleState) -> None:
    state.units += 1
    state.memo[len(state.memo)] = state.stack[-1]


def _memo_index(state: PickleState) -> int:
    line = state.line(_LONGEST_NAME)
    if not line.isdigit() or len(line) > 20:
        raise state.malformed("a memo index that is none")
    return int(line)


# Names, calls and states


def _global(state: PickleState) -> None:
    module, name = state.line(_LONGEST_NAME), state.line(_LONGEST_NAME)
    state.stack.append(_named(state, module, name))


def _named(state: PickleState, module: bytes, name: bytes) -> Global:
    state.units += _IMPORT_UNITS
    try:
        return state.imports.named(module.decode(), name.decode())
    except UnicodeDecodeError:
        raise state.malformed("an import whose name is not UTF-8") from None


def _stack_global(state: PickleState) -> None:
    name, module = state.stack.pop(), state.stack.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise state.malformed("an import whose name is no text")
    state.units += _IMPORT_UNITS
    state.stack.append(state.imports.named(module, name))


def _extension(state: PickleState) -> None:
    raise state.malformed("an extension code, which only the program that wrote it can resolve")


def _reduce(state: PickleState) -> None:
    args = state.stack.pop()
    state.stack[-1] = _call(state, state.stack[-1], args)


def _new_object_ex(state: PickleState) -> None:
    keywords, args = state.stack.pop(), state.stack.pop()
    if not isinstance(keywords, PickleDict):
        raise state.malformed("keyword arguments that are no dict")
    made = _call(state, state.stack[-1], args)
    if isinstance(made, Call):
        made.kwargs = keywords
    state.stack[-1] = made


def _inst(state: PickleState) -> None:
    callee = _named(state, state.line(_LONGEST_NAME), state.line(_LONGEST_NAME))
    args = tuple(state.above_mark())
    state.stack.append(_call(state, callee, args))


def _obj(state: PickleState) -> None:
    values = state.above_mark()
    if not values:
        raise state.malformed("an object without a class")
    state.stack.append(_call(state, values[0], tuple(values[1:])))


def _call(state: PickleState, callee: object, args: object) -> object:
    if not isinstance(args, tuple):
        raise state.malformed("arguments that are no tuple")
    state.units += _CALL_UNITS
    state.imports.called(callee, args)
    if isinstance(callee, Global) and is_special(callee):
        return normal_form(state, callee, args)
    return Call(callee, args)


def _build(state: PickleState) -> None:
    """Give the object its state. A second dict is merged into the first, as updating `__dict__` would."""
    given, target = state.stack.pop(), state.stack[-1]
    if isinstance(target, Global):
        state.imports.called(target, (given,))
    elif not isinstance(target, Call):
        raise state.malformed("a state for something that is no object")
    elif isinstance(given, PickleDict) and isinstance(target.state, PickleDict):
        state.meter.charge(state.source, len(given) + len(target.state))
        merged = PickleDict()
        for key, value in [*target.state.pairs(), *given.pairs()]:
            merged[key] = value
        target.state = merged
    else:
        target.state = given


def _pers_id(state: PickleState) -> None:
    line = state.line(_LONGEST_NAME)
    state.stack.append(_persistent(state, line.decode("latin-1")))


def _bin_pers_id(state: PickleState) -> None:
    """`('module', class, file, source)` is torch's way to carry a class with its source: it stands for the class."""
    pid = state.stack[-1]
    carries_class = isinstance(pid, tuple) and len(pid) >= 2 and pid[0] == "module" and isinstance(pid[1], Global)
    state.stack[-1] = pid[1] if carries_class and isinstance(pid, tuple) else _persistent(state, pid)


def _persistent(state: PickleState, pid: object) -> PersistentId:
    state.units += 1
    made = PersistentId(pid)
    state.persistent_ids.append(made)
    return made


HANDLERS: dict[bytes, Handler] = {
    b".": _stop,
    b"(": _mark,
    b"0": _pop,
    b"1": _pop_mark,
    b"2": _dup,
    b")": _empty_tuple,
    b"t": _tuple,
    b"\x85": _tuple1,
    b"\x86": _tuple2,
    b"\x87": _tuple3,
    b"]": _empty_list,
    b"l": _list,
    b"a": _append,
    b"e": _appends,
    b"\x8f": _empty_set,
    b"\x90": _appends,
    b"\x91": _frozen_set,
    b"}": _empty_dict,
    b"d": _dict,
    b"s": _set_item,
    b"u": _set_items,
    b"g": _get,
    b"h": _bin_get,
    b"j": _long_bin_get,
    b"p": _put,
    b"q": _bin_put,
    b"r": _long_bin_put,
    b"\x94": _memoize,
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
