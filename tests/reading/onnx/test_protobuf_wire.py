"""The walk over Protocol Buffers messages, held to the encoder of the protobuf library."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st

from bnaudit.caps import Caps
from bnaudit.errors import CapExceededError, MalformedError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.onnx.protobuf_wire import WireReader, signed
from bnaudit.records import replace


def walk(tmp_path: Path, data: bytes, caps: Caps | None = None) -> list[tuple[int, int, int]]:
    path = tmp_path / "message"
    path.write_bytes(data)
    with ByteSource.open(path, caps) as source:
        return list(WireReader(source).fields(0, source.size))


def test_each_wire_type_gives_its_key_and_where_its_value_is(tmp_path: Path) -> None:
    data = b"\x08\x96\x01" + b"\x12\x03abc" + b"\x1d" + struct.pack("<f", 1.5) + b"\x21" + struct.pack("<d", 2.5)
    assert walk(tmp_path, data) == [(0x08, 150, -1), (0x12, 5, 8), (0x1D, 9, 13), (0x21, 14, 22)]


def test_keys_of_several_bytes_are_read_whole(tmp_path: Path) -> None:
    assert walk(tmp_path, b"\xaa\x01\x01x") == [(0xAA, 3, 4)]


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_numbers_are_those_that_protobuf_wrote(value: int, tmp_path: Path) -> None:
    written = descriptor_pb2.UninterpretedOption(negative_int_value=value).SerializeToString()
    ((_, read, stop),) = walk(tmp_path, written)
    assert (signed(read), stop) == (value, -1)


@given(values=st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=40))
def test_packed_numbers_are_those_that_protobuf_wrote(values: list[int], tmp_path: Path) -> None:
    written = descriptor_pb2.SourceCodeInfo.Location(path=values).SerializeToString()
    path = tmp_path / "packed"
    path.write_bytes(written)
    with ByteSource.open(path) as source:
        wire = WireReader(source)
        ((_, start, stop),) = wire.fields(0, source.size)
        assert [signed(value) for value in wire.varints(start, stop)] == values


@given(names=st.lists(st.text(max_size=300), max_size=30))
def test_strings_come_back_through_every_position_of_the_window(names: list[str], tmp_path: Path) -> None:
    written = descriptor_pb2.FileDescriptorProto(dependency=names).SerializeToString()
    path = tmp_path / "strings"
    path.write_bytes(written)
    with ByteSource.open(path) as source:
        wire = WireReader(source)
        assert [wire.text(start, stop) for _, start, stop in wire.fields(0, source.size)] == names


def test_a_parent_goes_on_after_a_child_has_moved_the_window(tmp_path: Path) -> None:
    inner = b"\x0a\x90\x4e" + bytes(10_000)
    data = (b"\x12" + b"\x93\x4e" + inner) * 3
    path = tmp_path / "nested"
    path.write_bytes(data)
    with ByteSource.open(path) as source:
        wire = WireReader(source)
        seen = [list(wire.fields(start, stop)) for _, start, stop in wire.fields(0, source.size)]
    assert [[(key, stop - start) for key, start, stop in fields] for fields in seen] == [[(0x0A, 10_000)]] * 3


def test_long_values_are_skipped_without_being_read(tmp_path: Path) -> None:
    block = b"\x12\x80\x80\x40" + bytes(1 << 20)
    path = tmp_path / "large"
    path.write_bytes(block * 8)
    with ByteSource.open(path) as source:
        assert len(list(WireReader(source).fields(0, source.size))) == 8
        assert source.bytes_read <= 8 * 2048


def test_small_fields_in_a_row_take_few_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "small"
    path.write_bytes(b"\x12\x02ab" * 100_000)
    reads = []
    original = ByteSource._fetch
    monkeypatch.setattr(ByteSource, "_fetch", lambda self, *span: reads.append(span) or original(self, *span))
    with ByteSource.open(path) as source:
        assert sum(1 for _ in WireReader(source).fields(0, source.size)) == 100_000
    assert len(reads) < 20


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\x12\x05abc", "longer than what holds it"),
        (b"\x08\xff", "does not end"),
        (b"\x12", "does not end"),
        (b"\x08" + b"\xff" * 11, "does not end"),
        (b"\x0b\x0c", "of a kind that no such file has"),
        (b"\x0e\x01", "of a kind that no such file has"),
        (b"\x1d\x00\x00", "longer than what holds it"),
        (b"\x02\x01a", "longer than what holds it"),
        (b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "longer than what holds it"),
    ],
)
def test_broken_messages_are_malformed_and_say_where(data: bytes, what: str, tmp_path: Path) -> None:
    with pytest.raises(MalformedError, match=f"truncated or corrupt .*{what} at byte [0-9]+"):
        walk(tmp_path, data)


def test_a_child_may_not_leave_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "child"
    path.write_bytes(b"\x0a\x04\x12\x05abc" + bytes(50))
    with ByteSource.open(path) as source:
        wire = WireReader(source)
        _, start, stop = next(wire.fields(0, source.size))
        with pytest.raises(MalformedError):
            list(wire.fields(start, stop))


def test_floats_that_are_cut_are_malformed(tmp_path: Path) -> None:
    path = tmp_path / "floats"
    path.write_bytes(struct.pack("<2f", 1.5, -2.0) + b"\x00")
    with ByteSource.open(path) as source:
        assert WireReader(source).floats(0, 8) == (1.5, -2.0)
        with pytest.raises(MalformedError):
            WireReader(source).floats(0, 9)


def test_too_many_fields_end_at_the_cap(tmp_path: Path) -> None:
    with pytest.raises(CapExceededError, match="--cap graph_nodes"):
        walk(tmp_path, b"\x08\x01" * 1000, replace(Caps(), graph_nodes=100))


def test_too_many_packed_numbers_end_at_the_cap(tmp_path: Path) -> None:
    path = tmp_path / "packed"
    path.write_bytes(bytes(1000))
    with ByteSource.open(path, replace(Caps(), graph_nodes=100)) as source, pytest.raises(CapExceededError):
        WireReader(source).varints(0, 1000)


def test_too_many_header_bytes_end_at_the_cap(tmp_path: Path) -> None:
    with pytest.raises(CapExceededError, match="--cap header_bytes"):
        walk(tmp_path, b"\x12\x02ab" * 10_000, replace(Caps(), header_bytes=10_000))
