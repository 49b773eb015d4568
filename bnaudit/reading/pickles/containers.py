"""The opcodes that build tuples, lists, sets and dicts (Lib/pickletools.py)."""

from __future__ import annotations

from bnaudit.reading.pickles.stand_ins import Call, PickleDict
from bnaudit.reading.pickles.state import (
    CALL_BYTES,
    DICT_BYTES,
    IDENTITY_BYTES,
    ITEM_BYTES,
    LIST_BYTES,
    PAIR_BYTES,
    TUPLE_BYTES,
    Handler,
    PickleState,
)


def _empty_tuple(state: PickleState) -> None:
    state.stack.append(())


def _tuple(state: PickleState) -> None:
    values = state.taken()
    state.stack.append(values)


def _tuple1(state: PickleState) -> None:
    state.memory += TUPLE_BYTES
    state.stack[-1] = (state.stack[-1],)


def _tuple2(state: PickleState) -> None:
    stack = state.stack
    state.memory += TUPLE_BYTES
    second = stack.pop()
    stack[-1] = (stack[-1], second)


def _tuple3(state: PickleState) -> None:
    stack = state.stack
    state.memory += TUPLE_BYTES
    third, second = stack.pop(), stack.pop()
    stack[-1] = (stack[-1], second, third)


def _empty_list(state: PickleState) -> None:
    state.memory += LIST_BYTES
    state.stack.append([])


def _list(state: PickleState) -> None:
    values = state.above_mark()
    state.memory += LIST_BYTES + ITEM_BYTES * len(values)
    state.stack.append(values)


def _append(state: PickleState) -> None:
    value = state.stack.pop()
    target = state.stack[-1]
    if isinstance(target, list):
        state.memory += ITEM_BYTES
        target.append(value)
    else:
        _extend(state, target, [value])


def _appends(state: PickleState) -> None:
    values = state.above_mark()
    _extend(state, state.stack[-1], values)


def _extend(state: PickleState, target: object, values: list[object]) -> None:
    state.memory += ITEM_BYTES * len(values)
    if isinstance(target, list):
        target.extend(values)
    elif not state.imports.modified(target):
        _values_of(state, target).extend(values)


def _values_of(state: PickleState, target: object) -> list[object]:
    if not isinstance(target, Call):
        raise state.malformed("it appends to something that is no list")
    if target.appended is None:
        state.memory += LIST_BYTES
        target.appended = []
    return target.appended


def _empty_set(state: PickleState) -> None:
    state.memory += CALL_BYTES + LIST_BYTES
    made = Call(state.imports.builtin("set"), ())
    made.appended = []
    state.stack.append(made)


def _frozen_set(state: PickleState) -> None:
    values = state.above_mark()
    state.memory += CALL_BYTES + LIST_BYTES + ITEM_BYTES * len(values)
    made = Call(state.imports.builtin("frozenset"), ())
    made.appended = values
    state.stack.append(made)


def _empty_dict(state: PickleState) -> None:
    state.memory += DICT_BYTES
    state.stack.append(PickleDict())


def _dict(state: PickleState) -> None:
    values = state.above_mark()
    state.memory += DICT_BYTES
    made = PickleDict()
    _fill(state, made, values)
    state.stack.append(made)


def _set_item(state: PickleState) -> None:
    value, key = state.stack.pop(), state.stack.pop()
    _assign(state, state.stack[-1], [key, value])


def _set_items(state: PickleState) -> None:
    values = state.above_mark()
    _assign(state, state.stack[-1], values)


def _assign(state: PickleState, target: object, values: list[object]) -> None:
    """`target[key] = value` for keys and values in turn; a list takes it too, though no pickler writes that."""
    if isinstance(target, PickleDict):
        _fill(state, target, values)
    elif isinstance(target, list):
        _assign_to_list(state, target, values)
    elif not state.imports.modified(target):
        _fill(state, _pairs_of(state, target), values)


def _assign_to_list(state: PickleState, target: list[object], values: list[object]) -> None:
    for key, value in zip(values[::2], values[1::2], strict=False):
        if not isinstance(key, int) or not -len(target) <= key < len(target):
            raise state.malformed("it sets an item that its list does not have")
        target[key] = value


def _fill(state: PickleState, target: PickleDict, values: list[object]) -> None:
    if len(values) % 2:
        raise state.malformed("a key without a value")
    for key, value in zip(values[::2], values[1::2], strict=True):
        target[key] = value
    state.memory += (PAIR_BYTES if target.plain else PAIR_BYTES + IDENTITY_BYTES) * (len(values) // 2)


def _pairs_of(state: PickleState, target: object) -> PickleDict:
    if not isinstance(target, Call):
        raise state.malformed("it sets items of something that is no dict")
    if target.items is None:
        state.memory += DICT_BYTES
        target.items = PickleDict()
    return target.items


HANDLERS: dict[bytes, Handler] = {
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
}
