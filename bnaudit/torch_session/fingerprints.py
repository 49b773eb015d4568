"""Fingerprints of samples' rows in activations: 64 bits, equal for equal bits, and another when values are permuted."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence

import torch

from bnaudit.torch_session.layouts import WHOLE, Layout

_BLOCK = 2048
"""32-bit words that one weighted sum covers."""
_AT_ONCE = 128
"""Blocks that are widened to 64 bits at a time, so that a row costs no more memory than this."""
_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_KEPT = 64


class Fingerprints:
    """Of the anchors' rows, each tensor's taken once while it is neither freed nor written to."""

    def __init__(self, anchors: Sequence[int]) -> None:
        self._anchors = tuple(anchors)
        self._index: dict[tuple[torch.device, int, int], torch.Tensor] = {}
        self._kept: dict[int, tuple[weakref.ref[torch.Tensor], int, Layout, tuple[int, ...]]] = {}

    def rows(self, tensor: torch.Tensor, layout: Layout) -> tuple[int, ...]:
        """One per anchor, 0 for those that the tensor does not hold."""
        version = -1 if tensor.is_inference() else tensor._version
        kept = self._kept.get(id(tensor))
        if kept is not None and kept[0]() is tensor and kept[1:3] == (version, layout):
            return kept[3]
        found = self._of_anchors(tensor, layout)
        if version >= 0:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            self._kept[id(tensor)] = (weakref.ref(tensor), version, layout, found)
        return found

    def forget(self, tensors: Iterable[torch.Tensor]) -> None:
        """They were written to by the operator that is running: their version is raised only when it returns."""
        for tensor in tensors:
            self._kept.pop(id(tensor), None)

    def whole(self, tensor: torch.Tensor) -> int:
        """Of all its elements."""
        plain = as_plain(tensor)
        return 0 if plain is None else fingerprint(plain.reshape(1, -1))[0]

    def _of_anchors(self, tensor: torch.Tensor, layout: Layout) -> tuple[int, ...]:
        held = self.held(layout)
        plain = as_plain(tensor) if held else None
        if plain is None:
            return (0,) * len(self._anchors)
        found = fingerprint(self._selected(plain, layout, held))
        return tuple(found[held.index(anchor)] if anchor in held else 0 for anchor in self._anchors)

    def _selected(self, tensor: torch.Tensor, layout: Layout, held: list[int]) -> torch.Tensor:
        """The rows of these anchors, (anchors, values)."""
        if layout.dim == WHOLE:
            return tensor.reshape(1, -1)
        tensor, dim, index = self.places(tensor, layout, held)
        return tensor.index_select(dim, index).movedim(dim, 0).reshape(len(held), -1)

    def held(self, layout: Layout) -> list[int]:
        """The anchors of which a tensor of this layout has rows."""
        return [anchor for anchor in self._anchors if layout.start <= anchor < layout.start + layout.samples]

    def places(self, tensor: torch.Tensor, layout: Layout, held: list[int]) -> tuple[torch.Tensor, int, torch.Tensor]:
        """Where these anchors stand: a view of the tensor, the dimension, their places in it."""
        dim = layout.dim
        if layout.is_folded:
            tensor = unfolded(tensor, dim, (layout.outer, layout.samples, layout.inner))
            dim += 1
        key = (tensor.device, layout.start, layout.samples)
        index = self._index.get(key)
        if index is None:
            index = torch.tensor([anchor - layout.start for anchor in held], device=tensor.device)
            self._index[key] = index
        return tensor, dim, index


def as_plain(tensor: torch.Tensor) -> torch.Tensor | None:
    """Memory of real numbers; None for what has none that can be read (meta, sparse, nested, foreign subclasses).

    Complex dimensions become a last dimension of two.
    """
    if tensor.is_meta or tensor.is_nested or type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return None
    tensor = tensor.detach()
    if tensor.layout is torch._mkldnn:  # type: ignore[attr-defined]
        tensor = tensor.to_dense()
    if tensor.layout is not torch.strided:
        return None
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.resolve_neg()


def fingerprint(rows: torch.Tensor) -> tuple[int, ...]:
    """One for each row of a (rows, values) tensor: a sum of its 32-bit words, each times an odd number that belongs to
    its place, modulo 2⁶⁴, in blocks whose sums are mixed before they are weighted in turn.

    32-bit words stand in the lower half, so that a change of the upper bits alone (a sign) keeps 32 bits of weight.
    """
    words = _words(rows)
    count, length = words.shape
    whole = length // _BLOCK * _BLOCK
    total = weighted(words[:, whole:], odd_weights(_BLOCK, words.device))
    if whole:
        blocks = unfolded(words[:, :whole], 1, (-1, _BLOCK))
        sums = torch.cat([_block_sums(part) for row in blocks for part in row.split(_AT_ONCE)])
        sums = sums.view(count, -1)
        total = total * _GOLDEN_SIGNED + (_mixed(sums) * odd_weights(sums.shape[1], sums.device)).sum(1)
    return tuple(number & _MASK for number in _mixed(total).tolist())


def combined(numbers: Iterable[int]) -> int:
    """One number for several, whose order matters."""
    total = 0
    for number in numbers:
        total = ((total ^ number) * _GOLDEN + 1) & _MASK
        total ^= total >> 29
    return total


def unfolded(tensor: torch.Tensor, dim: int, sizes: tuple[int, ...]) -> torch.Tensor:
    """The tensor with one dimension seen as several; a view."""
    return tensor.view(*tensor.shape[:dim], *sizes, *tensor.shape[dim + 1 :])


_GOLDEN_SIGNED = _GOLDEN - (1 << 64)
_weight_tables: dict[torch.device, torch.Tensor] = {}


def _words(rows: torch.Tensor) -> torch.Tensor:
    """The same bits as 32-bit integers, (rows, words); a last word is filled up with zeros."""
    raw = rows.contiguous()
    raw = raw.as_strided(raw.shape, (raw.shape[1], 1))  # a dimension of one may have any stride, which view() refuses
    width = raw.element_size()
    if width < 4:
        raw = raw.view(torch.int16 if width == 2 else torch.uint8)
        missing = -raw.shape[1] % (4 // width)
        if missing:
            raw = torch.cat([raw, raw.new_zeros(raw.shape[0], missing)], 1)
    return raw.view(torch.int32) if raw.shape[1] else raw.new_zeros((raw.shape[0], 0), dtype=torch.int32)


def _block_sums(blocks: torch.Tensor) -> torch.Tensor:
    return weighted(blocks, odd_weights(_BLOCK, blocks.device))


def weighted(words: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Σ word × weight of each row; a product of integer matrices exists on the CPU alone."""
    weights = weights[: words.shape[1]]
    wide = words.to(torch.int64)
    return wide.mv(weights) if wide.device.type == "cpu" else (wide * weights).sum(1)


def _mixed(sums: torch.Tensor) -> torch.Tensor:
    return (sums ^ (sums >> 29)) * _GOLDEN_SIGNED


def odd_weights(count: int, device: torch.device) -> torch.Tensor:
    """Odd numbers of 64 bits, drawn from a generator of their own: the model's is not touched."""
    table = _weight_tables.get(device)
    if table is None or len(table) < count:
        generator = torch.Generator().manual_seed(20150211)
        drawn = torch.randint(-(1 << 62), 1 << 62, (max(count, 2 * _BLOCK),), generator=generator, dtype=torch.int64)
        table = _weight_tables[device] = (drawn * 2 + 1).to(device)
    return table[:count]
