"""Files made to cost time or memory, or to hang a reader: each small on disk and absurd in what it claims."""

from __future__ import annotations

import io
import json
import os
import pickletools
import struct
import zlib
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from subjects import SAMPLES

TERABYTE = 1 << 40
HEALTHY = SAMPLES / "healthy"


class Attack(NamedTuple):
    """`said` is part of the sentence, or of the Gap, that the audit has to give; "" when there is nothing to say."""

    file: str
    write: Callable[[Path], object]
    said: str


def deflated(name: str, pattern: bytes, repeats: int, start: bytes = b"", end: bytes = b"") -> bytes:
    """A zip archive of one member that inflates to `start`, very many repetitions, and `end`, made in no time."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = packer.compress(start) + packer.flush(zlib.Z_FULL_FLUSH)
    times = max(1, (1 << 20) // len(pattern))
    block = packer.compress(pattern * times) + packer.flush(zlib.Z_FULL_FLUSH)
    tail = packer.compress(end) + packer.flush()
    count = max(1, repeats // times)
    packed = head + block * count + tail
    return zip_of_one(name, packed, len(start) + len(pattern) * times * count + len(end))


def zip_of_one(name: str, packed: bytes, size: int) -> bytes:
    """A zip archive of one deflated member (APPNOTE 4.3), whatever `size` it declares."""
    raw = name.encode()
    sizes = struct.pack("<3I", 0, len(packed), size)
    local = struct.pack("<4s5H", b"PK\x03\x04", 20, 0, 8, 0, 0) + sizes + struct.pack("<2H", len(raw), 0) + raw + packed
    entry = struct.pack("<4s6H", b"PK\x01\x02", 20, 20, 0, 8, 0, 0) + sizes
    entry += struct.pack("<5H2I", len(raw), 0, 0, 0, 0, 0, 0) + raw
    return local + entry + struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1, 1, len(entry), len(local), 0)


def pickled(pattern: bytes, megabytes: int, start: bytes = b"\x80\x02", end: bytes = b".") -> Callable[[Path], object]:
    """A checkpoint whose data.pkl repeats these opcodes."""
    data = deflated("archive/data.pkl", pattern, (megabytes << 20) // len(pattern), start, end)
    return lambda path: path.write_bytes(data)


def exported(pattern: bytes, megabytes: int) -> Callable[[Path], object]:
    """A .pt2 whose program is a JSON array of these elements."""
    member, repeats = "serialized_exported_program.json", (megabytes << 20) // len(pattern)
    data = deflated(member, pattern, repeats, b'{"graph_module": [', b"0]}")
    return lambda path: path.write_bytes(data)


def sparse(path: Path, head: bytes, size: int = TERABYTE, tail: bytes = b"") -> None:
    """A file of `size` bytes that takes next to none on disk: `head`, a hole, `tail`."""
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)
        file.seek(size - len(tail))
        file.write(tail)


def around_a_hole(sample: str, kept: int | None = None) -> Callable[[Path], object]:
    """A sample, or its first bytes, at the start of a terabyte of zeros."""
    return lambda path: sparse(path, (HEALTHY / sample).read_bytes()[:kept])


def archive_behind_a_hole(path: Path) -> None:
    archive = (HEALTHY / "state_dict.pt").read_bytes()
    sparse(path, archive[:64], TERABYTE, archive)


def safetensors(path: Path, elements: int, norm: int) -> None:
    """A whole file with one tensor of many elements, then a batch norm's statistics."""
    lines, end = {}, 0
    for name, count in (("conv.weight", elements), ("bn.running_mean", norm), ("bn.running_var", norm)):
        lines[name] = {"dtype": "F32", "shape": [count], "data_offsets": [end, end + 4 * count]}
        end += 4 * count
    header = json.dumps(lines).encode()
    sparse(path, struct.pack("<Q", len(header)) + header, 8 + len(header) + end)


def header_of_zeros(path: Path) -> None:
    sparse(path, struct.pack("<Q", 200 << 20) + b'{"')


def legacy_count(path: Path) -> None:
    """The first storage says that it has 2^62 elements."""
    data = bytearray((HEALTHY / "state_dict_legacy.pth").read_bytes())
    stream = io.BytesIO(data)
    for _ in range(5):  # magic number, version, machine, state dict, keys of the storages
        deque(pickletools.genops(stream), maxlen=0)
    data[stream.tell() : stream.tell() + 8] = struct.pack("<q", 1 << 62)
    path.write_bytes(data)


def field(number: int, content: bytes, claimed: int | None = None) -> bytes:
    """A length-delimited protobuf field; `claimed` is another length than that of the content."""
    return varint(number << 3 | 2) + varint(len(content) if claimed is None else claimed) + content


def varint(value: int) -> bytes:
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def onnx(graph: bytes, claimed: int | None = None) -> bytes:
    """A ModelProto of IR version 8 and opset 17; `graph` comes last."""
    return b"\x08\x08" + field(8, b"\x0a\x00\x10\x11") + field(7, graph, claimed)


IMAGE = field(11, field(1, b"x") + field(2, field(1, b"\x08\x01")))
NAMES = (b"bn.weight", b"bn.bias", b"bn.running_mean", b"bn.running_var")
BATCH_NORM = b"".join(field(1, name) for name in (b"x", *NAMES)) + field(2, b"y") + field(4, b"BatchNormalization")


def tensor(name: bytes, dims: tuple[int, ...], values: bytes, claimed: int | None = None) -> bytes:
    """A float32 TensorProto; the bytes of its values come last."""
    sizes = b"".join(b"\x08" + varint(size) for size in dims)
    return sizes + b"\x10\x01" + field(8, name) + field(9, values, claimed)


def onnx_with(dims: tuple[int, ...]) -> Callable[[Path], object]:
    """A batch norm whose parameters claim these sizes and have three values."""
    weights = b"".join(field(5, tensor(name, dims, bytes(12))) for name in NAMES)
    return lambda path: path.write_bytes(onnx(IMAGE + field(1, BATCH_NORM) + weights))


def onnx_around_a_hole(path: Path) -> None:
    """A whole model: a batch norm, and an initializer of a terabyte."""
    small = IMAGE + field(1, BATCH_NORM) + b"".join(field(5, tensor(name, (3,), bytes(12))) for name in NAMES)
    large = tensor(b"conv.weight", (TERABYTE // 4,), b"", TERABYTE)
    graph = small + field(5, large, len(large) + TERABYTE)
    head = onnx(graph, len(graph) + TERABYTE)
    sparse(path, head, len(head) + TERABYTE)


def many_shards(path: Path) -> None:
    shards = {f"l{i}.weight": f"model-{i}.safetensors" for i in range(20_000)}
    path.write_text(json.dumps({"weight_map": shards}), encoding="utf-8")


def pipes(folder: Path) -> None:
    """A folder in which every name that a reader looks for is a pipe: opening one waits forever."""
    folder.mkdir()
    names = ["config.json", "trainer_state.json", ".metadata", "__0_0.distcp", "model.safetensors", "saved_model.pb"]
    names += ["pytorch_model.bin", "pytorch_model.bin.index.json", "model.onnx", "model.pt", "optimizer.pt", "x.bin"]
    for name in names:
        os.mkfifo(folder / name)


def endless_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_in_a_circle(path: Path) -> None:
    path.symlink_to(path.name)


CALLS = b"h\x00)R"
ATTACKS = (
    Attack("zeros.pt", pickled(b"\0", 1024), "header_bytes"),
    Attack("dicts.pt", pickled(b"}", 100), "--cap pickle_"),
    Attack("sets.pt", pickled(b"\x8f", 100, b"\x80\x04"), "--cap pickle_"),
    Attack("calls.pt", pickled(CALLS, 100, b"\x80\x02cm\nf\nq\x00"), "--cap pickle_"),
    Attack("objects.pt", pickled(b"h\x00)\x81}b", 100, b"\x80\x02cm\nC\nq\x00"), "--cap pickle_"),
    Attack("texts.pt", pickled(b"X\x10\0\0\0" + bytes(16), 200), "--cap pickle_"),
    Attack("memo.pt", pickled(b"N\x94", 100, b"\x80\x04"), "--cap pickle_"),
    Attack("digits.pt", pickled(b"9", 100, b"L", b"L\n."), "value_bytes"),
    Attack("arrays.pt2", exported(b"[],", 250), "json_values"),
    Attack("objects.pt2", exported(b'{"a":1},', 250), "json_values"),
    Attack("spaces.pt2", exported(b" ", 1024), "header_bytes"),
    Attack("hole.pt", around_a_hole("state_dict.pt"), "no zip directory"),
    Attack("start_and_hole.pt", around_a_hole("torchscript_scripted.pt", 5000), "no zip directory"),
    Attack("hole_and_archive.pt", archive_behind_a_hole, ""),
    Attack("hole.pth", around_a_hole("state_dict_legacy.pth"), ""),
    Attack("count.pth", legacy_count, "truncated"),
    Attack("hole.pkl", around_a_hole("detectron2_style.pkl"), ""),
    Attack("hole.npz", around_a_hole("arrays.npz"), "no zip directory"),
    Attack("hole.pt2", around_a_hole("exported_program.pt2"), "no zip directory"),
    Attack("hole.onnx", around_a_hole("norms_kept.onnx"), "corrupt"),
    Attack("hole.safetensors", around_a_hole("model.safetensors"), "no tensor owns"),
    Attack("header_of_zeros.safetensors", header_of_zeros, "JSON"),
    Attack("huge_weight.safetensors", lambda path: safetensors(path, TERABYTE // 4, 3), ""),
    Attack("huge_norm.safetensors", lambda path: safetensors(path, 3, TERABYTE // 4), "value_bytes"),
    Attack("huge_weight.onnx", onnx_around_a_hole, ""),
    Attack("huge_norm.onnx", onnx_with((TERABYTE,)), "value_bytes"),
    Attack("overflow.onnx", onnx_with((1 << 32, 1 << 32)), "value_bytes"),
    Attack("negative.onnx", onnx_with(((1 << 64) - 3,)), "size -3"),
    Attack("axes.onnx", onnx_with((1,) * 500_000), "absurd"),
    Attack("graph_length.onnx", lambda path: path.write_bytes(onnx(field(1, BATCH_NORM), 1 << 40)), "corrupt"),
    Attack("node_length.onnx", lambda path: path.write_bytes(onnx(field(1, BATCH_NORM, 1 << 62))), "no model format"),
    Attack("many_shards.safetensors.index.json", many_shards, "does not exist"),
    Attack("pipes", pipes, ""),
    Attack("endless.pt", endless_device, "not a regular file"),
    Attack("circle.pt", link_in_a_circle, ""),
)
