"""Tensors in torch's files against torch.load, bit for bit."""

from __future__ import annotations

import io
import pickle
import random
import struct
import warnings
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sources import MemoryFiles, source_of

from bnaudit.caps import Caps
from bnaudit.errors import CapExceededError, MalformedError, UnreadableError
from bnaudit.reading.pickles import machine
from bnaudit.reading.pickles.stand_ins import Call, PickleDict
from bnaudit.reading.tensors.tensor_refs import TensorRef
from bnaudit.reading.tensors.torch_tensors import TorchTensors, ZipStorages
from bnaudit.reading.tensors.zip_storages import is_big_endian
from bnaudit.reading.zip_directory import ZipDirectory

FILES = MemoryFiles()
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.bool)
FLOATS = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
)


def saved(value: object, **options: Any) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(value, buffer, **options)
    return buffer.getvalue()


def refs(data: bytes, files: MemoryFiles = FILES) -> dict[str, TensorRef]:
    """The tensors of a saved flat dict by key."""
    archive = ZipDirectory(files.source(data))
    root = machine.run(archive.open(archive.record_prefix() + "data.pkl")).root
    tensors = TorchTensors(ZipStorages(archive), big_endian=is_big_endian(archive))
    items = root.items if isinstance(root, Call) else root
    if not isinstance(items, PickleDict):
        return {}
    found = {str(key): tensors.tensor(value) for key, value in items.pairs()}
    return {key: ref for key, ref in found.items() if ref is not None}


def only(value: object, **options: Any) -> TensorRef:
    return refs(saved({"x": value}, **options))["x"]


def assert_equal(ref: TensorRef, tensor: torch.Tensor) -> None:
    """Same dtype, shape and values as torch has them, widened by torch."""
    expected = tensor.detach().resolve_neg()
    wide = torch.float64 if tensor.dtype.is_floating_point else torch.int64
    values = ref.load()
    assert ref.dtype == str(tensor.dtype).removeprefix("torch.")
    assert ref.shape == tuple(tensor.shape) == values.shape
    np.testing.assert_array_equal(values, expected.to(wide).numpy())
    assert values.dtype == (np.float64 if wide is torch.float64 else np.int64)
    if wide is torch.float64:
        numbers = ~np.isnan(values)
        np.testing.assert_array_equal(np.signbit(values)[numbers], np.signbit(expected.to(wide).numpy())[numbers])


def bits(dtype: torch.dtype, data: bytes) -> torch.Tensor:
    """A tensor of any dtype from raw bytes: every bit pattern, NaNs and denormals among them."""
    raw = torch.tensor(list(data), dtype=torch.uint8)
    if dtype is torch.bool:
        return raw > 127
    size = torch.empty(0, dtype=dtype).element_size()
    return raw[: len(raw) // size * size].clone().view(dtype)


@st.composite
def state_dicts(draw: st.DrawFn) -> dict[str, torch.Tensor]:
    """Tensors of all dtypes; views of shared storages with any strides and offsets, expanded and empty ones."""
    found: dict[str, torch.Tensor] = {}
    for number in range(draw(st.integers(1, 3))):
        flat = bits(draw(st.sampled_from(INTEGERS + FLOATS)), draw(st.binary(min_size=64, max_size=200)))
        found[f"{number}.flat"] = flat
        for view in range(draw(st.integers(0, 3))):
            shape = draw(st.lists(st.integers(0, 3), max_size=3))
            strides = draw(st.lists(st.integers(0, 2), min_size=len(shape), max_size=len(shape)))
            span = 1 + sum(max(size - 1, 0) * stride for size, stride in zip(shape, strides, strict=True))
            offset = draw(st.integers(0, max(0, len(flat) - span)))
            if span <= len(flat):
                found[f"{number}.view{view}"] = torch.as_strided(flat, shape, strides, offset)
    return found


def test_reads_every_bit_pattern_of_every_dtype() -> None:
    tensors = {str(dtype): bits(dtype, bytes(range(256)) * 8) for dtype in INTEGERS + FLOATS}

    found = refs(saved(tensors))

    for name, tensor in tensors.items():
        assert_equal(found[name], tensor)


@settings(max_examples=80)
@given(state_dict=state_dicts(), protocol=st.sampled_from((2, 3, 4, 5)))
def test_equals_torch_load(state_dict: dict[str, torch.Tensor], protocol: int) -> None:
    data = saved(state_dict, pickle_protocol=protocol)

    found = refs(data)

    loaded = torch.load(io.BytesIO(data), weights_only=protocol == 2)
    assert list(found) == list(loaded)
    for name, tensor in loaded.items():
        assert_equal(found[name], tensor)


def rewritten(data: bytes, method: int, change: dict[str, bytes] | None = None) -> bytes:
    """The archive written again by zipfile, with some members changed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(buffer, "w", method) as target:
        for info in source.infolist():
            target.writestr(info.filename, (change or {}).get(info.filename, source.read(info)))
    return buffer.getvalue()


@settings(max_examples=20)
@given(state_dict=state_dicts())
def test_equals_torch_load_of_deflated_archives(state_dict: dict[str, torch.Tensor]) -> None:
    data = rewritten(saved(state_dict), zipfile.ZIP_DEFLATED)

    loaded = torch.load(io.BytesIO(data))
    for name, ref in refs(data).items():
        assert_equal(ref, loaded[name])


@settings(max_examples=20)
@given(state_dict=state_dicts())
def test_equals_torch_load_of_big_endian_archives(state_dict: dict[str, torch.Tensor]) -> None:
    data = saved(state_dict)
    swapped = {"archive/byteorder": b"big"}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name, storage in ((info.filename, archive.read(info)) for info in archive.infolist()):
            if name.startswith("archive/data/"):
                number = int(name.rsplit("/", 1)[1])
                tensor = list(OrderedDict((t.untyped_storage()._cdata, t) for t in state_dict.values()).values())[
                    number
                ]
                width = tensor.element_size()
                swapped[name] = b"".join(storage[i : i + width][::-1] for i in range(0, len(storage), width))
    big = rewritten(data, zipfile.ZIP_STORED, swapped)

    loaded = torch.load(io.BytesIO(big))
    for name, ref in refs(big).items():
        assert_equal(ref, loaded[name])


def test_wrong_checksums_are_loaded_as_torch_does() -> None:
    compute = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        data = saved({"x": torch.arange(5.0)})
    finally:
        torch.serialization.set_crc32_options(compute)

    assert_equal(refs(data)["x"], torch.load(io.BytesIO(data))["x"])


def test_reads_only_the_bytes_of_the_tensors_asked_for(tmp_path: Path) -> None:
    big = torch.zeros(1 << 20)
    data = saved({"weight": big, "slice": big[1000:1016], "bn": torch.ones(16)})
    with source_of(data, tmp_path) as source:
        archive = ZipDirectory(source)
        root = machine.run(archive.open("archive/data.pkl")).root
        assert isinstance(root, PickleDict)
        tensors = TorchTensors(ZipStorages(archive))
        found = {str(key): tensors.tensor(value) for key, value in root.pairs()}
        before = source.bytes_read
        for name in ("slice", "bn"):
            ref = found[name]
            assert ref is not None
            ref.load()
        assert source.bytes_read - before == 2 * (16 * 4 + 30)
        assert source.bytes_read < 8000


def test_aliases_have_one_identity() -> None:
    shared = torch.ones(6)
    found = refs(saved({"a": shared, "b": shared.view(2, 3), "tail": shared[3:], "other": torch.ones(6)}))

    assert found["a"].identity == found["b"].identity
    assert len({found[name].identity for name in ("a", "tail", "other")}) == 3


@pytest.mark.parametrize("requires_grad", [True, False])
def test_parameters_are_told_from_tensors(requires_grad: bool) -> None:
    parameter = torch.nn.Parameter(torch.ones(2), requires_grad)
    with_state = torch.nn.Parameter(torch.ones(2), requires_grad)
    with_state.note = "x"  # type: ignore[attr-defined]
    found = refs(saved({"p": parameter, "s": with_state, "t": torch.ones(2, requires_grad=requires_grad)}))

    assert [(found[k].is_parameter, found[k].requires_grad) for k in "pst"] == [
        (True, requires_grad),
        (True, requires_grad),
        (False, requires_grad),
    ]
    assert_equal(found["s"], with_state)


class Subclass(torch.Tensor):
    """A plain subclass: saved with its type and its state."""


def test_reads_every_rebuild_form() -> None:
    subclass = torch.arange(3.0).as_subclass(Subclass)
    subclass.tag = 1  # type: ignore[attr-defined]
    tensors = {
        "subclass": subclass,
        "buffer": torch.nn.Buffer(torch.arange(4.0)),
        "negated": torch._neg_view(torch.tensor([1.0, -2.0, 0.0])),
        "no storage class": torch.tensor([1, 65535], dtype=torch.uint16),
        "expanded": torch.tensor(3.0).expand(2, 4),
        "scalar": torch.tensor(7),
        "empty": torch.empty(0, 3),
    }
    found = refs(saved(tensors))

    for name, tensor in tensors.items():
        assert_equal(found[name], torch.Tensor(tensor) if name == "subclass" else tensor)


def call(name: str, *args: object) -> Call:
    module, _, function = name.rpartition(".")
    data = b"c" + f"{module}\n{function}\n".encode() + b"."
    return Call(machine.run(FILES.source(data)).root, args)


def test_reads_device_tensors() -> None:
    # What XLA, HPU and other devices write: a NumPy array or a CPU tensor, and the dtype.
    data = saved({"array": np.arange(3, dtype=np.float32), "tensor": torch.arange(3.0), "dtype": torch.bfloat16})
    archive = ZipDirectory(FILES.source(data))
    root = machine.run(archive.open("archive/data.pkl")).root
    assert isinstance(root, PickleDict)
    tensors = TorchTensors(ZipStorages(archive))

    for name, function in (("array", "from_numpy"), ("tensor", "from_cpu_tensor")):
        made = call(f"torch._utils._rebuild_device_tensor_{function}", root.get(name), root.get("dtype"), "xla:0", True)
        ref = tensors.tensor(made)
        assert ref is not None and ref.requires_grad is True
        assert ref.load().tolist() == [0, 1, 2]


def test_reads_parameters_from_before_0_4() -> None:
    # torch/autograd/variable.py of 0.3: `return type(self), (self.data,), (requires_grad, volatile, hooks)`
    data = saved({"x": torch.arange(3.0)})
    archive = ZipDirectory(FILES.source(data))
    root = machine.run(archive.open("archive/data.pkl")).root
    assert isinstance(root, PickleDict)
    made = call("torch.nn.parameter.Parameter", root.get("x"))
    made.state = (False, False, None)

    ref = TorchTensors(ZipStorages(archive)).tensor(made)

    assert ref is not None and (ref.is_parameter, ref.requires_grad) == (True, False)
    assert ref.load().tolist() == [0, 1, 2]


def test_meta_and_lazy_tensors_have_names_and_no_values() -> None:
    found = refs(
        saved(
            {
                "meta": torch.empty(3, 2, device="meta"),
                "parameter": torch.nn.Parameter(torch.empty(3, device="meta")),
                "lazy": torch.nn.parameter.UninitializedParameter(),
            }
        )
    )

    assert (found["meta"].shape, found["meta"].dtype) == ((3, 2), "float32")
    assert found["parameter"].is_parameter is True
    assert "meta" in found["meta"].absence and "meta" in found["parameter"].absence
    assert "lazy" in found["lazy"].absence
    for ref in found.values():
        with pytest.raises(UnreadableError):
            ref.load()


def test_tensors_that_are_not_dense_are_unreadable_with_a_reason() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = {
            "sparse": torch.eye(3).to_sparse(),
            "csr": torch.eye(3).to_sparse_csr(),
            "quantized": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
            "complex": torch.ones(2, dtype=torch.complex64),
        }
    for name, value in values.items():
        ref = only(value)
        assert not ref.absence
        with pytest.raises(UnreadableError, match="not read"):
            ref.load()
        if name != "csr":
            assert ref.shape == tuple(value.shape)


def test_nested_and_wrapped_tensors_are_unreadable_with_a_reason() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nested = only(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]))
    wrapped = TorchTensors(ZipStorages(ZipDirectory(FILES.source(saved({}))))).tensor(
        call("torch._utils._rebuild_wrapper_subclass", None, None, (4,), (1,), 0, None, None, False)
    )

    for ref in (nested, wrapped):
        assert ref is not None
        with pytest.raises(UnreadableError, match="not read"):
            ref.load()
    assert wrapped is not None and wrapped.shape == (4,)


def test_other_values_are_no_tensors() -> None:
    value = {"a": 1, "b": "text", "c": [torch.ones(1)], "d": OrderedDict(x=1), "e": torch.device("cpu"), "f": None}

    assert refs(saved(value)) == {}


def test_plain_pickles_hold_their_storages_inside() -> None:
    tensors = {"bn": torch.arange(5.0), "conv": torch.arange(4000.0).reshape(40, 100).t(), "n": torch.tensor(3)}
    for protocol in range(6):
        pickled = machine.run(FILES.source(pickle.dumps(tensors, protocol)))
        assert isinstance(pickled.root, PickleDict)
        found = TorchTensors(ZipStorages(ZipDirectory(FILES.source(saved({}))))).tensor
        for name, tensor in tensors.items():
            ref = found(pickled.root.get(name))
            assert ref is not None
            assert_equal(ref, tensor)


def rebuilt(args: bytes, files: MemoryFiles = FILES) -> TensorRef:
    """`_rebuild_tensor_v2` with a float storage of 4 elements and the pickled rest of the arguments."""
    pid = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQ"
    body = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + pid + args + b"\x89NtR."
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x02}X\x01\x00\x00\x00x" + body[2:-1] + b"s.")
        archive.writestr("a/data/0", struct.pack("<4f", 1, 2, 3, 4))
    return refs(buffer.getvalue(), files)["x"]


def test_the_rebuilt_helper_makes_a_tensor() -> None:
    assert rebuilt(b"K\x00K\x04\x85K\x01\x85").load().tolist() == [1, 2, 3, 4]


HUGE = b"\x8a\x09" + (1 << 70).to_bytes(9, "little")
LARGE = b"\x8a\x06" + (1 << 40).to_bytes(6, "little")


@pytest.mark.parametrize(
    "args",
    [
        b"K\x00K\x05\x85K\x01\x85",
        b"K\x01K\x04\x85K\x01\x85",
        b"K\x00K\x02\x85K\x04\x85",
        b"J\xff\xff\xff\xffK\x02\x85K\x01\x85",
        b"K\x00J\xff\xff\xff\xff\x85K\x01\x85",
        b"K\x00K\x02\x85J\xff\xff\xff\xff\x85",
        b"K\x00K\x02\x85)",
        b"K\x00K\x02K\x01",
        b"K\x00X\x01\x00\x00\x00a\x85K\x01\x85",
        b"NK\x02\x85K\x01\x85",
        b"K\x00\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85K\x01\x85",
        b"K\x00(" + b"K\x01" * 40 + b"t(" + b"K\x01" * 40 + b"t",
        b"K\x00(" + b"K\x01" * 9000 + b"t(" + b"K\x01" * 9000 + b"t",
        b"\x88K\x01\x85K\x01\x85",
        b"K\x00\x88\x85K\x01\x85",
        b"K\x00K\x02\x85\x88\x85",
        b"K\x00K\x01\x85" + HUGE + b"\x85",
        b"K\x00K\x00" + HUGE + b"\x86K\x01K\x01\x86",
        b"K\x00K\x00" + LARGE + LARGE + b"\x87K\x01K\x01K\x01\x87",
        b"K\x00K\x00" + b"\x85" + HUGE + b"\x85",
        HUGE + b"K\x00\x85K\x01\x85",
    ],
)
def test_impossible_layouts_are_unreadable(args: bytes) -> None:
    with pytest.raises(MalformedError):
        rebuilt(args).load()


def test_a_huge_expanded_tensor_is_not_allocated() -> None:
    with pytest.raises(CapExceededError, match="value_bytes"):
        rebuilt(b"K\x00J\xff\xff\xff\x7f\x85K\x00\x85").load()
    capped = MemoryFiles(Caps(value_bytes=8))
    with pytest.raises(CapExceededError, match="value_bytes"):
        rebuilt(b"K\x00K\x04\x85K\x01\x85", capped).load()
    capped.close()


def test_a_missing_storage_is_unreadable() -> None:
    data = saved({"x": torch.ones(4)})
    with pytest.raises(MalformedError, match="archive/data/0"):
        refs(data.replace(b"archive/data/0", b"archive/data/9"))["x"].load()


def test_tensors_wrapped_without_end_are_unreadable() -> None:
    value: object = None
    for _ in range(10_000):
        value = call_parameter(value)
    ref = TorchTensors(ZipStorages(ZipDirectory(FILES.source(saved({}))))).tensor(value)
    assert ref is not None
    with pytest.raises(MalformedError, match="too many"):
        ref.load()


_PARAMETER = call("torch._utils._rebuild_parameter").callee


def call_parameter(data: object) -> Call:
    return Call(_PARAMETER, (data, True, None))


def test_random_damage_gives_tensors_or_an_error() -> None:
    chance = random.Random(3)
    state = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 1), torch.nn.BatchNorm2d(2)).state_dict()
    data = saved({**state, "np": np.arange(3.0), "p": torch.nn.Parameter(torch.ones(2))})
    length = data.index(b"archive/byteorder")
    for _ in range(2500):
        damaged = bytearray(data)
        for _ in range(chance.choice((1, 1, 3))):
            damaged[chance.randrange(length)] = chance.choice((0, 255, chance.randrange(256)))
        try:
            for ref in refs(bytes(damaged)).values():
                try:
                    assert ref.load().shape == ref.shape
                except UnreadableError:
                    continue
        except UnreadableError:
            continue
