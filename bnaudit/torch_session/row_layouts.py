"""Which elements of an activation belong to which sample, followed from operator to operator."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch

from bnaudit.torch_session.layout_rules import RULES, Derivation
from bnaudit.torch_session.layouts import WHOLE, Layout
from bnaudit.torch_session.operators import Operator

_COUNTED = ("nonzero", "masked_select", "unique", "_unique", "bincount", "as_strided", "unfold", "diagonal")
"""What they return has as many places as the data say, or overlaps: never rows."""


class Placed(NamedTuple):
    """A tensor's layout and shape at one moment."""

    layout: Layout | None
    shape: tuple[int, ...]


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
        if entry is not None and entry[0]() is tensor and (entry[1] is None or entry[1].fits(tensor.shape)):
            return entry[1]
        return self.guess(tensor.shape)

    def guess(self, shape: Sequence[int], like: Layout | None = None) -> Layout | None:
        """By the shape alone; `like`: of the tensor that it was computed from."""
        size = self._size
        if 0 in shape:
            return None
        if self._axis < len(shape) and shape[self._axis] == size:
            return Layout(self._axis, size)
        exact = [dim for dim, length in enumerate(shape) if length == size]
        multiple = next((dim for dim in _leading(shape) if shape[dim] % size == 0), None)
        if exact and not (like is not None and like.is_folded and multiple is not None):
            return Layout(like.dim if like is not None and like.dim in exact else exact[0], size)
        return Layout(multiple, size, 1, shape[multiple] // size) if multiple is not None else None

    def promised(self, tensor: torch.Tensor) -> Layout | None:
        """The layout of a tensor whose batch axis has as many places as there are samples."""
        fits = not tensor.is_nested and self._axis < tensor.dim() and tensor.shape[self._axis] == self._size
        return Layout(self._axis, self._size) if fits else None

    def placed(self, tensor: torch.Tensor) -> Placed:
        """A tensor's layout and shape as they are now: an operator may change both."""
        return Placed(self.of(tensor), () if tensor.is_nested else tuple(tensor.shape))

    def learn(self, known: Operator, values: Mapping[str, Any], inputs: Sequence[Placed], result: object) -> None:
        """Derive the layouts of what an operator returned. `inputs`: its tensors before it, parameters left out."""
        outputs = list(tensors_in(result))
        if inputs and outputs:
            self._set(outputs, self._derived(known, values, inputs, outputs))

    def _derived(
        self, known: Operator, values: Mapping[str, Any], inputs: Sequence[Placed], outputs: list[torch.Tensor]
    ) -> list[Layout | None]:
        name = known.name.rpartition(".")[2]
        found = [(placed.layout, placed.shape) for placed in inputs if placed.layout is not None]
        if not found or any(output.is_nested for output in outputs) or name.startswith(_COUNTED):
            return [None] * len(outputs)
        like, shape = max(found, key=lambda entry: entry[0].samples)  # the first of those with most samples
        rule = RULES.get(name.rstrip("_") if known.is_view else name)
        if rule is not None:
            offsets = self._offsets(outputs, like)
            return [
                rule(Derivation(like, shape, output, values, position, offsets[position], self.of, self.guess))
                for position, output in enumerate(outputs)
            ]
        if known.reduces:
            return [_reduced(values, shape, like)] * len(outputs)
        return [self._same(found, like, output) for output in outputs]

    def _offsets(self, outputs: list[torch.Tensor], like: Layout) -> list[int]:
        """Where each of several pieces begins along the samples' dimension."""
        if len(outputs) == 1 or like.dim == WHOLE:
            return [0] * len(outputs)
        lengths = [output.shape[like.dim] if like.dim < output.dim() else 1 for output in outputs]
        return [0, *accumulate(lengths)][: len(outputs)]

    def _set(self, outputs: Iterable[torch.Tensor], layouts: Iterable[Layout | None]) -> None:
        for output, layout in zip(outputs, layouts, strict=True):
            self._known[id(output)] = (weakref.ref(output), layout)

    def _same(self, found: list[tuple[Layout, tuple[int, ...]]], like: Layout, output: torch.Tensor) -> Layout | None:
        """That of an input with as many dimensions and as many places in the samples', most samples first."""
        if like.dim == WHOLE:
            return like
        for layout, shape in sorted(found, key=lambda entry: -entry[0].samples):
            if layout.dim == WHOLE or len(shape) != output.dim():
                continue
            if output.shape[layout.dim] == shape[layout.dim]:
                return layout
        return self.guess(output.shape, like) if like.samples == self._size else None


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


def _reduced(values: Mapping[str, Any], shape: Sequence[int], like: Layout) -> Layout | None:
    given = values.get("dim")
    if like.dim == WHOLE:
        return like
    rank = max(1, len(shape))
    named = [given] if isinstance(given, int) else given or range(rank)
    gone = [dim % rank for dim in named]
    if like.dim in gone:
        return like.whole() if like.samples == 1 else None
    return like if values.get("keepdim") else like.moved(like.dim - sum(dim < like.dim for dim in gone))
