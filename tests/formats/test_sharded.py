"""Sharded checkpoints and Hugging Face folders: one model from many files, both kinds side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from bnaudit.description import Description, NormLayer
from bnaudit.errors import NotAuditedError, UnreadableError, UnsafePathError
from bnaudit.formats import Candidate, huggingface_folder, identify, sharded
from bnaudit.reading.byte_source import ByteSource


def network() -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6))
    model(torch.randn(2, 3, 9, 9))
    return dict(model.state_dict())


def shards(tensors: dict[str, torch.Tensor], folder: Path, stem: str, suffix: str) -> dict[str, str]:
    """Write every second tensor to each of two shards, so that layers are spread over both; returns the map."""
    names = [f"{stem}-0000{n}-of-00002{suffix}" for n in (1, 2)]
    weight_map = {name: names[i % 2] for i, name in enumerate(tensors)}
    for shard in names:
        part = {name: t for name, t in tensors.items() if weight_map[name] == shard}
        if suffix == ".safetensors":
            save_file(part, folder / shard)
        else:
            torch.save(part, folder / shard)
    (folder / f"{stem}{suffix}.index.json").write_text(
        json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map})
    )
    return weight_map


def read_index(path: Path) -> Description:
    with ByteSource.open(path) as source:
        candidate = Candidate(path, source)
        assert identify(candidate) is sharded.FORMAT
        return sharded.read(candidate)


def read_folder(path: Path) -> Description:
    candidate = Candidate(path, None)
    assert identify(candidate) is huggingface_folder.FORMAT
    return huggingface_folder.read(candidate)


def assert_equal(layers: tuple[NormLayer, ...], tensors: dict[str, torch.Tensor]) -> None:
    assert [layer.name for layer in layers] == ["1", "3"]
    for layer in layers:
        for stored in layer.tensors:
            np.testing.assert_array_equal(stored.values, tensors[stored.name].double().numpy())
        assert len(layer.tensors) == 5


@pytest.mark.parametrize(("stem", "suffix"), [("model", ".safetensors"), ("pytorch_model", ".bin")])
def test_layers_spread_over_shards_are_put_together(tmp_path: Path, stem: str, suffix: str) -> None:
    tensors = network()
    shards(tensors, tmp_path, stem, suffix)
    index = tmp_path / f"{stem}{suffix}.index.json"
    description = read_index(index)
    (part,) = description.parts
    assert_equal(part.layers, tensors)
    assert (part.name, part.tensors, description.gaps) == ("", len(tensors), ())
    assert description.artifact.size == sum(p.stat().st_size for p in tmp_path.iterdir())
    assert description.artifact.bytes_read > 0


def test_a_missing_shard_is_a_gap_and_the_other_is_read(tmp_path: Path) -> None:
    weight_map = shards(network(), tmp_path, "model", ".safetensors")
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    description = read_index(tmp_path / "model.safetensors.index.json")
    (gap,) = description.gaps
    assert gap.where == "model-00002-of-00002.safetensors" and "does not exist" in gap.why
    assert description.parts[0].tensors == sum(file.startswith("model-00001") for file in weight_map.values())


def test_without_any_shard_there_is_one_error(tmp_path: Path) -> None:
    shards(network(), tmp_path, "model", ".safetensors")
    for shard in tmp_path.glob("*.safetensors"):
        shard.unlink()
    with pytest.raises(UnreadableError, match="does not exist"):
        read_index(tmp_path / "model.safetensors.index.json")


@pytest.mark.parametrize("file", ["../secret.safetensors", "/etc/passwd", "a\\b.safetensors", "..", "", "x\0y", "C:x"])
def test_an_index_that_leaves_its_folder_is_refused(tmp_path: Path, file: str) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"bn.weight": file}}))
    with pytest.raises(UnsafePathError, match="not a file beside it"):
        read_index(index)


@pytest.mark.parametrize(
    "content", ['{"weight_map": 3}', '{"weight_map": {}}', '{"weight_map": {"a": 1}}', '{"a', "{}"]
)
def test_a_broken_index_is_one_error(tmp_path: Path, content: str) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(content)
    with pytest.raises(UnreadableError):
        read_index(index)


def test_shards_of_another_framework_are_named(tmp_path: Path) -> None:
    index = tmp_path / "tf_model.h5.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "tf_model-00001-of-00002.h5"}}))
    with pytest.raises(NotAuditedError, match="h5"):
        read_index(index)


def test_a_tensor_that_its_shard_lacks_is_a_gap(tmp_path: Path) -> None:
    tensors = network()
    weight_map = shards(tensors, tmp_path, "model", ".safetensors")
    weight_map["5.weight"] = "model-00001-of-00002.safetensors"
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    (gap,) = read_index(index).gaps
    assert gap.where == "5.weight"


def configured(folder: Path, **config: Any) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_both_kinds_side_by_side_are_both_audited_and_said(tmp_path: Path) -> None:
    tensors = network()
    shards(tensors, tmp_path, "model", ".safetensors")
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    (tmp_path / "tf_model.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    torch.save({"state": {}, "param_groups": []}, tmp_path / "optimizer.pt")
    (tmp_path / "trainer_state.json").write_text('{"global_step": 1200, "epoch": 3.0}')
    description = read_folder(configured(tmp_path, transformers_version="4.38.1"))
    assert [part.name for part in description.parts] == ["model.safetensors.index.json", "pytorch_model.bin"]
    for part in description.parts:
        assert_equal(part.layers, tensors)
    assert description.artifact.producer == "transformers 4.38.1"
    assert (description.steps, description.has_optimizer) == (1200, True)
    assert len(description.remarks) == 2 and "tf_model.h5" in description.remarks[1]
    assert description.gaps == ()


def test_a_folder_with_one_model_names_no_part(tmp_path: Path) -> None:
    tensors = network()
    save_file(tensors, tmp_path / "model.safetensors")
    description = read_folder(configured(tmp_path))
    assert [part.name for part in description.parts] == [""]
    assert description.remarks == ()


def test_shards_without_an_index_are_found_by_their_numbers(tmp_path: Path) -> None:
    tensors = network()
    shards(tensors, tmp_path, "model", ".safetensors")
    (tmp_path / "model.safetensors.index.json").unlink()
    assert_equal(read_folder(configured(tmp_path)).parts[0].layers, tensors)
    (tmp_path / "model-00001-of-00002.safetensors").unlink()
    assert "1 of its files" in read_folder(tmp_path).gaps[0].why


def test_a_broken_model_beside_a_good_one_is_a_gap(tmp_path: Path) -> None:
    save_file(network(), tmp_path / "model.safetensors")
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK\x03\x04 nothing")
    description = read_folder(configured(tmp_path))
    assert [gap.where for gap in description.gaps] == ["pytorch_model.bin"]
    assert len(description.parts) == 1


def test_a_folder_of_models_without_config_is_no_model(tmp_path: Path) -> None:
    save_file(network(), tmp_path / "a.safetensors")
    assert not huggingface_folder.claims(Candidate(tmp_path, None))
