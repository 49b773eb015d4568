"""Fingerprints of values by their bits: equal for equal values, whatever objects hold them."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from zlib import crc32

import numpy as np
import torch

from bnaudit.torch_session.fingerprints import odd_weights, weighted
from bnaudit.torch_session.tensors import bits

PLAIN = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), torch.dtype, torch.device, torch.Size)
"""Immutable values without anything inside."""
_DEEPEST = 16
_WIDEST = 10_000
_CHUNK = 1 << 12
_AT_ONCE = 1024
"""Chunks that are folded at a time, in memory of their own."""
_HIGH = 47
_MIX = 0x9E3779B97F4A7C15
_MASK = (1 << 63) - 1


def is_same(old: object, new: object) -> bool:
    """Whether two values are one object or plain values with equal bits (NaN is NaN, 0.0 is not -0.0)."""
    if old is new:
        return True
    return type(old) is type(new) and isinstance(old, PLAIN) and repr(old) == repr(new)


def digest(value: object) -> int:
    """A number of 63 bits for a value: tensors and arrays by their bits, containers by their items, objects by their
    attributes. Cyclic and very deep values are cut off, which makes unequal ones equal and never the reverse."""
    return _digest(value, 0)


def _digest(value: object, depth: int) -> int:
    if isinstance(value, torch.Tensor):
        return tensor_digest(value)
    if isinstance(value, np.ndarray):
        raw = value.tobytes() if value.dtype.kind != "O" else b""
        return _combined((_text(f"{value.dtype}{value.shape}"), crc32(raw)))
    if isinstance(value, PLAIN):
        return _text(f"{type(value).__name__}{value!r}")
    if depth > _DEEPEST:
        return 1
    name = _text(type(value).__qualname__)
    if isinstance(value, Mapping):
        items = [(_digest(key, depth + 1), _digest(item, depth + 1)) for key, item in list(value.items())[:_WIDEST]]
        return _combined((name, len(value), *(number for pair in items for number in pair)))
    if isinstance(value, (list, tuple, deque)):
        return _combined((name, len(value), *(_digest(item, depth + 1) for item in list(value)[:_WIDEST])))
    if isinstance(value, (set, frozenset)):
        return _combined((name, *sorted(_digest(item, depth + 1) for item in value)))
    if isinstance(value, random.Random):
        return _text(repr(value.getstate()))
    if isinstance(value, np.random.Generator):
        return _text(repr(value.bit_generator.state))
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict) and not isinstance(value, (type, torch.nn.Module)):
        return _combined((name, _digest(attributes, depth + 1)))
    return name


def tensor_digest(tensor: torch.Tensor) -> int:
    """Of dtype, shape and bits. Two passes' worth of sums: over chunks, weighted within and between them."""
    head = _text(f"{tensor.dtype}{tuple(tensor.shape)}")
    if not has_bits(tensor):
        return head
    with torch.no_grad():
        return _combined((head, _sum(bits(tensor.detach()).contiguous().view(-1))))


def _sum(flat: torch.Tensor) -> int:
    """A sum of integers in which the order matters, modulo 2⁶³."""
    if flat.element_size() < 8:
        whole = flat.numel() * flat.element_size() // 8 * 8 // flat.element_size()
        tail = flat[whole:].long()
        flat = torch.cat([flat[:whole].view(torch.int64), tail]) if tail.numel() else flat.view(torch.int64)
    if flat.numel() > _CHUNK:
        whole = flat.numel() // _CHUNK * _CHUNK
        pieces = torch.split(flat[:whole].view(-1, _CHUNK), _AT_ONCE)
        chunks = [weighted(_folded(piece), odd_weights(_CHUNK, flat.device)) for piece in pieces]
        flat = torch.cat([*chunks, flat[whole:]])
    folded = _folded(flat.view(1, -1))
    return int(weighted(folded, odd_weights(flat.numel(), flat.device))) & _MASK


def _folded(words: torch.Tensor) -> torch.Tensor:
    """Upper bits mixed into the lowest ones, reversibly.

    In a product modulo 2⁶⁴ the uppermost bit, a sign, keeps one bit of weight wherever it stands: two would cancel.
    """
    upper = (words >> _HIGH).bitwise_and_((1 << (64 - _HIGH)) - 1)
    return upper.bitwise_xor_(words)


def has_bits(tensor: torch.Tensor) -> bool:
    """Whether a tensor is plain memory: strided, on a device, not quantized, no subclass with a layout of its own."""
    return (
        tensor.layout is torch.strided
        and not tensor.is_quantized
        and not tensor.is_meta
        and not torch.nn.parameter.is_lazy(tensor)
        and type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__
        and tensor.element_size() in (1, 2, 4, 8, 16)
    )


def _text(text: str) -> int:
    data = text.encode("utf-8", "backslashreplace")
    return crc32(data) << 31 ^ crc32(data[::-1])


def _combined(numbers: tuple[int, ...]) -> int:
    total = len(numbers)
    for number in numbers:
        total = ((total ^ number) * _MIX + 1) & _MASK
    return total
