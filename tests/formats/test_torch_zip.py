"""Zip checkpoints against what torch.load makes of them."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from state_dicts import FLOATS, assert_norms_equal, batch_norm, describe, state_dicts
from torch import nn

from bnaudit.description import Carrier
from bnaudit.errors import MalformedError
from bnaudit.formats import Candidate, torch_zip
from bnaudit.reading.byte_source import ByteSource


@given(tensors=state_dicts())
def test_names_dtypes_and_values_are_those_that_torch_loads(tensors: dict[str, torch.Tensor], tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    torch.save(tensors | {"head.weight": torch.zeros(2, 2)}, path)
    description = describe(path)
    assert_norms_equal(description.parts[0], torch.load(path, weights_only=True))
    assert description.artifact.format == "PyTorch zip checkpoint"
    assert (description.gaps, description.imports[0].name) == ((), "torch._utils._rebuild_tensor_v2")


def test_views_strides_and_shared_storages_are_read_exactly(tmp_path: Path) -> None:
    base = torch.arange(60, dtype=torch.float32)
    tensors = {
        "bn.weight": base[3:13:2],
        "bn.bias": base.reshape(6, 10)[:5, 3],
        "bn.running_mean": torch.tensor(7.5).expand(5),
        "bn.running_var": base[20:25],
        "bn.num_batches_tracked": torch.arange(9)[4],
    }
    path = tmp_path / "views.pt"
    torch.save(tensors, path)
    assert_norms_equal(describe(path).parts[0], tensors)


def repacked(path: Path, change: Any, compression: int = zipfile.ZIP_STORED) -> None:
    """Write the archive again with `change(name, data)` for every member."""
    with zipfile.ZipFile(path) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members:
            archive.writestr(name, change(name, data))


def test_deflated_members_are_read(tmp_path: Path) -> None:
    tensors = batch_norm("bn", 64, torch.float32, 5)
    path = tmp_path / "deflated.pt"
    torch.save(tensors, path)
    repacked(path, lambda name, data: data, zipfile.ZIP_DEFLATED)
    assert_norms_equal(describe(path).parts[0], torch.load(path, weights_only=True))


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_big_endian_archive_is_read_as_torch_reads_it(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = {name: t for name, t in batch_norm("bn", 5, dtype, 9).items() if "num_b" not in name}
    path = tmp_path / "big.pt"
    torch.save(tensors, path)
    width = tensors["bn.weight"].element_size()

    def swapped(name: str, data: bytes) -> bytes:
        if name.endswith("/byteorder"):
            return b"big"
        return np.frombuffer(data, f"u{width}").byteswap().tobytes() if "/data/" in name else data

    repacked(path, swapped)
    loaded = torch.load(path, weights_only=True)
    assert torch.equal(loaded["bn.weight"], tensors["bn.weight"])
    assert_norms_equal(describe(path).parts[0], loaded)


def test_wrong_checksums_do_not_matter_as_they_do_not_to_torch(tmp_path: Path) -> None:
    tensors = batch_norm("bn", 5, torch.float32, 9)
    path = tmp_path / "crc.pt"
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(tensors, path)
    finally:
        torch.serialization.set_crc32_options(True)
    assert_norms_equal(describe(path).parts[0], torch.load(path, weights_only=True))


def test_a_whole_module_is_a_part_with_its_classes(tmp_path: Path) -> None:
    path = tmp_path / "module.pt"
    torch.save(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), path)
    (part,) = describe(path).parts
    assert (part.carrier, part.layers[0].class_name) == (Carrier.MODULE, "torch.nn.modules.batchnorm.BatchNorm2d")


def test_a_large_checkpoint_costs_less_than_a_hundredth_of_its_bytes(tmp_path: Path) -> None:
    tensors: dict[str, torch.Tensor] = {}
    for i in range(10):
        tensors[f"l{i}.conv.weight"] = torch.zeros(256, 256, 3, 3)
        tensors |= batch_norm(f"l{i}.bn", 256, torch.float32, i)
    path = tmp_path / "large.pt"
    torch.save(tensors, path)
    artifact = describe(path).artifact
    assert artifact.size > 23_000_000 and artifact.bytes_read < artifact.size / 100


def test_other_pytorch_archives_are_not_claimed(tmp_path: Path) -> None:
    scripted, exported = tmp_path / "s.pt", tmp_path / "e.pt2"
    torch.jit.save(torch.jit.script(nn.BatchNorm1d(2)), scripted)
    torch.export.save(torch.export.export(nn.BatchNorm1d(2).eval(), (torch.randn(3, 2),)), exported)
    for path in (scripted, exported):
        with ByteSource.open(path) as source:
            assert not torch_zip.claims(Candidate(path, source))


def test_a_truncated_archive_is_one_sentence(tmp_path: Path) -> None:
    stream = io.BytesIO()
    torch.save(batch_norm("bn", 64, torch.float32, 5), stream)
    path = tmp_path / "cut.pt"
    path.write_bytes(stream.getvalue()[:-200])
    with pytest.raises(MalformedError, match=r"^[^\n]+$"):
        describe(path)


def test_a_missing_storage_is_a_gap_that_names_the_tensor(tmp_path: Path) -> None:
    path = tmp_path / "hole.pt"
    torch.save(batch_norm("bn", 3, torch.float32, 5), path)
    with zipfile.ZipFile(path) as archive:
        kept = [(i.filename, archive.read(i)) for i in archive.infolist() if not i.filename.endswith("/data/2")]
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in kept:
            archive.writestr(name, data)
    description = describe(path)
    assert [gap.where for gap in description.gaps] == ["bn.running_mean"]
    mean = description.parts[0].layers[0].running_mean
    assert mean is not None and mean.unread and mean.values is None
