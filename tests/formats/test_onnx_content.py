"""What the ONNX format claims, and what it says of content that is cut, flipped or lies."""

from __future__ import annotations

import random
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx_builders import BETA, GAMMA, IMAGE, PARAMETERS, claimed, describe, describe_file, model, node

from bnaudit.caps import Caps
from bnaudit.description import Description
from bnaudit.errors import BnauditError, CapExceededError, MalformedError
from bnaudit.formats import Candidate, identify
from bnaudit.formats.onnx_file import FORMAT
from bnaudit.reading.byte_source import ByteSource
from bnaudit.records import replace


def small() -> bytes:
    """A model with a bit of everything: norms, a branch, a function, constants, external data, sparse weights."""
    branch = helper.make_graph(
        [node("BatchNormalization", ["h", *PARAMETERS], ["b"])], "t", [], [helper.make_empty_tensor_value_info("b")]
    )
    opsets = [helper.make_opsetid("", 17)]
    inner = helper.make_function("local", "f", ["v"], ["w"], [node("LpNormalization", ["v"], ["w"])], opsets)
    outside = numpy_helper.from_array(BETA, "outside")
    onnx.external_data_helper.set_external_data(outside, "missing.bin", offset=16, length=16)
    outside.ClearField("raw_data")
    typed = helper.make_tensor("typed", onnx.TensorProto.FLOAT, (4,), GAMMA.tolist())
    nodes = [
        node("Constant", [], ["k"], value=numpy_helper.from_array(np.float32(1e-5))),
        node("InstanceNormalization", ["x", "typed", "outside"], ["i"]),
        node("f", ["i"], ["j"], domain="local"),
        node("ReduceMean", ["j"], ["m"], axes=[0]),
        node("Sub", ["j", "m"], ["d"]),
        node("Mul", ["d", "d"], ["s"]),
        node("ReduceMean", ["s"], ["v"], axes=[0]),
        node("Add", ["v", "k"], ["e"]),
        node("Sqrt", ["e"], ["r"]),
        node("Div", ["d", "r"], ["n"]),
        node("Reshape", ["n", "shape"], ["h"]),
        node("If", ["flag"], then_branch=branch, else_branch=branch),
    ]
    constants = {**PARAMETERS, "typed": typed, "outside": outside, "shape": np.array([0, -1, 8, 8])}
    proto = model(
        nodes, constants, inputs={"x": IMAGE, "flag": ()}, functions=[inner], domains={"local": 1},
        value_info=[helper.make_tensor_value_info("h", 1, ("N", 4, 8, 8))],
    )  # fmt: skip
    values = helper.make_tensor("sparse", 1, (1,), [2.0])
    where = helper.make_tensor("where", 7, (1,), [3])
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, where, (4,)))
    return bytes(proto.SerializeToString())


SMALL = small()


def outcome(data: bytes, folder: Path, caps: Caps | None = None) -> Description | BnauditError:
    """A description or an expected failure; anything else fails the test."""
    try:
        return describe(data, folder, caps)
    except BnauditError as error:
        assert "\n" not in str(error)
        return error


def test_the_small_model_is_read_whole(tmp_path: Path) -> None:
    found = describe(SMALL, tmp_path)
    assert [layer.kind.value for layer in found.parts[0].layers] == ["instance", "rms", "batch", "batch", "batch"]
    assert [gap.where for gap in found.gaps] == ["outside"]


def test_a_file_that_is_cut_anywhere_is_described_or_refused(tmp_path: Path) -> None:
    refused = 0
    for length in range(0, len(SMALL), 7):
        refused += isinstance(outcome(SMALL[:length], tmp_path), BnauditError)
    assert refused > len(SMALL) // 7 * 0.9


def test_flipped_bytes_end_in_a_description_or_a_refusal(tmp_path: Path) -> None:
    chance = random.Random(20)
    kinds = set()
    for _ in range(400):
        data = bytearray(SMALL)
        for _ in range(chance.choice([1, 1, 2, 8])):
            data[chance.randrange(len(data))] = chance.randrange(256)
        kinds.add(type(outcome(bytes(data), tmp_path)).__name__)
    assert {"Description", "MalformedError"} <= kinds


def test_bytes_that_are_cut_out_or_doubled(tmp_path: Path) -> None:
    chance = random.Random(21)
    for _ in range(150):
        start = chance.randrange(len(SMALL))
        stop = min(start + chance.randrange(1, 40), len(SMALL))
        outcome(SMALL[:start] + SMALL[stop:], tmp_path)
        outcome(SMALL[:stop] + SMALL[start:], tmp_path)


def test_lengths_that_lie(tmp_path: Path) -> None:
    """Every byte that may be a length becomes each of these, among them the longest varints there are."""
    lies = [b"\x00", b"\x7f", b"\xff\xff\x7f", b"\xff" * 9 + b"\x01", b"\xff" * 12]
    chance = random.Random(22)
    for at in chance.sample(range(2, len(SMALL)), 120):
        for lie in lies:
            outcome(SMALL[:at] + lie + SMALL[at + 1 :], tmp_path)


def test_reading_the_hostile_is_bounded_in_time(tmp_path: Path) -> None:
    """Four million empty fields in a graph: at most the cap's worth is walked."""
    graph = b"\x52\x00" * 4_000_000
    data = b"\x08\x08\x3a" + bytes([len(graph) & 0x7F | 0x80, len(graph) >> 7 & 0x7F | 0x80,
                                   len(graph) >> 14 & 0x7F | 0x80, len(graph) >> 21]) + graph  # fmt: skip
    start = time.perf_counter()
    found = outcome(data, tmp_path, replace(Caps(), graph_nodes=100_000))
    assert isinstance(found, CapExceededError)
    assert time.perf_counter() - start < 5


def test_wide_shapes_make_no_arrays(tmp_path: Path) -> None:
    huge = onnx.TensorProto(dims=[2**50, 2**12], data_type=1, name="bn.running_mean", raw_data=b"\x00" * 16)
    proto = model([node("BatchNormalization", ["x", *PARAMETERS])], {**PARAMETERS, "bn.running_mean": huge})
    found = describe(proto, tmp_path)
    assert len(found.gaps) == 1
    (layer,) = found.parts[0].layers
    assert layer.running_mean is not None
    assert layer.running_mean.unread


def test_names_that_are_no_text_are_read(tmp_path: Path) -> None:
    data = SMALL.replace(b"bn.running_mean", b"bn.running_mea\xff")
    assert len(describe(data, tmp_path).parts[0].layers) == 5


def test_a_graph_in_two_pieces_is_one_graph(tmp_path: Path) -> None:
    """Protocol Buffers join repeated occurrences of a message field; concatenated files parse as one message."""
    first = model([node("Relu", ["x"], ["h"])], PARAMETERS)
    second = onnx.ModelProto()
    second.graph.node.append(node("BatchNormalization", ["h", *PARAMETERS]))
    data = first.SerializeToString() + second.SerializeToString()
    assert len(onnx.load_from_string(data).graph.node) == 2
    (layer,) = describe(data, tmp_path).parts[0].layers
    assert layer.name == "bn"


def test_a_model_without_a_graph_is_malformed(tmp_path: Path) -> None:
    with pytest.raises(MalformedError, match="without a graph"):
        describe(b"\x08\x08\x12\x04here", tmp_path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x08",
        b"\x08\x07",
        b"plain text that is no model\n" * 20,
        b"<!DOCTYPE html><html></html>",
        b"PK\x03\x04" + bytes(100),
        b"\x80\x02}q\x00.",
        b"\x93NUMPY\x01\x00",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
        bytes(1000),
        bytes(range(256)) * 8,
        struct.pack("<Q", 40) + b'{"a":{"dtype":"F32","shape":[1]}}      ',
        b"\x18\x00\x00\x00ORTM" + bytes(100),
        b"\x08\x01\x12\x05saved",
        b"\x08\x04\x12\x03doc\xa2\x1f\x02\x08\x01",
        b"\x08\x07\x3a\x06\x08\x01\x10\x02\x18\x03",
        b"\x3a\x04\x0a\x02\x0a\x00",
    ],
    ids=["empty", "one byte", "version", "text", "html", "zip", "pickle", "npy", "lfs", "zeros", "all bytes",
         "safetensors", "ort", "saved_model", "coreml", "other message", "no version"],
)  # fmt: skip
def test_what_is_no_onnx_is_not_claimed_whatever_its_name(data: bytes, tmp_path: Path) -> None:
    assert not claimed(data, tmp_path)


def test_random_bytes_are_not_claimed(tmp_path: Path) -> None:
    chance = random.Random(23)
    for _ in range(300):
        assert not claimed(b"\x08" + chance.randbytes(chance.randrange(200)), tmp_path)


def test_other_messages_of_protocol_buffers_are_not_claimed(tmp_path: Path) -> None:
    for other in (
        model([node("Relu", ["x"])]).graph,
        node("Relu", ["x"]),
        numpy_helper.from_array(GAMMA, "t"),
        helper.make_opsetid("", 17),
    ):
        assert not claimed(other.SerializeToString(), tmp_path)


def test_a_model_is_claimed_under_any_name_and_when_it_is_cut(tmp_path: Path) -> None:
    for name in ("model.onnx", "model.bin", "weights", "model.pt"):
        assert claimed(SMALL, tmp_path, name)
    for length in (200, 1000, len(SMALL) - 1):
        assert claimed(SMALL[:length], tmp_path)
        assert isinstance(outcome(SMALL[:length], tmp_path), MalformedError)


def test_claiming_reads_little(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    weights = {"w": np.zeros((1000, 1000), np.float32), **PARAMETERS}
    path.write_bytes(model([node("MatMul", ["x", "w"])], weights).SerializeToString())
    with ByteSource.open(path) as source:
        candidate = Candidate(path, source)
        assert FORMAT.claims(candidate)
        assert source.bytes_read < 16_384


def test_one_format_claims_it(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(SMALL)
    with ByteSource.open(tmp_path / "model.onnx") as source:
        assert identify(Candidate(tmp_path / "model.onnx", source)).name == "ONNX"


def test_weights_are_walked_past(tmp_path: Path) -> None:
    nodes: list[onnx.NodeProto] = []
    arrays: dict[str, Any] = {}
    current = "x"
    for index in range(20):
        arrays[f"c{index}.weight"] = np.zeros((64, 64, 3, 3), np.float32)
        arrays |= {f"n{index}.{name.split('.')[1]}": array for name, array in PARAMETERS.items()}
        nodes.append(node("Conv", [current, f"c{index}.weight"], [f"h{index}"]))
        norm = [f"n{index}.{name.split('.')[1]}" for name in PARAMETERS]
        nodes.append(node("BatchNormalization", [f"h{index}", *norm], [f"y{index}"]))
        current = f"y{index}"
    path = tmp_path / "model.onnx"
    path.write_bytes(model(nodes, arrays, outputs=(current,)).SerializeToString())
    found = describe_file(path)
    assert len(found.parts[0].layers) == 20
    assert found.artifact.size > 2_900_000
    assert found.artifact.bytes_read < 60_000
