"""Copies of what Python objects in a model hold: dicts, lists, sets, arrays, generators, attributes of scripts."""

from __future__ import annotations

import random
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from operator import is_
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from bnaudit.session import NotPossibleError
from bnaudit.torch_session.digests import digest, is_same
from bnaudit.torch_session.places import Held


class Difference(NamedTuple):
    """One entry that is another object than before. `old` and `new` are MISSING where there is none."""

    suffix: str
    old: object
    new: object
    held: Held | None = None
    """Whose entry it is, where it is not the container's."""


class _Missing:
    """Stands for an entry that is not there."""


MISSING = _Missing()


class Container(Protocol):
    """Something whose contents are kept."""

    held: Held

    def is_changed(self) -> bool:
        """Whether it holds other objects than it did."""

    def differences(self) -> Iterator[Difference]:
        """What is other in it."""

    def restore(self) -> None:
        """Put the same objects back."""


class HeldDict:
    """A dict: also the attributes of an object, and a module's parameters, buffers, children and hooks."""

    __slots__ = ("_items", "_keys", "_target", "_values", "attributes", "held")

    def __init__(self, target: dict[Any, Any], held: Held, *, attributes: bool = False) -> None:
        self._target = target
        self._keys = list(dict.keys(target)) if not isinstance(target, OrderedDict) else list(target)
        self._values = [dict.__getitem__(target, key) for key in self._keys]
        self._items = list(zip(self._keys, self._values, strict=True))
        self.held = held
        self.attributes = attributes
        """Keys are names that follow a dot."""

    def is_changed(self) -> bool:
        """Whether a key or the object under a key is another, or their order."""
        target = self._target
        if len(target) == len(self._keys) and all(map(is_, dict.values(target), self._values)):
            return not all(map(is_, target, self._keys)) and list(target) != self._keys
        keys = list(dict.keys(target))
        return keys != self._keys or not all(map(is_same, self._values, dict.values(target)))

    def differences(self) -> Iterator[Difference]:
        old = {_token(key): (key, value) for key, value in self._items}
        new = {_token(key): (key, value) for key, value in dict.items(self._target)}
        for token in dict.fromkeys((*old, *new)):
            before, after = old.get(token), new.get(token)
            key = (before or after or ("", None))[0]
            values = (before[1] if before else MISSING, after[1] if after else MISSING)
            if not is_same(*values):
                yield Difference(f".{key}" if self.attributes else f"[{key!r}]" if _plain(key) else "[…]", *values)

    def restore(self) -> None:
        """Key by key: a module whose attributes are all gone for a moment would not survive Ctrl-C in that moment."""
        target, kept = self._target, set(map(_token, self._keys))
        for key in [key for key in target if _token(key) not in kept]:
            del target[key]
        for key, value in self._items:
            if key not in target or dict.__getitem__(target, key) is not value:
                _put(target, key, value)
        if list(target) != self._keys:
            target.clear()
            for key, value in self._items:
                _put(target, key, value)


def _put(target: dict[Any, Any], key: object, value: object) -> None:
    """As dict itself does it, whatever a subclass makes of it."""
    (OrderedDict if isinstance(target, OrderedDict) else dict).__setitem__(target, key, value)


def _token(key: object) -> object:
    return key if _plain(key) else id(key)


class HeldSequence:
    """A list or deque."""

    __slots__ = ("_items", "_target", "held")

    def __init__(self, target: list[Any] | deque[Any], held: Held) -> None:
        self._target = target
        self._items = tuple(target)
        self.held = held

    def is_changed(self) -> bool:
        if len(self._target) != len(self._items):
            return True
        if all(map(is_, self._items, self._target)):
            return False
        return not all(map(is_same, self._items, self._target))

    def differences(self) -> Iterator[Difference]:
        now = tuple(self._target)
        for index in range(max(len(now), len(self._items))):
            old = self._items[index] if index < len(self._items) else MISSING
            new = now[index] if index < len(now) else MISSING
            if not is_same(old, new):
                yield Difference(f"[{index}]", old, new)

    def restore(self) -> None:
        if isinstance(self._target, list):
            list.__setitem__(self._target, slice(None), self._items)
        else:
            self._target.clear()
            self._target.extend(self._items)


class HeldSet:
    """A set."""

    __slots__ = ("_items", "_target", "held")

    def __init__(self, target: set[Any], held: Held) -> None:
        self._target = target
        self._items = frozenset(target)
        self.held = held

    def is_changed(self) -> bool:
        return self._target != self._items

    def differences(self) -> Iterator[Difference]:
        yield Difference("", self._items, frozenset(self._target))

    def restore(self) -> None:
        self._target.clear()
        self._target.update(self._items)


Empty = tuple[Any, Held, str]
"""A dict or set, whose it is, and as which attribute ("": its entries are attributes themselves)."""


class HeldEmpties:
    """Many dicts and sets with nothing in them, looked at together."""

    __slots__ = ("_all", "_targets", "held")

    def __init__(self, empties: list[Empty]) -> None:
        self._all = empties
        self._targets = [target for target, _, _ in empties]
        self.held = Held("", "attribute", "")

    def is_changed(self) -> bool:
        return any(self._targets)

    def differences(self) -> Iterator[Difference]:
        for target, held, key in self._all:
            for name in target:
                suffix = f".{key}[{name!r}]" if key else f".{name}"
                yield Difference(held.entry(suffix), MISSING, target[name] if isinstance(target, dict) else name, held)

    def restore(self) -> None:
        for target in self._targets:
            if target:
                target.clear()


class HeldValue:
    """Anything whose state is read and set as one value: arrays, bytearrays, random generators, slots."""

    __slots__ = ("_old", "_read", "_write", "held")

    def __init__(self, held: Held, read: Callable[[], Any], write: Callable[[Any], object]) -> None:
        self.held = held
        self._read = read
        self._write = write
        self._old = read()

    def is_changed(self) -> bool:
        new = self._read()
        return not is_same(self._old, new) and digest(self._old) != digest(new)

    def differences(self) -> Iterator[Difference]:
        yield Difference("", self._old, self._read())

    def restore(self) -> None:
        self._write(self._old)


class HeldArray:
    """The contents of an array of numbers."""

    __slots__ = ("_old", "_target", "held")

    def __init__(self, target: np.ndarray[Any, Any], held: Held) -> None:
        self._target = target
        self._old = target.copy()
        self.held = held

    def is_changed(self) -> bool:
        old, new = self._old, self._target
        if old.shape != new.shape or old.dtype != new.dtype:
            return True
        if new.flags.c_contiguous and old.flags.c_contiguous:
            return not np.array_equal(_raw(old), _raw(new))
        return bool(old.tobytes() != new.tobytes())

    def differences(self) -> Iterator[Difference]:
        yield Difference("", self._old, self._target)

    def restore(self) -> None:
        target, old = self._target, self._old
        if target.shape != old.shape or target.dtype != old.dtype:
            raise NotPossibleError(f"the model gave the array {self.held.path} another shape, which cannot be undone")
        writeable = target.flags.writeable
        target.setflags(write=True)
        target[...] = old
        target.setflags(write=writeable)


def _raw(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.reshape(-1).view(np.uint8)


def held_bytes(array: bytearray, held: Held) -> HeldValue:
    """The contents of a bytearray."""
    return HeldValue(held, lambda: bytes(array), lambda old: array.__setitem__(slice(None), old))


def held_generator(generator: object, held: Held) -> HeldValue | None:
    """The state of a random generator that an object holds, None when it is none."""
    if isinstance(generator, random.Random) and not isinstance(generator, random.SystemRandom):
        return HeldValue(held, generator.getstate, generator.setstate)
    if isinstance(generator, np.random.Generator):
        source = generator.bit_generator
        return HeldValue(held, lambda: source.state, lambda old: setattr(source, "state", old))
    if isinstance(generator, np.random.RandomState):
        return HeldValue(held, lambda: generator.get_state(legacy=False), generator.set_state)
    if isinstance(generator, torch.Generator):
        return HeldValue(held, generator.get_state, generator.set_state)
    return None


def held_slot(owner: object, name: str, held: Held) -> HeldValue:
    """An attribute in a slot."""

    def write(old: object) -> None:
        if old is MISSING:
            delattr(owner, name)
        else:
            object.__setattr__(owner, name, old)

    return HeldValue(held, lambda: getattr(owner, name, MISSING), write)


def _plain(key: object) -> bool:
    return isinstance(key, (str, int, float, bytes, bool)) or key is None
