"""OperatorCalls of a graph: every inner value is handed out and its rows are fingerprinted.

Where the rows stand is found by running the graph with one sample more; a graph with a fixed batch leaves only the size
of an axis to go by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from math import prod
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray

from bnaudit.onnx_session.engines import Feeds
from bnaudit.onnx_session.exporter_notes import in_scope, source_line
from bnaudit.onnx_session.instruments import Form, Instruments
from bnaudit.onnx_session.layouts import Layout, Shapes, by_size, layouts
from bnaudit.onnx_session.pinning import Pin, pins, taken, with_rows
from bnaudit.onnx_session.survey import Survey
from bnaudit.session import Batch, Held, OperatorCall, Pinned, Place, RunError

MOST_BYTES = 256 << 20
"""Of the values that one copy hands out, estimated with 4 bytes for each."""

PLAIN = Layout()
"""Rows along the first axis."""


class Fingerprint(NamedTuple):
    """Of one value."""

    rows: tuple[int, ...] | None
    """One per anchor; None: the value has no rows."""
    whole: int


class RowWatch:
    """Watches the rows of one model; what it finds about shapes and axes is kept."""

    def __init__(self, instruments: Instruments, skeleton: onnx.ModelProto, survey: Survey) -> None:
        self._instruments = instruments
        self._nodes = list(skeleton.graph.node)
        self._norms = {norm.number: norm.position for norm in survey.norms}
        self._inner: set[int] = set()
        for position, body in instruments.bodies.items():
            self._norms |= dict.fromkeys(body.numbers, position)
            self._inner |= set(body.numbers) - {survey.norms[position].number} if not body.mean else set()
        self._outputs = {output.name for output in skeleton.graph.output}
        self._constants = {tensor.name for tensor in skeleton.graph.initializer}
        self._constants |= {tensor.values.name for tensor in skeleton.graph.sparse_initializer}
        self._watched = tuple(self._inner_values())
        self._found: dict[object, tuple[Shapes, dict[str, Layout | None]]] = {}

    def pins(self, given: Feeds, batch: Batch, pin: Sequence[Pinned]) -> tuple[Pin, ...]:
        """Of what is pinned, the values whose rows are given."""
        rows = [each for each in pin if each.rows]
        return pins(rows, self._nodes, self._shapes_and_layouts(given, batch)[1], batch) if rows else ()

    def calls(
        self,
        given: Feeds,
        batch: Batch,
        form: Form,
        hold: Sequence[Held],
        pin: Sequence[Pinned],
        reseed: Callable[[], None],
    ) -> tuple[tuple[OperatorCall, ...], tuple[Pinned, ...]]:
        """The operators of one forward of this form, and what is pinned; `reseed` is called before each run.

        Raises RunError when the graph fails.
        """
        shapes, found = self._shapes_and_layouts(given, batch)
        seen = batch.anchors, batch.size
        prints = {name: fingerprint(array, found.get(name), *seen) for name, array in given.items()}
        own: dict[str, Fingerprint] = {}
        chunks = list(self._chunks(shapes))
        values = self.pins(given, batch, pin)
        wanted = {name for each in pin for name in with_rows(self._nodes[each.index], found)}
        kept: dict[str, NDArray[Any]] = {}
        for chunk in chunks:
            reseed()
            reading = self._instruments.read(
                form._replace(moments=False, exposed=chunk, sizes=()), given, hold, values, keep=len(chunks) == 1
            )
            for into, read in ((prints, reading.exposed), (own, reading.own)):
                for name, value in read.items():
                    if isinstance(value, np.ndarray):
                        into[name] = fingerprint(value, found.get(name), *seen)
                        if name in wanted:
                            kept[name] = value
        return tuple(self._calls(prints, {**prints, **own})), tuple(taken(pin, self._nodes, kept, found))

    def shapes(self, given: Feeds) -> Shapes:
        """Of all inner values and inputs."""
        return self._instruments.read(Form(sizes=(*given, *self._watched)), given).shapes

    def _inner_values(self) -> Iterator[str]:
        """What nodes compute from the inputs, tensors only."""
        for node in self._nodes:
            varying = any(name and name not in self._constants for name in read_by(node))
            if not varying and not _draws(node):
                self._constants.update(node.output)
            elif _gives_tensors(node):
                yield from (name for name in node.output if name)

    def _chunks(self, shapes: Shapes) -> Iterator[tuple[str, ...]]:
        chunk: list[str] = []
        taken = 0
        for name in self._watched:
            size = 4 * prod(shapes.get(name, ()))
            if chunk and taken + size > MOST_BYTES:
                yield tuple(chunk)
                chunk, taken = [], 0
            chunk.append(name)
            taken += size
        if chunk:
            yield tuple(chunk)

    def _shapes_and_layouts(self, given: Feeds, batch: Batch) -> tuple[Shapes, dict[str, Layout | None]]:
        key = (batch.axis, *sorted((name, array.shape) for name, array in given.items()))
        if key not in self._found:
            shapes = self.shapes(given)
            more = self._one_more(given, batch)
            inputs = {name: by_size(array.shape, batch.axis, batch.size) for name, array in given.items()}
            if more is None:
                found = {name: by_size(shape, batch.axis, batch.size) for name, shape in shapes.items()}
            else:
                found = layouts(self._nodes, inputs, shapes, more, batch.size)
            self._found[key] = shapes, found
        return self._found[key]

    def _one_more(self, given: Feeds, batch: Batch) -> Shapes | None:
        """The shapes with one sample more, None when the graph does not take it."""
        more = {name: _with_one_more(array, batch) for name, array in given.items()}
        try:
            return self.shapes(more)
        except RunError:
            return None

    def _calls(self, prints: Mapping[str, Fingerprint], returned: Mapping[str, Fingerprint]) -> Iterator[OperatorCall]:
        """prints: as what follows gets them; returned: as nodes compute them."""
        origins: dict[str, Place] = {}
        for number, node in enumerate(self._nodes):
            if all(name in self._constants for name in node.output):
                continue
            inputs = [prints[name] for name in read_by(node) if name in prints]
            outputs = [returned[name] for name in node.output if name in returned]
            place = _place(node)
            gathered = next((origins[name] for name in read_by(node) if name in origins), None)
            tells = gathered is not None and gathered.operator == "Reshape" and node.op_type.startswith("Reduce")
            origin = place if tells or any(each.rows is not None for each in inputs) else gathered
            if origin is not None:
                origins.update((name, origin) for name in node.output if name in prints and prints[name].rows is None)
            yield OperatorCall(
                index=number,
                place=place,
                gathered=gathered,
                rows_in=_rows(inputs),
                others_in=_digest([each.whole for each in inputs if each.rows is None]),
                rows_out=None if number in self._inner else _rows(outputs),
                others_out=_digest([each.whole for each in outputs if each.rows is None]) if outputs else None,
                norm=self._norms.get(number),
            )


def _place(node: onnx.NodeProto) -> Place:
    name = node.name or next(iter(node.output), "")
    return Place(module=in_scope(node, name), class_name=node.op_type, operator=node.op_type, source=source_line(node))


def fingerprint(array: NDArray[Any], layout: Layout | None, anchors: Sequence[int], size: int) -> Fingerprint:
    """Of the anchors' rows, and of everything when there are none."""
    if layout is None:
        return Fingerprint(None, _bits(array))
    return Fingerprint(tuple(_bits(layout.row(array, anchor, size)) for anchor in anchors), 0)


def _bits(array: NDArray[Any]) -> int:
    digest = blake2b(repr((array.shape, array.dtype.str)).encode(), digest_size=8)
    if array.dtype == object:
        digest.update(repr(array.tolist()).encode())
    else:
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return int.from_bytes(digest.digest(), "little")


def _digest(numbers: Sequence[int]) -> int:
    return int.from_bytes(blake2b(repr(list(numbers)).encode(), digest_size=8).digest(), "little")


def _rows(prints: Sequence[Fingerprint]) -> tuple[int, ...] | None:
    rows = [each.rows for each in prints if each.rows is not None]
    return tuple(_digest(each) for each in zip(*rows, strict=True)) if rows else None


def _with_one_more(array: NDArray[Any], batch: Batch) -> NDArray[Any]:
    if array.ndim <= batch.axis or array.shape[batch.axis] != batch.size:
        return array
    return np.concatenate([array, np.take(array, [0], batch.axis)], batch.axis)


def read_by(node: onnx.NodeProto) -> list[str]:
    """The values that a node takes, those that its branches and loop bodies take from around them included."""
    inner = [
        name
        for attribute in node.attribute
        for graph in (attribute.g, *attribute.graphs)
        for each in graph.node
        for name in read_by(each)
    ]
    return [*node.input, *inner]


def _draws(node: onnx.NodeProto) -> bool:
    return node.op_type.startswith("Random") or node.op_type in ("Bernoulli", "Multinomial", "Dropout")


def _gives_tensors(node: onnx.NodeProto) -> bool:
    """Whether its outputs are tensors: sequences, optionals and maps have no shape."""
    if node.op_type in ("SequenceAt", "SequenceLength", "ConcatFromSequence", "OptionalHasElement"):
        return True
    if node.op_type in ("SplitToSequence", "ZipMap") or node.op_type.startswith(("Sequence", "Optional")):
        return False
    bodies = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    return all(output.type.HasField("tensor_type") for body in bodies for output in body.output)
