"""What is kept of a file is bounded by the values that it stands for, not by the bytes that it takes."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper

from bnaudit.auditing import describe
from bnaudit.caps import Caps
from bnaudit.settings import Settings

LAYERS, SIZE = 40, 50_000
CAPS = Caps(tensor_bytes=8 * SIZE * 20)
"""Room for the values of twenty tensors."""


def names(leaf: str = "running_mean") -> list[str]:
    return [f"l{number}.bn.{leaf}" for number in range(LAYERS)]


def stretched(path: Path) -> None:
    """One element under strides of 0."""
    one = torch.ones(1)
    torch.save({name: one.expand(SIZE) for name in names()}, path)


def stretched_legacy(path: Path) -> None:
    one = torch.ones(1)
    torch.save({name: one.expand(SIZE) for name in names()}, path, _use_new_zipfile_serialization=False)


def shared(path: Path) -> None:
    """One tensor under every name."""
    tensor = torch.ones(SIZE, dtype=torch.float16)
    torch.save(dict.fromkeys(names(), tensor), path)


def narrow_safetensors(path: Path) -> None:
    """Elements of one byte."""
    lines = {
        n: {"dtype": "I8", "shape": [SIZE], "data_offsets": [i * SIZE, i * SIZE + SIZE]} for i, n in enumerate(names())
    }
    header = json.dumps(lines).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(SIZE * LAYERS))


def narrow_npz(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, np.ones(SIZE, np.int8))


def narrow_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps({name: np.ones(SIZE, np.int8) for name in names()}, 4))


def shared_initializer(path: Path) -> None:
    """One initializer as mean of every batch norm."""
    mean = numpy_helper.from_array(np.ones(SIZE, np.float32), "mean")
    rest = [numpy_helper.from_array(np.ones(3, np.float32), name) for name in ("scale", "bias", "var")]
    nodes = [
        helper.make_node("BatchNormalization", [f"x{n}", "scale", "bias", "mean", "var"], [f"x{n + 1}"])
        for n in range(LAYERS)
    ]
    image = helper.make_tensor_value_info("x0", onnx.TensorProto.FLOAT, [1, 3])
    graph = helper.make_graph(nodes, "g", [image], [], [mean, *rest])
    path.write_bytes(helper.make_model(graph).SerializeToString())


@pytest.mark.parametrize(
    "write",
    [stretched, stretched_legacy, shared, narrow_safetensors, narrow_npz, narrow_pickle, shared_initializer],
)
def test_values_beyond_the_cap_are_gaps_that_name_it(write: object, tmp_path: Path) -> None:
    path = tmp_path / "model"
    write(path)  # type: ignore[operator]
    means = [layer.running_mean for _, layer in describe(path).layers]
    assert len(means) == LAYERS and all(mean is not None and not mean.unread for mean in means)

    capped = describe(path, Settings(caps=CAPS))
    kept = [layer.running_mean.values for _, layer in capped.layers if layer.running_mean is not None]
    assert 0 < sum(values.size for values in kept if values is not None) <= 20 * SIZE
    assert any("--cap tensor_bytes" in gap.why for gap in capped.gaps)


def test_a_tensor_that_is_too_large_takes_no_room_from_the_others(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name, size in (("a.bn", 30 * SIZE), ("b.bn", SIZE), ("c.bn", 30 * SIZE), ("d.bn", SIZE)):
            with archive.open(f"{name}.running_mean.npy", "w") as member:
                np.lib.format.write_array(member, np.ones(size, np.float32))
    layers = {layer.name: layer.mean for _, layer in describe(path, Settings(caps=CAPS)).layers}
    assert {name for name, mean in layers.items() if mean is not None} == {"b.bn", "d.bn"}
