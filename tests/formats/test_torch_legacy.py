"""Checkpoints of the format before PyTorch 1.6 against what torch.load makes of them."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import pytest
import torch
from hypothesis import given
from state_dicts import assert_norms_equal, batch_norm, describe, state_dicts

from bnaudit.errors import MalformedError


@given(tensors=state_dicts())
def test_names_dtypes_and_values_are_those_that_torch_loads(tensors: dict[str, torch.Tensor], tmp_path: Path) -> None:
    path = tmp_path / "m.pth"
    torch.save(tensors | {"head.weight": torch.zeros(2, 2)}, path, _use_new_zipfile_serialization=False)
    description = describe(path)
    assert_norms_equal(description.parts[0], torch.load(path, weights_only=True))
    assert (description.artifact.format, description.gaps) == ("PyTorch legacy checkpoint", ())


@pytest.mark.parametrize("protocol", [1, 2, 3, 4, 5])
def test_every_pickle_protocol_is_read(tmp_path: Path, protocol: int) -> None:
    tensors = batch_norm("bn", 5, torch.float32, 9)
    path = tmp_path / "m.pth"
    torch.save(tensors, path, _use_new_zipfile_serialization=False, pickle_protocol=protocol)
    assert_norms_equal(describe(path).parts[0], tensors)


class _ViewPickler(pickle.Pickler):
    """Writes tensors as views of one storage, as PyTorch before 1.0 did: the view stands in the persistent id."""

    def persistent_id(self, obj: object) -> object:
        if isinstance(obj, _View):
            view = (obj.key, obj.first, obj.count)
            return ("storage", torch.FloatStorage, "root", "cpu", 20, view)
        return None


class _View:
    def __init__(self, key: str, first: int, count: int) -> None:
        self.key, self.first, self.count = key, first, count


class _Tensor:
    def __init__(self, view: _View, offset: int, size: int) -> None:
        self.parts = (view, offset, (size,), (1,), False, {})

    def __reduce__(self) -> object:
        return torch._utils._rebuild_tensor_v2, self.parts


def test_views_of_a_storage_are_read_as_torch_reads_them(tmp_path: Path) -> None:
    leaves = ("weight", "bias", "running_mean", "running_var")
    saved = {f"bn.{leaf}": _Tensor(_View(f"v{i}", 5 * i, 5), 1, 4) for i, leaf in enumerate(leaves)}
    stream = io.BytesIO()
    for header in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
        pickle.dump(header, stream, protocol=2)
    _ViewPickler(stream, protocol=2).dump(saved)
    pickle.dump(["root"], stream, protocol=2)
    stream.write((20).to_bytes(8, "little") + torch.arange(20, dtype=torch.float32).numpy().tobytes())
    path = tmp_path / "views.pth"
    path.write_bytes(stream.getvalue())
    loaded = torch.load(path, weights_only=False)
    assert loaded["bn.running_var"].tolist() == [16.0, 17.0, 18.0, 19.0]
    assert_norms_equal(describe(path).parts[0], loaded)


def test_a_truncated_file_is_one_sentence(tmp_path: Path) -> None:
    stream = io.BytesIO()
    torch.save(batch_norm("bn", 64, torch.float32, 5), stream, _use_new_zipfile_serialization=False)
    path = tmp_path / "cut.pth"
    path.write_bytes(stream.getvalue()[:-40])
    with pytest.raises(MalformedError, match=r"^cut\.pth is truncated[^\n]+$"):
        describe(path)
