"""Bare pickles: NumPy dicts of the model zoos, and what pickle.dump makes of torch objects."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from state_dicts import assert_norms_equal, batch_norm, describe, state_dicts
from torch import nn

from bnaudit.description import Carrier, NormKind
from bnaudit.errors import BnauditError, NotAModelError
from bnaudit.formats import Candidate, numpy_pickle
from bnaudit.reading.byte_source import ByteSource


@given(tensors=state_dicts(), protocol=st.integers(0, 5))
def test_arrays_of_every_protocol_equal_what_was_pickled(
    tensors: dict[str, torch.Tensor], protocol: int, tmp_path: Path
) -> None:
    plain = {name: t.float() if t.dtype is torch.bfloat16 else t for name, t in tensors.items()}
    path = tmp_path / "zoo.pkl"
    arrays = {name: t.numpy() for name, t in plain.items()} | {"fc.weight": np.zeros((2, 2))}
    path.write_bytes(pickle.dumps({"model": arrays, "__author__": "someone"}, protocol))
    description = describe(path)
    assert_norms_equal(description.parts[0], plain | {"fc.weight": torch.zeros(2, 2)})
    assert (description.parts[0].name, description.artifact.format) == ("model", "pickle")


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickled_state_dict_of_torch_tensors_is_read(tmp_path: Path, protocol: int) -> None:
    tensors = batch_norm("bn", 5, torch.float32, 9)
    path = tmp_path / "dumped.pkl"
    path.write_bytes(pickle.dumps(tensors, protocol))
    assert_norms_equal(describe(path).parts[0], tensors)


def test_a_pickled_module_is_read(tmp_path: Path) -> None:
    path = tmp_path / "module.pickle"
    path.write_bytes(pickle.dumps(nn.Sequential(nn.BatchNorm1d(3))))
    (part,) = describe(path).parts
    assert (part.carrier, part.layers[0].kind, part.layers[0].training) == (Carrier.MODULE, NormKind.BATCH, True)


def test_big_endian_arrays_and_python_2_names_are_read(tmp_path: Path) -> None:
    arrays = {f"conv1_bn_{leaf}": np.arange(3, dtype=">f4") + i for i, leaf in enumerate(("s", "b", "rm", "riv"))}
    path = tmp_path / "R-50.pkl"
    path.write_bytes(pickle.dumps(arrays, 2).replace(b"numpy._core", b"numpy.core"))
    (layer,) = describe(path).parts[0].layers
    assert (layer.name, layer.kind) == ("conv1_bn", NormKind.FROZEN_BATCH)
    assert layer.var is not None and layer.var.tolist() == [3.0, 4.0, 5.0]


def test_a_pickle_without_tensors_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "config.pkl"
    path.write_bytes(pickle.dumps({"lr": 0.1, "names": ["a", "b"]}))
    with pytest.raises(NotAModelError, match="without a tensor"):
        describe(path)


def test_a_torch_tensor_without_its_storage_is_a_gap(tmp_path: Path) -> None:
    import io
    import zipfile

    stream = io.BytesIO()
    torch.save(batch_norm("bn", 3, torch.float32, 5), stream)
    with zipfile.ZipFile(stream) as archive:
        (name,) = (member for member in archive.namelist() if member.endswith("/data.pkl"))
        path = tmp_path / "data.pkl"
        path.write_bytes(archive.read(name))
    description = describe(path)
    assert len(description.gaps) == 5 and "torch.save" in description.gaps[0].why


@pytest.mark.parametrize(
    "content", [b"\x80\x02", b"\x80\x04\x95", b"(dp0\n", b"ccollections\nOrderedDict\n(", b"}q\x00"]
)
def test_what_begins_like_a_pickle_is_claimed_and_breaks_with_one_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cut.pkl"
    path.write_bytes(content)
    with ByteSource.open(path) as source:
        candidate = Candidate(path, source)
        assert numpy_pickle.claims(candidate)
        with pytest.raises(BnauditError):
            numpy_pickle.read(candidate)


@pytest.mark.parametrize(
    "content", [b"\x80\x02\0\0\0\0\0\0{}", b"PK\x03\x04", b"\x08\x07\x12", b"hello", b"", b"\x93NUMPY"]
)
def test_other_content_is_not_claimed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.pkl"
    path.write_bytes(content)
    with ByteSource.open(path) as source:
        assert not numpy_pickle.claims(Candidate(path, source))
