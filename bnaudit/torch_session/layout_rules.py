"""How operators that rearrange an activation move its samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import torch

from bnaudit.torch_session.layouts import WHOLE, Layout


class Derivation(NamedTuple):
    """One result of an operator, and what it came from."""

    like: Layout
    """Of the input with the most samples."""
    shape: tuple[int, ...]
    """That input's, before the operator ran."""
    output: torch.Tensor
    values: Mapping[str, Any]
    """The operator's arguments by name."""
    position: int
    """Among the results."""
    offset: int
    """Where it begins along the samples' dimension of that input, when the results are pieces of it."""
    of: Callable[[torch.Tensor], Layout | None]
    guess: Callable[[Sequence[int], Layout | None], Layout | None]


Rule = Callable[[Derivation], "Layout | None"]


def _within_samples(rule: Rule) -> Rule:
    """A rule that has nothing to say of a tensor that is one sample's and stays so."""
    return lambda case: case.like if case.like.dim == WHOLE else rule(case)


def _transposed(case: Derivation) -> Layout:
    rank = max(1, len(case.shape))
    one, other = case.values.get("dim0", 0) % rank, case.values.get("dim1", 1) % rank
    return case.like.moved({one: other, other: one}.get(case.like.dim, case.like.dim))


def _permuted(case: Derivation) -> Layout:
    return case.like.moved([dim % len(case.shape) for dim in case.values["dims"]].index(case.like.dim))


def _viewed(case: Derivation) -> Layout | None:
    """Samples keep their distance in the order of the elements; the dimension that counts them is found by it."""
    like, output = case.like, case.output
    step = prod(case.shape[like.dim + 1 :]) * like.inner
    extent = step * like.samples
    below = 1
    for dim in range(output.dim() - 1, -1, -1):
        length = output.shape[dim]
        if step >= below and below * length >= extent and (length > 1 or like.samples == 1):
            fits = step % below == 0 and (below * length) % extent == 0
            return like._replace(dim=dim, outer=below * length // extent, inner=step // below) if fits else None
        below *= length
    return None


def _unsqueezed(case: Derivation) -> Layout:
    return case.like.moved(case.like.dim + (case.values["dim"] % case.output.dim() <= case.like.dim))


def _squeezed(case: Derivation) -> Layout:
    given, rank = case.values.get("dim"), max(1, len(case.shape))
    named = range(rank) if given is None else [given] if isinstance(given, int) else given
    gone = [dim % rank for dim in named if case.shape[dim] == 1]
    dim = case.like.dim
    return case.like.whole() if dim in gone else case.like.moved(dim - sum(other < dim for other in gone))


def _selected(case: Derivation) -> Layout | None:
    dim = case.values.get("dim", 0) % len(case.shape)
    if dim != case.like.dim:
        return case.like.moved(case.like.dim - (dim < case.like.dim))
    place = case.values.get("index", case.position) % case.like.length
    return case.like.whole(case.like.start + place // case.like.inner % case.like.samples)


def _cut(case: Derivation) -> Layout | None:
    """A piece along the samples: whole batches, or some samples of one."""
    like, length = case.like, case.output.shape[case.like.dim]
    if length == like.length:
        return like
    begin = _begin(case)
    if begin is None or length == 0:
        return None
    batch = like.samples * like.inner
    if begin % batch == 0 and length % batch == 0:
        return like._replace(outer=length // batch)
    first = begin % batch
    if begin % like.inner or length % like.inner or first + length > batch:
        return None
    return like._replace(outer=1, samples=length // like.inner, start=like.start + first // like.inner)


def _begin(case: Derivation) -> int | None:
    """The place at which a piece begins; None for every second place and the like."""
    if "start" not in case.values:
        return case.offset
    if case.values.get("step", 1) != 1:
        return None
    begin: int = case.values["start"] or 0
    return begin + case.like.length if begin < 0 else min(begin, case.like.length)


def _expanded(case: Derivation) -> Layout | None:
    moved = case.like.moved(case.like.dim + case.output.dim() - len(case.shape))
    return moved if moved.fits(case.output.shape) else None


def _repeated(case: Derivation) -> Layout:
    moved = _moved_right(case)
    return moved._replace(outer=moved.outer * case.output.shape[moved.dim] // moved.length)


def _moved_right(case: Derivation) -> Layout:
    return case.like.moved(case.like.dim + case.output.dim() - len(case.shape))


def _concatenated(case: Derivation) -> Layout | None:
    tensors = [tensor for tensor in case.values["tensors"] if tensor.numel()]
    dim = case.values.get("dim", 0) % case.output.dim()
    found = [layout for tensor in tensors if (layout := case.of(tensor)) is not None]
    if len(found) == len(tensors) and all(layout.dim == WHOLE for layout in found):
        return _of_pieces(found, dim, tensors[0].shape[dim]) or case.guess(case.output.shape, case.like)
    if case.like.dim not in (dim, WHOLE):
        return case.like
    same = len(found) == len(tensors) and all(layout[0] == dim and layout.inner == found[0].inner for layout in found)
    if same and len({(layout.samples, layout.start) for layout in found}) == 1:
        return found[0]._replace(outer=sum(layout.outer for layout in found))
    if same and _in_order(found) and all(layout.outer == 1 for layout in found):
        return found[0]._replace(samples=sum(layout.samples for layout in found))
    return case.guess(case.output.shape, case.like)


def _stacked(case: Derivation) -> Layout | None:
    dim = case.values.get("dim", 0) % case.output.dim()
    found = [layout for tensor in case.values["tensors"] if (layout := case.of(tensor)) is not None]
    if case.like.dim == WHOLE:
        return _of_pieces(found, dim, 1) or case.guess(case.output.shape, case.like)
    return case.like.moved(case.like.dim + (dim <= case.like.dim))


def _of_pieces(found: list[Layout], dim: int, each: int) -> Layout | None:
    """Of tensors that are one sample's each, put one behind the other."""
    if len({layout.start for layout in found}) == 1:
        return found[0]
    return Layout(dim, len(found), 1, each, found[0].start) if _in_order(found) else None


def _in_order(found: list[Layout]) -> bool:
    """Whether each goes on where the one before ends."""
    return all(one.start + one.samples == other.start for one, other in pairwise(found))


RULES: Mapping[str, Rule] = {
    **{
        name: _within_samples(rule)
        for rule, names in {
            _transposed: ("transpose", "t"),
            _permuted: ("permute",),
            _viewed: ("view", "_unsafe_view", "_reshape_alias", "reshape"),
            _unsqueezed: ("unsqueeze",),
            _squeezed: ("squeeze",),
            _selected: ("select", "unbind"),
            _cut: ("slice", "narrow", "split", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes", "chunk"),
            _expanded: ("expand",),
            _repeated: ("repeat",),
        }.items()
        for name in names
    },
    "cat": _concatenated,
    "stack": _stacked,
}
"""By the operator's name, whatever its overload."""
