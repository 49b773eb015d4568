"""Copies of what is in a model as one value: arrays, bytearrays, random generators, slots."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from bnaudit.session import NotPossibleError
from bnaudit.torch_session.digests import digest, is_same
from bnaudit.torch_session.held_containers import MISSING, Difference
from bnaudit.torch_session.places import Held


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
