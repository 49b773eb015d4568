"""Copies of what containers in a model hold: dicts, lists, sets, the attributes of objects."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from operator import is_
from typing import Any, NamedTuple, Protocol

from bnaudit.torch_session.digests import is_same
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


def _plain(key: object) -> bool:
    return isinstance(key, (str, int, float, bytes, bool)) or key is None
