"""The anchors' rows of inner values, taken in one run and put in place of those of another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from bnaudit.onnx_session.copies import Copy
from bnaudit.onnx_session.layouts import Layout
from bnaudit.session import Batch, Pinned

_DTYPES = {
    np.dtype(kind): helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    for kind in (np.float32, np.float64, np.int32, np.int64, np.uint8)
}
"""That onnxruntime's Where takes."""


class Pin(NamedTuple):
    """One value whose rows are given."""

    number: int
    """Of the node that computes it."""
    name: str
    values: NDArray[Any]
    """Of the other run, whole."""
    mask: NDArray[np.bool_]
    """True in the anchors' rows."""

    @property
    def form(self) -> tuple[int, str, int, int]:
        """Number, name, type and rank: what makes the copy of the graph."""
        return self.number, self.name, _DTYPES[self.values.dtype], self.values.ndim


def taken(
    pin: Iterable[Pinned],
    nodes: Sequence[onnx.NodeProto],
    values: Mapping[str, NDArray[Any]],
    found: Mapping[str, Layout | None],
) -> Iterator[Pinned]:
    """What was to be pinned, with the values of this run; without nodes whose rows cannot be put in place."""
    for each in pin:
        names = with_rows(nodes[each.index], found)
        rows = each.rows or tuple(values[name] for name in names if name in values)
        if names and len(rows) == len(names) and all(row.dtype in _DTYPES for row in rows):
            yield Pinned(index=each.index, rows=rows)


def pins(
    pin: Iterable[Pinned], nodes: Sequence[onnx.NodeProto], found: Mapping[str, Layout | None], batch: Batch
) -> tuple[Pin, ...]:
    """The values with their rows."""
    return tuple(
        Pin(each.index, name, np.asarray(values), _mask(np.shape(values), layout, batch))
        for each in pin
        for name, values in zip(with_rows(nodes[each.index], found), each.rows, strict=False)
        if (layout := found.get(name)) is not None
    )


def with_rows(node: onnx.NodeProto, found: Mapping[str, Layout | None]) -> list[str]:
    """The values of a node that have rows."""
    return [name for name in node.output if found.get(name) is not None]


def put_in_place(copy: Copy, form: tuple[int, str, int, int]) -> tuple[tuple[str, str], str]:
    """Let everything behind a value see it with rows that are given as inputs.

    Returns the names of these (values, mask), and the one that the node's own result now has.
    """
    number, name, dtype, rank = form
    node = copy.original(number)
    own = copy.fresh("own")
    node.output[list(node.output).index(name)] = own
    given = copy.take_in("rows", dtype, [None] * rank)
    mask = copy.take_in("mask", onnx.TensorProto.BOOL, [None] * rank)
    copy.place(number + 1, helper.make_node("Where", [mask, given, own], [name], name=copy.fresh("Where")))
    return (given, mask), own


def _mask(shape: tuple[int, ...], layout: Layout, batch: Batch) -> NDArray[np.bool_]:
    mask = np.zeros(shape, np.bool_)
    for anchor in batch.anchors:
        mask[layout.place(anchor, batch.size)] = True
    return mask
