"""ValueInfoProto: the declared type and shape of an input or an inner value."""

from __future__ import annotations

from bnaudit.reading.onnx.dtypes import dtype_name
from bnaudit.reading.onnx.protobuf_wire import WireReader, signed

Dimension = int | str | None
Shape = tuple[Dimension, ...]


class ValueInfo:
    """One declared value: name, dtype and shape (None: the rank is not said; not a tensor: its own kind as dtype)."""

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, name: str, dtype: str, shape: Shape | None) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape


def read_value_info(wire: WireReader, start: int, stop: int) -> ValueInfo:
    """One ValueInfoProto."""
    info = ValueInfo("", "unknown", None)
    for key, begin, end in wire.fields(start, stop):
        if key == 0x0A:
            info.name = wire.text(begin, end)
        elif key == 0x12:
            _read_type(wire, info, begin, end)
    return info


def _read_type(wire: WireReader, info: ValueInfo, start: int, stop: int) -> None:
    """TypeProto: tensors are read, sequences, maps and optionals only named."""
    for key, begin, end in wire.fields(start, stop):
        if key in (0x0A, 0x42):
            for field, first, last in wire.fields(begin, end):
                if field == 0x08:
                    info.dtype = dtype_name(first)
                elif field == 0x12:
                    sizes = [span for span in wire.fields(first, last) if span[0] == 0x0A]
                    info.shape = tuple(_dimension(wire, *span[1:]) for span in sizes)
        elif key in (0x22, 0x2A, 0x4A):
            info.dtype = {0x22: "sequence", 0x2A: "map", 0x4A: "optional"}[key]


def _dimension(wire: WireReader, start: int, stop: int) -> Dimension:
    """A fixed size, a named free one, or None; sizes below 1 are what some producers write for a free one."""
    for key, begin, end in wire.fields(start, stop):
        if key == 0x08:
            return signed(begin) if signed(begin) > 0 else None
        if key == 0x12:
            return wire.text(begin, end) or None
    return None
