"""Folders of torch.distributed.checkpoint against what torch itself puts together from them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from state_dicts import assert_norms_equal, batch_norm
from torch import nn
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, Metadata

from bnaudit.description import Description
from bnaudit.errors import BnauditError, MalformedError, UnsafePathError
from bnaudit.formats import Candidate, distributed_checkpoint

pytestmark = pytest.mark.filterwarnings("ignore")


def network() -> nn.Module:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(36, 2))
    net(torch.randn(2, 3, 5, 5))
    return net


def read(folder: Path) -> Description:
    candidate = Candidate(folder, None)
    assert distributed_checkpoint.claims(candidate)
    return distributed_checkpoint.read(candidate)


def test_tensors_are_those_that_torch_merges(tmp_path: Path) -> None:
    net = network()
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.randn(2, 3, 5, 5)).sum().backward()
    optimizer.step()
    folder = tmp_path / "step_1"
    dcp.save({"model": net.state_dict(), "optim": optimizer.state_dict(), "epoch": 3}, checkpoint_id=folder)
    dcp_to_torch_save(folder, tmp_path / "merged.pt")
    description = read(folder)
    (part,) = description.parts
    assert_norms_equal(part, torch.load(tmp_path / "merged.pt", weights_only=False)["model"])
    assert (part.name, description.has_optimizer, description.gaps) == ("model", True, ())
    assert description.artifact.size == sum(file.stat().st_size for file in folder.iterdir())
    assert description.artifact.format == "torch.distributed.checkpoint"


def test_a_flat_state_dict_is_the_whole_part(tmp_path: Path) -> None:
    tensors = batch_norm("layer.bn", 5, torch.bfloat16, 4)
    dcp.save(tensors, checkpoint_id=tmp_path)
    description = read(tmp_path)
    assert_norms_equal(description.parts[0], tensors)
    assert (description.parts[0].name, description.has_optimizer) == ("", False)


def metadata(folder: Path) -> Metadata:
    with (folder / ".metadata").open("rb") as file:
        return pickle.load(file)


def rewrite(folder: Path, changed: Metadata) -> None:
    with (folder / ".metadata").open("wb") as file:
        pickle.dump(changed, file)


def split_in_pieces(folder: Path) -> dict[str, torch.Tensor]:
    """A checkpoint whose running mean lies in two pieces, as two processes would write them."""
    whole = batch_norm("bn", 6, torch.float32, 4)
    mean = whole["bn.running_mean"]
    halves: dict[str, Any] = {k: v for k, v in whole.items() if k != "bn.running_mean"}
    dcp.save(halves | {"first": mean[:4].clone(), "second": mean[4:].clone()}, checkpoint_id=folder)
    changed = metadata(folder)
    described = changed.state_dict_metadata
    tensor = described.pop("first")
    del described["second"]
    tensor.size = torch.Size([6])
    tensor.chunks = [
        ChunkStorageMetadata(torch.Size([0]), torch.Size([4])),
        ChunkStorageMetadata(torch.Size([4]), torch.Size([2])),
    ]
    described["bn.running_mean"] = tensor
    for index in list(changed.storage_data):
        if index.fqn in ("first", "second"):
            offset = torch.Size([0 if index.fqn == "first" else 4])
            changed.storage_data[type(index)("bn.running_mean", offset)] = changed.storage_data.pop(index)
    changed.planner_data = {name: (name,) for name in described}
    rewrite(folder, changed)
    return whole


def test_a_tensor_in_several_pieces_is_put_together(tmp_path: Path) -> None:
    whole = split_in_pieces(tmp_path)
    loaded = {name: torch.zeros_like(t) for name, t in whole.items()}
    dcp.load(loaded, checkpoint_id=tmp_path)
    assert torch.equal(loaded["bn.running_mean"], whole["bn.running_mean"])
    assert_norms_equal(read(tmp_path).parts[0], loaded)


@pytest.mark.parametrize("sizes", [(4, 3), (3, 2), (6, 2), (2, 4)])
def test_pieces_that_do_not_fit_are_a_gap(tmp_path: Path, sizes: tuple[int, int]) -> None:
    split_in_pieces(tmp_path)
    changed = metadata(tmp_path)
    chunks = changed.state_dict_metadata["bn.running_mean"].chunks  # type: ignore[union-attr]
    for chunk, size in zip(chunks, sizes, strict=True):
        chunk.sizes = torch.Size([size])
    rewrite(tmp_path, changed)
    assert [gap.where for gap in read(tmp_path).gaps] == ["bn.running_mean"]


def test_a_missing_file_of_pieces_is_a_gap_for_each_tensor(tmp_path: Path) -> None:
    dcp.save(batch_norm("bn", 3, torch.float32, 4), checkpoint_id=tmp_path)
    (tmp_path / "__0_0.distcp").rename(tmp_path / "other.distcp")
    gaps = read(tmp_path).gaps
    assert len(gaps) == 5 and "does not exist" in gaps[0].why


def test_a_file_outside_the_folder_is_refused(tmp_path: Path) -> None:
    dcp.save(batch_norm("bn", 3, torch.float32, 4), checkpoint_id=tmp_path)
    changed = metadata(tmp_path)
    next(iter(changed.storage_data.values())).relative_path = "../secret.distcp"
    rewrite(tmp_path, changed)
    with pytest.raises(UnsafePathError):
        read(tmp_path)


def test_metadata_of_something_else_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "a.distcp").write_bytes(b"")
    (tmp_path / ".metadata").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(MalformedError, match=r"not that of a torch\.distributed\.checkpoint"):
        read(tmp_path)


def test_truncation_and_flipped_bytes_of_the_metadata(tmp_path: Path) -> None:
    dcp.save(batch_norm("bn", 3, torch.float32, 4), checkpoint_id=tmp_path)
    data = (tmp_path / ".metadata").read_bytes()
    for position in range(1, len(data), 17):
        for damaged in (data[:position], data[:position] + bytes([data[position] ^ 0x41]) + data[position + 1 :]):
            (tmp_path / ".metadata").write_bytes(damaged)
            try:
                assert isinstance(read(tmp_path), Description)
            except BnauditError as error:
                assert "\n" not in str(error)
