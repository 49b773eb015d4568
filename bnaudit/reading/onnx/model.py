"""ModelProto and FunctionProto, and how a model is told from other Protocol Buffers files."""

from __future__ import annotations

from bnaudit.errors import MalformedError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.onnx.external import ExternalFiles
from bnaudit.reading.onnx.graph import Attribute, Graph, ProtoSource, Span, read_attribute, read_graph, read_node
from bnaudit.reading.onnx.protobuf_wire import WireReader, signed

FunctionKey = tuple[str, str, str]
"""Domain, name, overload."""

_MODEL_KEYS = {0x08, 0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42, 0x72, 0xA2, 0xCA, 0xD2}
_GRAPH_KEYS = {0x0A, 0x12, 0x2A, 0x52, 0x5A, 0x62, 0x6A, 0x72, 0x7A, 0x82}
_LARGEST_IR_VERSION = 1000
_FIELDS_TO_LOOK_AT = 16
_BEYOND_ANY_FILE = 1 << 62


class Function:
    """One FunctionProto: a body with formal inputs, its own opsets, and defaults of its attributes."""

    __slots__ = ("body", "defaults", "inputs", "opsets")

    def __init__(self, body: Graph) -> None:
        self.body = body
        self.inputs: list[str] = []
        self.opsets: dict[str, int] = {}
        self.defaults: dict[str, Attribute] = {}


class Model:
    """One ModelProto."""

    __slots__ = ("functions", "graph", "ir_version", "opsets", "producer", "source")

    def __init__(self, source: ProtoSource) -> None:
        self.source = source
        self.ir_version: int | None = None
        self.producer: str | None = None
        self.opsets: dict[str, int] = {}
        self.functions: dict[FunctionKey, Function] = {}
        self.graph: Graph


def read_model(source: ByteSource, files: ExternalFiles) -> Model:
    """Walk one model. Raises MalformedError when it breaks the wire format or has no graph."""
    wire = WireReader(source)
    proto = ProtoSource(wire, files)
    model = Model(proto)
    graphs: list[Span] = []
    name = version = ""
    for key, begin, end in wire.fields(0, source.size):
        if key == 0x08:
            model.ir_version = signed(begin)
        elif key == 0x12:
            name = wire.text(begin, min(end, begin + 200))
        elif key == 0x1A:
            version = wire.text(begin, min(end, begin + 200))
        elif key == 0x3A:
            graphs.append((begin, end))
        elif key == 0x42:
            _read_opset(wire, model.opsets, begin, end)
        elif key == 0xCA:
            function_key, function = _read_function(proto, begin, end)
            model.functions[function_key] = function
    if not graphs:
        raise MalformedError(f"{source.name} is an ONNX file without a graph")
    model.producer = f"{name} {version}".strip() or None
    model.graph = read_graph(proto, graphs)
    return model


def looks_like_model(source: ByteSource) -> bool:
    """Whether the first fields are a ModelProto's: a version, only known fields, and a graph that starts like one.

    A file that is cut behind its head still looks like a model. Costs a few small reads whatever the size.
    """
    wire = WireReader(source)
    has_version = False
    try:
        for count, (key, begin, end) in enumerate(wire.fields(0, _BEYOND_ANY_FILE)):
            if key not in _MODEL_KEYS or count > _FIELDS_TO_LOOK_AT:
                return False
            if key == 0x08:
                has_version = 0 < begin < _LARGEST_IR_VERSION
            elif key == 0x3A:
                return has_version and _looks_like_graph(wire, begin, min(end, source.size))
    except MalformedError:
        return False
    return False


def _looks_like_graph(wire: WireReader, start: int, stop: int) -> bool:
    seen = 0
    try:
        for key, _, _ in wire.fields(start, stop):
            seen += 1
            if key not in _GRAPH_KEYS:
                return False
            if seen == _FIELDS_TO_LOOK_AT:
                break
    except MalformedError:
        return seen > 0
    return seen > 0


def _read_opset(wire: WireReader, opsets: dict[str, int], start: int, stop: int) -> None:
    domain, version = "", 0
    for key, begin, end in wire.fields(start, stop):
        if key == 0x0A:
            domain = wire.text(begin, end)
        elif key == 0x10:
            version = signed(begin)
    opsets["" if domain == "ai.onnx" else domain] = version


def _read_function(source: ProtoSource, start: int, stop: int) -> tuple[FunctionKey, Function]:
    wire = source.wire
    source.charge()
    function = Function(Graph(source))
    name = domain = overload = ""
    for key, begin, end in wire.fields(start, stop):
        if key == 0x0A:
            name = wire.text(begin, end)
        elif key == 0x22:
            function.inputs.append(wire.text(begin, end))
        elif key == 0x2A:
            function.body.outputs.append(wire.text(begin, end))
        elif key == 0x3A:
            function.body.nodes.append(read_node(source, begin, end))
        elif key == 0x4A:
            _read_opset(wire, function.opsets, begin, end)
        elif key == 0x52:
            domain = wire.text(begin, end)
        elif key == 0x5A:
            default = read_attribute(source, begin, end)
            function.defaults[default.name] = default
        elif key == 0x6A:
            overload = wire.text(begin, end)
    return (domain, name, overload), function
