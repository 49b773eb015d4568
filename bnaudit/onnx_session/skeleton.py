"""A ModelProto to edit, without its weights: large initializers become external data in the model's own file.

So a copy of a graph takes a few kilobytes whatever the model weighs, and onnxruntime maps the weights where they are.
Specification: onnx/docs/ExternalData.md (`location` relative to the model's folder, `offset`, `length` in bytes).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx

from bnaudit.caps import Caps
from bnaudit.errors import MalformedError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.onnx.external import ExternalFiles
from bnaudit.reading.onnx.protobuf_wire import WireReader
from bnaudit.reading.onnx.tensor import read_tensor

_GRAPH, _INITIALIZER, _RAW_DATA = 0x3A, 0x2A, 0x4A
"""Keys of ModelProto.graph, GraphProto.initializer and TensorProto.raw_data."""
_SMALL = 4096
"""Bytes of an initializer that stays in the copy: shapes and axes are looked at when a session is made."""


def read_skeleton(path: Path) -> onnx.ModelProto:
    """The model with every large weight of its main graph left in the file.

    Raises MalformedError when the file is not what ONNX's own parser reads, CapExceededError when what is no weight
    is beyond the caps.
    """
    with ByteSource.open(path, Caps(graph_nodes=1 << 40)) as source, ExternalFiles(source) as files:
        wire = WireReader(source)
        location = None if _is_link(path) else path.name
        pieces = []
        for key, begin, end in wire.fields(0, source.size):
            if key == _GRAPH and location is not None:
                graph = b"".join(_graph_field(wire, files, location, *field) for field in wire.fields(begin, end))
                pieces.append(_varint(key) + _varint(len(graph)) + graph)
            else:
                pieces.append(_field(wire, key, begin, end))
    return _parsed(b"".join(pieces), path)


def _parsed(data: bytes, path: Path) -> onnx.ModelProto:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        model: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise MalformedError(f"{path.name} is no model that onnx can read", where=str(error)) from error
    for text in _texts(model.graph):
        if not isinstance(text, str):
            raise MalformedError(f"a name in {path.name} is no text", where=repr(text))
    return model


def _texts(graph: onnx.GraphProto) -> Iterator[object]:
    """Every name in the main graph; protobuf hands over as bytes what is not UTF-8."""
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
    for named in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        yield named.name


def _is_link(path: Path) -> bool:
    """Whether the file really lies in another folder, as in a cache: no copy could refer to it from here."""
    return path.resolve().parent != path.parent.resolve()


def _graph_field(wire: WireReader, files: ExternalFiles, location: str, key: int, begin: int, end: int) -> bytes:
    if key != _INITIALIZER or end - begin <= _SMALL:
        return _field(wire, key, begin, end)
    raw = read_tensor(wire, files, begin, end).raw
    if raw is None:
        return _field(wire, key, begin, end)
    kept = b"".join(_field(wire, *field) for field in wire.fields(begin, end) if field[0] != _RAW_DATA)
    tensor = onnx.TensorProto.FromString(kept)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for name, value in (("location", location), ("offset", raw[0]), ("length", raw[1] - raw[0])):
        tensor.external_data.add(key=name, value=str(value))
    data: bytes = tensor.SerializeToString()
    return _varint(key) + _varint(len(data)) + data


def _field(wire: WireReader, key: int, begin: int, end: int) -> bytes:
    """One field as the file has it."""
    if end < 0:
        return _varint(key) + _varint(begin)
    data = wire.source.read(begin, end - begin)
    return _varint(key) + (_varint(len(data)) if key & 7 == 2 else b"") + data


def _varint(value: int) -> bytes:
    pieces = bytearray()
    while value > 0x7F:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    pieces.append(value)
    return bytes(pieces)
