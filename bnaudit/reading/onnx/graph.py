"""GraphProto, NodeProto and AttributeProto: what the audit needs of them, the rest passed over."""

from __future__ import annotations

from collections.abc import Iterable

from bnaudit.errors import CapExceededError, MalformedError
from bnaudit.reading.onnx.external import ExternalFiles
from bnaudit.reading.onnx.protobuf_wire import WireReader, signed
from bnaudit.reading.onnx.tensor import OnnxTensor, SparseTensor, read_sparse_tensor, read_tensor
from bnaudit.reading.onnx.value_info import ValueInfo, read_value_info

Span = tuple[int, int]

MOST_NESTED = 32
"""Graphs in one another. Each takes three messages, and protobuf's own parsers stop at a hundred."""


class Attribute:
    """One AttributeProto. Only the field that its type names is meaningful; a graph is left as a span."""

    __slots__ = ("floats", "graph", "i", "integers", "name", "real", "reference", "sparse", "tensor", "text")

    def __init__(self) -> None:
        self.name = ""
        self.real: float | None = None
        self.i: int | None = None
        self.text: str | None = None
        self.tensor: OnnxTensor | None = None
        self.sparse: SparseTensor | None = None
        self.graph: Span | None = None
        self.floats: list[float] = []
        self.integers: list[int] = []
        self.reference = ""
        """In a function: the attribute of the calling node that gives the value."""


class Node:
    """One NodeProto; its attributes and metadata are read when one is asked for."""

    __slots__ = (
        "_attributes",
        "_source",
        "_span",
        "_spans",
        "domain",
        "inputs",
        "name",
        "op_type",
        "outputs",
        "overload",
    )

    def __init__(self, source: ProtoSource, span: Span) -> None:
        self._source = source
        self._span = span
        self._spans: list[Span] = []
        self._attributes: dict[str, Attribute] | None = None
        self.name = self.op_type = self.domain = self.overload = ""
        self.inputs: list[str] = []
        self.outputs: list[str] = []

    @property
    def attributes(self) -> dict[str, Attribute]:
        """By name."""
        if self._attributes is None:
            read = [read_attribute(self._source, *span) for span in self._spans]
            self._attributes = {attribute.name: attribute for attribute in read}
        return self._attributes

    def metadata(self, key: str) -> str:
        """The value of one of its metadata_props, "" when it is not there."""
        wire = self._source.wire
        for field, start, stop in wire.fields(*self._span):
            if field == 0x4A:
                pair = {
                    name: wire.text(first, min(last, first + 4096)) for name, first, last in wire.fields(start, stop)
                }
                if pair.get(0x0A) == key:
                    return pair.get(0x12, "")
        return ""


class Graph:
    """One GraphProto, or the body of a function: nodes in execution order, initializers by name."""

    __slots__ = ("_source", "_value_infos", "_value_spans", "initializers", "inputs", "nodes", "outputs")

    def __init__(self, source: ProtoSource) -> None:
        self._source = source
        self._value_spans: list[Span] = []
        self._value_infos: dict[str, ValueInfo] | None = None
        self.nodes: list[Node] = []
        self.initializers: dict[str, OnnxTensor | SparseTensor] = {}
        self.inputs: list[ValueInfo] = []
        self.outputs: list[str] = []

    def value_info(self, name: str) -> ValueInfo | None:
        """What the graph declares of an inner value or an input."""
        if self._value_infos is None:
            wire = self._source.wire
            infos = [read_value_info(wire, *span) for span in self._value_spans]
            self._value_infos = {info.name: info for info in [*infos, *self.inputs]}
        return self._value_infos.get(name)


class ProtoSource:
    """Where messages come from: the walked file, the files beside it, and how many messages may still be read."""

    __slots__ = ("files", "left", "wire")

    def __init__(self, wire: WireReader, files: ExternalFiles) -> None:
        self.wire = wire
        self.files = files
        self.left = wire.source.caps.graph_nodes

    def charge(self) -> None:
        """Count one node, initializer or attribute. Raises CapExceededError when there are too many."""
        self.left -= 1
        if self.left < 0:
            raise CapExceededError("too many nodes", where=self.wire.source.name, cap="graph_nodes")


def read_graph(source: ProtoSource, spans: Iterable[Span], depth: int = 0) -> Graph:
    """One GraphProto; protobuf joins several spans of one field, and so do we.

    Raises MalformedError when graphs are nested too deep.
    """
    if depth > MOST_NESTED:
        raise MalformedError(f"more than {MOST_NESTED} graphs in one another", where=source.wire.source.name)
    graph = Graph(source)
    wire = source.wire
    for start, stop in spans:
        for key, begin, end in wire.fields(start, stop):
            if key == 0x0A:
                graph.nodes.append(read_node(source, begin, end))
            elif key == 0x2A:
                _add(graph, source, read_tensor(wire, source.files, begin, end))
            elif key == 0x7A:
                _add(graph, source, read_sparse_tensor(wire, source.files, begin, end))
            elif key == 0x5A:
                graph.inputs.append(read_value_info(wire, begin, end))
            elif key == 0x62:
                graph.outputs.append(read_value_info(wire, begin, end).name)
            elif key == 0x6A:
                graph._value_spans.append((begin, end))
    return graph


def read_node(source: ProtoSource, start: int, stop: int) -> Node:
    """One NodeProto, without its attributes."""
    source.charge()
    node = Node(source, (start, stop))
    text = source.wire.text
    for key, begin, end in source.wire.fields(start, stop):
        if key == 0x0A:
            node.inputs.append(text(begin, end))
        elif key == 0x12:
            node.outputs.append(text(begin, end))
        elif key == 0x2A:
            node._spans.append((begin, end))
        elif key == 0x22:
            node.op_type = text(begin, end)
        elif key == 0x1A:
            node.name = text(begin, end)
        elif key == 0x3A:
            node.domain = text(begin, end)
        elif key == 0x42:
            node.overload = text(begin, end)
    return node


def read_attribute(source: ProtoSource, start: int, stop: int) -> Attribute:
    """One AttributeProto."""
    source.charge()
    wire = source.wire
    attribute = Attribute()
    for key, begin, end in wire.fields(start, stop):
        if key == 0x0A:
            attribute.name = wire.text(begin, end)
        elif key == 0x15:
            attribute.real = wire.float32(begin)
        elif key == 0x18:
            attribute.i = signed(begin)
        elif key == 0x22:
            attribute.text = wire.text(begin, min(end, begin + 4096))
        elif key == 0x2A:
            attribute.tensor = read_tensor(wire, source.files, begin, end)
        elif key == 0xB2:
            attribute.sparse = read_sparse_tensor(wire, source.files, begin, end)
        elif key == 0x32:
            attribute.graph = (begin, end)
        elif key == 0x3D:
            attribute.floats.append(wire.float32(begin))
        elif key == 0x3A:
            attribute.floats += wire.floats(begin, end)
        elif key == 0x40:
            attribute.integers.append(signed(begin))
        elif key == 0x42:
            attribute.integers += [signed(value) for value in wire.varints(begin, end)]
        elif key == 0xAA:
            attribute.reference = wire.text(begin, end)
    return attribute


def _add(graph: Graph, source: ProtoSource, tensor: OnnxTensor | SparseTensor) -> None:
    source.charge()
    graph.initializers[tensor.name] = tensor
