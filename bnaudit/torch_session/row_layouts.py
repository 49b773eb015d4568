"""Which elements of an activation belong to which sample, followed from operator to operator."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import torch

from bnaudit.torch_session.operators import Operator


class Layout(NamedTuple):
    """Dimension `dim` counts outer × samples × inner places: 1 × N × T where a sequence is folded into the batch,
    2 × N × 1 where two batches were concatenated."""

    dim: int
    outer: int = 1
    inner: int = 1

    @property
    def folded(self) -> bool:
        return self.outer * self.inner > 1


class RowLayouts:
    """The layouts of the tensors of one forward.

    A tensor that no rule speaks of is read by its shape: the batch axis if that has as many places as there are
    samples, another dimension of that size, then a first (or, after a one, second) dimension that is a multiple.
    """

    def __init__(self, size: int, axis: int) -> None:
        self._size = size
        self._axis = axis
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], Layout | None]] = {}

    def of(self, tensor: torch.Tensor) -> Layout | None:
        """None: no rows."""
        if tensor.is_nested:
            return None
        entry = self._known.get(id(tensor))
        if entry is not None and entry[0]() is tensor and _fits(tensor.shape, entry[1], self._size):
            return entry[1]
        return self.guess(tensor.shape)

    def guess(self, shape: Sequence[int], like: Layout | None = None) -> Layout | None:
        """By the shape alone; `like`: of the tensor that it was computed from."""
        size = self._size
        if 0 in shape:
            return None
        if self._axis < len(shape) and shape[self._axis] == size:
            return Layout(self._axis)
        exact = [dim for dim, length in enumerate(shape) if length == size]
        multiple = next((dim for dim in _leading(shape) if shape[dim] % size == 0), None)
        if exact and not (like is not None and like.folded and multiple is not None):
            return like if like is not None and like.dim in exact and not like.folded else Layout(exact[0])
        return Layout(multiple, 1, shape[multiple] // size) if multiple is not None else None

    def learn(self, known: Operator, values: Mapping[str, Any], inputs: Sequence[torch.Tensor], result: object) -> None:
        """Derive the layouts of what an operator returned. `inputs`: its tensors, parameters left out."""
        name = known.name.rpartition(".")[2]
        like, source = next(
            ((layout, tensor) for tensor in inputs if (layout := self.of(tensor)) is not None), (None, None)
        )
        outputs = list(tensors_in(result))
        if name.startswith(_COUNTED) or any(tensor.is_nested for tensor in (*inputs, *outputs)):
            self._set(outputs, [None] * len(outputs))
        elif like is None or source is None:
            if inputs:
                self._set(outputs, [None] * len(outputs))
        elif name in _RULES:
            self._set(outputs, [_RULES[name](self, values, source, like, output) for output in outputs])
        elif known.reduces:
            self._set(outputs, [_reduced(values, source, like)] * len(outputs))
        else:
            self._set(outputs, [self._same(inputs, like, output) for output in outputs])

    def _set(self, outputs: Iterable[torch.Tensor], layouts: Iterable[Layout | None]) -> None:
        for output, layout in zip(outputs, layouts, strict=True):
            self._known[id(output)] = (weakref.ref(output), layout)

    def _same(self, inputs: Iterable[torch.Tensor], like: Layout, output: torch.Tensor) -> Layout | None:
        """That of the first input with as many dimensions and as many places in the sample's."""
        for tensor in inputs:
            layout = self.of(tensor)
            if layout is None or tensor.dim() != output.dim():
                continue
            if output.shape[layout.dim] == tensor.shape[layout.dim]:
                return layout
        return self.guess(output.shape, like)


def tensors_in(tree: object) -> Iterable[torch.Tensor]:
    """The tensors among arguments or results: operators nest them in lists at most."""
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            yield from tensors_in(item)


def _leading(shape: Sequence[int]) -> range:
    """Dimensions that a batch may be folded into; instance norm folds it into the one after a one."""
    return range(1, 2) if len(shape) > 1 and shape[0] == 1 else range(min(1, len(shape)))


def _fits(shape: Sequence[int], layout: Layout | None, size: int) -> bool:
    if layout is None:
        return True
    return layout.dim < len(shape) and shape[layout.dim] == layout.outer * size * layout.inner


def _dims(values: Mapping[str, Any], rank: int) -> tuple[int, ...]:
    given = values.get("dim", values.get("dims"))
    if given is None or given == []:
        return tuple(range(rank))
    return tuple(dim % rank for dim in ([given] if isinstance(given, int) else given)) if rank else ()


def _reduced(values: Mapping[str, Any], source: torch.Tensor, like: Layout) -> Layout | None:
    gone = _dims(values, source.dim())
    if like.dim in gone:
        return None
    return like if values.get("keepdim") else like._replace(dim=like.dim - sum(dim < like.dim for dim in gone))


def _transposed(
    layouts: RowLayouts, values: Mapping[str, Any], source: torch.Tensor, like: Layout, output: torch.Tensor
) -> Layout | None:
    rank = source.dim()
    one, other = values.get("dim0", 0) % max(rank, 1), values.get("dim1", rank - 1) % max(rank, 1)
    return like._replace(dim={one: other, other: one}.get(like.dim, like.dim))


def _permuted(
    layouts: RowLayouts, values: Mapping[str, Any], source: torch.Tensor, like: Layout, output: torch.Tensor
) -> Layout | None:
    return like._replace(dim=[dim % source.dim() for dim in values["dims"]].index(like.dim))


def _viewed(
    layouts: RowLayouts, values: Mapping[str, Any], source: torch.Tensor, like: Layout, output: torch.Tensor
) -> Layout | None:
    """Samples keep their distance in the order of the elements; the dimension that counts them is found by it."""
    step = prod(source.shape[like.dim + 1 :]) * like.inner
    extent = step * layouts._size
    below = 1
    for dim in range(output.dim() - 1, -1, -1):
        length = output.shape[dim]
        if length > 1 and step >= below and below * length >= extent:
            fits = step % below == 0 and (below * length) % extent == 0
            return Layout(dim, below * length // extent, step // below) if fits else None
        below *= length
    return layouts.guess(output.shape, like) if layouts._size == 1 else None


def _unsqueezed(
    layouts: RowLayouts, values: Mapping[str, Any], source: torch.Tensor, like: Layout, output: torch.Tensor
) -> Layout | None:
    return like._replace(dim=like.dim + (values["dim"] % output.dim() <= like.dim))


def _squeezed(
    layouts: RowLayouts, values: Mapping[str, Any], source: torch.Tensor, like: Layout, output: torch.Tensor
) -> Layout | None:
    gone = [dim for dim in _dims(values, source.dim()) if source.shape[dim] == 1]
    return None if like.dim in gone else like._replace(dim=like.dim - sum(dim < like.dim for dim in gone))


def _selected(
    layouts: RowLayouts, values: Mapping[str, Any], source: torch.Tensor, like: Layout, output: torch.Tensor
) -> Layout | None:
    dim = values.get("dim", 0) % source.dim()
    return None if dim == like.dim else like._replace(dim=like.dim - (dim < like.dim))


def _cut(
    layouts: RowLayouts, values: Mapping[str, Any], source: torch.Tensor, like: Layout, output: torch.Tensor
) -> Layout | None:
    """A piece along the samples has rows only when it holds all of them as often as it is long."""
    length = output.shape[like.dim]
    if length == source.shape[like.dim]:
        return like
    whole = layouts._size * like.inner
    contiguous = values.get("step", 1) == 1 and (values.get("start") or 0) % whole == 0
    return like._replace(outer=length // whole) if length and length % whole == 0 and contiguous else None


def _expanded(
    layouts: RowLayouts, values: Mapping[str, Any], source: torch.Tensor, like: Layout, output: torch.Tensor
) -> Layout | None:
    moved = like._replace(dim=like.dim + output.dim() - source.dim())
    return moved if output.shape[moved.dim] == source.shape[like.dim] else None


def _concatenated(
    layouts: RowLayouts, values: Mapping[str, Any], source: torch.Tensor, like: Layout, output: torch.Tensor
) -> Layout | None:
    if values.get("dim", 0) % output.dim() != like.dim:
        return like
    tensors = values["tensors"]
    found = [layouts.of(tensor) for tensor in tensors]
    if any(layout is None or layout.dim != like.dim or layout.inner != like.inner for layout in found):
        return None
    return like._replace(outer=sum(layout.outer for layout in found if layout is not None))


def _stacked(
    layouts: RowLayouts, values: Mapping[str, Any], source: torch.Tensor, like: Layout, output: torch.Tensor
) -> Layout | None:
    return like._replace(dim=like.dim + (values.get("dim", 0) % output.dim() <= like.dim))


def _repeated(
    layouts: RowLayouts, values: Mapping[str, Any], source: torch.Tensor, like: Layout, output: torch.Tensor
) -> Layout | None:
    dim = like.dim + output.dim() - source.dim()
    return Layout(dim, like.outer * output.shape[dim] // source.shape[like.dim], like.inner)


_COUNTED = ("nonzero", "masked_select", "unique", "_unique", "bincount", "as_strided", "unfold", "diagonal")
"""What they return has as many places as the data say, or overlaps: never rows."""
_RULES = {
    "transpose": _transposed,
    "t": _transposed,
    "permute": _permuted,
    **dict.fromkeys(("view", "_unsafe_view", "_reshape_alias", "reshape"), _viewed),
    "unsqueeze": _unsqueezed,
    "squeeze": _squeezed,
    "select": _selected,
    "unbind": _selected,
    "slice": _cut,
    "narrow": _cut,
    **dict.fromkeys(("split", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes", "chunk"), _cut),
    "expand": _expanded,
    "cat": _concatenated,
    "stack": _stacked,
    "repeat": _repeated,
}
