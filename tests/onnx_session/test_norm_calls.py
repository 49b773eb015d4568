"""How many values a statistic is computed from, for every norm operator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_builders import BETA, GAMMA, PARAMETERS, model, node
from onnx_sessions import batch, normal, opened

from bnaudit.description import NormKind

WIDE = np.ones(8, np.float32)
CASES = {  # operator, parameters, attributes: kind, values per statistic, per sample, channels
    "instance": ("InstanceNormalization", [GAMMA, BETA], {}, NormKind.INSTANCE, 64, 64, 4),
    "layer": ("LayerNormalization", [WIDE, WIDE], {}, NormKind.LAYER, 8, 8, 8),
    "layer over three axes": (
        "LayerNormalization",
        [np.ones((4, 8, 8), np.float32)],
        {"axis": 1},
        NormKind.LAYER,
        256,
        256,
        None,
    ),
    "group": ("GroupNormalization", [GAMMA, BETA], {"num_groups": 2}, NormKind.GROUP, 128, 128, 4),
    "mean-variance": ("MeanVarianceNormalization", [], {}, NormKind.BATCH, 3 * 64, 64, 4),
    "within samples": ("MeanVarianceNormalization", [], {"axes": [2, 3]}, NormKind.INSTANCE, 64, 64, None),
    "lp": ("LpNormalization", [], {"axis": -1}, NormKind.RMS, 8, 8, None),
}


@pytest.mark.parametrize("name", CASES)
def test_extent_of_each_operator(tmp_path: Path, name: str) -> None:
    operator, arrays, attributes, kind, per_statistic, per_sample, channels = CASES[name]
    tensors = {f"norm.p{index}": array for index, array in enumerate(arrays)}
    proto = model([node(operator, ["x", *tensors], **attributes)], tensors, opset=21)
    with opened(proto, tmp_path) as session:
        (call,) = session.run(batch(normal(3, 4, 8, 8))).norm_calls
        assert session.part.layers[0].name == call.layer
    assert (call.kind, call.values_per_statistic, call.values_per_sample) == (kind, per_statistic, per_sample)
    assert call.uses_batch
    assert call.mixes_samples == (kind is NormKind.BATCH)
    if channels is not None:
        assert call.channels == channels


@pytest.mark.parametrize(
    ("operator", "inputs"),
    [("SkipLayerNormalization", ["x", "x", "g", "b"]), ("SimplifiedLayerNormalization", ["x", "g"])],
)
def test_operators_of_onnxruntime(tmp_path: Path, operator: str, inputs: list[str]) -> None:
    domain = "com.microsoft" if operator.startswith("Skip") else ""
    proto = model(
        [node(operator, inputs, domain=domain, epsilon=1e-5)],
        {"g": WIDE, "b": WIDE},
        inputs={"x": ("N", 5, 8)},
        domains={"com.microsoft": 1},
    )
    with opened(proto, tmp_path) as session:
        (call,) = session.run(batch(normal(3, 5, 8))).norm_calls
    assert (call.values_per_statistic, call.mixes_samples, call.uses_batch) == (8, False, True)


def test_a_batch_norm_over_steps_of_sequences(tmp_path: Path) -> None:
    nodes = [node("Reshape", ["x", "flat"], ["f"]), node("BatchNormalization", ["f", *PARAMETERS], name="steps")]
    proto = model(nodes, {**PARAMETERS, "flat": np.array([-1, 4])}, inputs={"x": ("N", 5, 4)})
    with opened(proto, tmp_path) as session:
        (call,) = session.run(batch(normal(3, 5, 4))).norm_calls
    assert (call.values_per_statistic, call.values_per_sample, call.channels) == (15, 5, 4)
    assert not call.uses_batch and call.mixes_samples is False


def test_instance_norm_written_as_batch_norm_mixes_nothing(tmp_path: Path) -> None:
    nodes = [
        node("Reshape", ["x", "one"], ["r"]),
        node("BatchNormalization", ["r", "g", "b", "m", "v"], ["n", "", ""], training_mode=1),
        node("Reshape", ["n", "back"]),
    ]
    eight = {name: np.ones(8, np.float32) for name in "gbmv"}
    tensors = {**eight, "one": np.array([1, 8, 8, 8]), "back": np.array([2, 4, 8, 8])}
    with opened(model(nodes, tensors), tmp_path) as session:
        assert "crashes onnxruntime" in session.remarks[0]
        (call,) = session.run(batch(normal(2, 4, 8, 8))).norm_calls
    assert (call.kind, call.values_per_statistic, call.mixes_samples) == (NormKind.INSTANCE, 64, False)
