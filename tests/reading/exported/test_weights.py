"""Weights of exported programs that are absent, cut, odd or in another byte order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from exported_builders import described, export, randomized, rewritten, saved
from torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = export(randomized(Net()), torch.randn(2, 4, 8, 8))
    return saved(program, tmp_path_factory.mktemp("pt2") / "net.pt2")


def test_weights_saved_as_fake_tensors_are_absent_and_not_zero(original: Path, tmp_path: Path) -> None:
    def empty(members: dict[str, bytes]) -> dict[str, bytes]:
        return {name: b"" if "/weight_" in name else content for name, content in members.items()}

    layer = described(rewritten(original, tmp_path / "fake.pt2", empty)).parts[0].layers[0]
    assert layer.running_mean is not None
    assert layer.running_mean.values is None
    assert not layer.running_mean.unread
    assert "fake" in layer.running_mean.absence
    assert layer.running_mean.shape == (4,)


def test_weights_that_are_missing_altogether_are_named_without_values(original: Path, tmp_path: Path) -> None:
    def strip(members: dict[str, bytes]) -> dict[str, bytes]:
        return {name: content for name, content in members.items() if "/data/weights/" not in name}

    layer = described(rewritten(original, tmp_path / "bare.pt2", strip)).parts[0].layers[0]
    assert layer.running_var is not None
    assert (layer.running_var.values, layer.running_var.shape, layer.running_var.dtype) == (None, (4,), "float32")


def test_a_short_weight_is_a_gap(original: Path, tmp_path: Path) -> None:
    def cut(members: dict[str, bytes]) -> dict[str, bytes]:
        return {name: content[:8] if "/weight_" in name else content for name, content in members.items()}

    description = described(rewritten(original, tmp_path / "short.pt2", cut))
    layer = description.parts[0].layers[0]
    assert layer.running_mean is not None
    assert layer.running_mean.unread
    assert "norm.running_mean" in {gap.where for gap in description.gaps}


@pytest.mark.parametrize("size", [True, -1, 2**70, 1e3, None], ids=str)
def test_a_stride_that_is_no_size_is_a_gap(original: Path, tmp_path: Path, size: object) -> None:
    def change(members: dict[str, bytes]) -> dict[str, bytes]:
        name = next(name for name in members if name.endswith("_weights_config.json"))
        config = json.loads(members[name])
        config["config"]["norm.running_mean"]["tensor_meta"]["strides"] = [{"as_int": size}]
        return members | {name: json.dumps(config).encode()}

    description = described(rewritten(original, tmp_path / "odd.pt2", change))
    assert [gap.where for gap in description.gaps] == ["norm.running_mean"]
    assert description.parts[0].layers[0].var is not None


def test_a_big_endian_archive_is_read_as_such(original: Path, tmp_path: Path) -> None:
    import numpy as np

    def swap(members: dict[str, bytes]) -> dict[str, bytes]:
        root = next(iter(members)).split("/")[0]
        swapped = {
            name: np.frombuffer(content, "<f4").astype(">f4").tobytes() if len(content) == 16 else content
            for name, content in members.items()
            if "/weight_" in name
        }
        return members | swapped | {f"{root}/byteorder": b"big"}

    mine, other = described(original).parts[0].layers[0], described(rewritten(original, tmp_path / "b.pt2", swap))
    assert mine.mean is not None
    assert other.parts[0].layers[0].mean is not None
    assert other.parts[0].layers[0].mean.tolist() == mine.mean.tolist()
