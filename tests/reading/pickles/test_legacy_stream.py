"""torch.save's old format against torch.load."""

from __future__ import annotations

import io
import pickle
import random
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from sources import MemoryFiles, source_of

from bnaudit.errors import MalformedError, UnreadableError
from bnaudit.reading.pickles.imports import ImportLog
from bnaudit.reading.pickles.legacy_stream import MAGIC_NUMBER, LegacyStream
from bnaudit.reading.pickles.machine import run
from bnaudit.reading.pickles.stand_ins import Call, PickleDict
from bnaudit.reading.tensors.tensor_refs import TensorRef
from bnaudit.reading.tensors.torch_tensors import TorchTensors

FILES = MemoryFiles()


def saved(value: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=False)
    return buffer.getvalue()


def refs(stream: LegacyStream) -> dict[str, TensorRef]:
    items = stream.root.items if isinstance(stream.root, Call) else stream.root
    if not isinstance(items, PickleDict):
        return {}
    tensors = TorchTensors(stream.storages)
    found = {str(key): tensors.tensor(value) for key, value in items.pairs()}
    return {key: ref for key, ref in found.items() if ref is not None}


def values() -> dict[str, torch.Tensor]:
    shared = torch.arange(12.0).reshape(3, 4)
    return {
        "weight": shared,
        "transposed": shared.t(),
        "row": shared[1],
        "half": torch.tensor([1.5, -2.0], dtype=torch.float16),
        "bfloat16": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "count": torch.tensor(92385),
        "flags": torch.tensor([True, False]),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "empty": torch.empty(0),
    }


def test_equals_torch_load() -> None:
    data = saved(values())
    stream = LegacyStream(FILES.source(data))
    loaded = torch.load(io.BytesIO(data))

    found = refs(stream)

    assert stream.storages.missing == ()
    assert list(found) == list(loaded)
    for name, tensor in loaded.items():
        wide = tensor.detach().to(torch.float64 if tensor.is_floating_point() else torch.int64)
        assert found[name].dtype == str(tensor.dtype).removeprefix("torch.")
        np.testing.assert_array_equal(found[name].load(), wide.numpy())


def with_view() -> bytes:
    """A file of PyTorch 0.3's kind: the persistent id says that the storage is a view of elements 2 to 5 of a root."""
    pid = (
        b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x007X\x03\x00\x00\x00cpuK\x06"
        b"(X\x01\x00\x00\x009K\x02K\x03ttQ"
    )
    tensor = b"ctorch._utils\n_rebuild_tensor\n(" + pid + b"K\x01K\x02\x85K\x01\x85tR"
    root = b"\x80\x02}X\x01\x00\x00\x00x" + tensor + b"s."
    heads = b"".join(pickle.dumps(value, 2) for value in (MAGIC_NUMBER, 1001, {"little_endian": True}))
    return heads + root + pickle.dumps(["7"], 2) + struct.pack("<q6f", 6, *range(6))


def test_reads_views_in_the_persistent_id() -> None:
    data = with_view()
    assert torch.load(io.BytesIO(data))["x"].tolist() == [3, 4]

    ref = refs(LegacyStream(FILES.source(data)))["x"]

    assert ref.load().tolist() == [3, 4]
    assert ref.requires_grad is None


def test_views_end_where_they_say() -> None:
    data = with_view().replace(b"K\x01K\x02\x85K\x01\x85tR", b"K\x02K\x02\x85K\x01\x85tR")

    with pytest.raises(MalformedError, match="behind its storage"):
        refs(LegacyStream(FILES.source(data)))["x"].load()


def test_reads_only_what_it_needs(tmp_path: Path) -> None:
    data = saved({"conv": torch.zeros(1 << 20), "bn": torch.ones(8)})
    with source_of(data, tmp_path) as source:
        assert refs(LegacyStream(source))["bn"].load().sum() == 8
        assert source.bytes_read < 10_000


def test_a_file_that_ends_early_names_the_missing_storages() -> None:
    data = saved({"a": torch.ones(4), "b": torch.ones(400)})

    stream = LegacyStream(FILES.source(data[:-1]))

    assert len(stream.storages.missing) == 1
    readable = [name for name, ref in refs(stream).items() if isinstance(attempt(ref), np.ndarray)]
    assert len(readable) == 1


def attempt(ref: TensorRef) -> object:
    try:
        return ref.load()
    except UnreadableError as error:
        return error


def test_other_files_are_refused() -> None:
    with pytest.raises(MalformedError, match="magic"):
        LegacyStream(FILES.source(pickle.dumps({"a": 1})))
    with pytest.raises(MalformedError):
        LegacyStream(FILES.source(pickle.dumps(MAGIC_NUMBER, 2)))


def test_truncation_and_damage_give_tensors_or_an_error() -> None:
    data, chance = saved(values()), random.Random(5)
    cases = [data[:length] for length in range(0, len(data), 7)]
    for _ in range(2000):
        damaged = bytearray(data)
        for _ in range(chance.choice((1, 1, 3))):
            damaged[chance.randrange(len(damaged))] = chance.choice((0, 255, chance.randrange(256)))
        cases.append(bytes(damaged))
    for case in cases:
        try:
            for ref in refs(LegacyStream(FILES.source(case))).values():
                attempt(ref)
        except UnreadableError as error:
            assert "\n" not in str(error)


def test_torch_files_inside_a_pickle_log_their_imports() -> None:
    hostile = b"cos\nsystem\nX\x04\x00\x00\x00true\x85R."
    heads = b"".join(pickle.dumps(value, 2) for value in (MAGIC_NUMBER, 1001, {}))
    inner = heads + hostile + pickle.dumps([], 2)
    for embedded in (inner, as_zip(hostile), heads + hostile[:-1] + b"\xff"):
        data = b"\x80\x03ctorch.storage\n_load_from_bytes\nB" + struct.pack("<I", len(embedded)) + embedded + b"\x85R."
        assert "os.system" in {found.name for found in run(FILES.source(data)).imports}


def test_torch_files_inside_a_pickle_that_breaks_off_log_their_imports() -> None:
    heads = b"".join(pickle.dumps(value, 2) for value in (MAGIC_NUMBER, 1001, {}))
    inner = heads + b"cos\nsystem\n." + pickle.dumps([], 2)
    data = b"\x80\x03ctorch.storage\n_load_from_bytes\nB" + struct.pack("<I", len(inner)) + inner + b"\x85R\xff"
    log = ImportLog()

    with pytest.raises(MalformedError):
        run(FILES.source(data), 0, None, log)
    assert "os.system" in {found.name for found in log.imports()}


def test_a_list_of_storages_that_is_no_list_of_keys_is_malformed() -> None:
    heads = b"".join(pickle.dumps(value, 2) for value in (MAGIC_NUMBER, 1001, {}, {}))
    for keys in (b"]" * 5000 + b"a" * 4999 + b".", b"](K\x01U\x01ae.", b"N."):
        with pytest.raises(MalformedError, match="storages"):
            LegacyStream(FILES.source(heads + keys))


def as_zip(pickled: bytes) -> bytes:
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
    return buffer.getvalue()


def test_torch_files_inside_one_another_are_capped() -> None:
    data = b"N."
    heads = b"".join(pickle.dumps(value, 2) for value in (MAGIC_NUMBER, 1001, {}))
    for _ in range(30):
        data = b"\x80\x03ctorch.storage\n_load_from_bytes\nB" + struct.pack("<I", len(data)) + data + b"\x85R."
        data = heads + data + pickle.dumps([], 2)

    with pytest.raises(UnreadableError, match="embedded in one another"):
        LegacyStream(FILES.source(data))


def test_whole_modules_carry_their_classes_with_source() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = saved(torch.nn.Sequential(torch.nn.BatchNorm2d(2)))
    root = LegacyStream(FILES.source(data)).root

    assert isinstance(root, Call)
    assert root.callee_name == "torch.nn.modules.container.Sequential"
