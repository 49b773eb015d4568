"""Layers are found by name, by name without wrappers, or by a unique ending."""

from __future__ import annotations

import pytest

from bnaudit.description import Carrier, Evidence, NormKind, NormLayer, Part
from bnaudit.errors import UsageError
from bnaudit.tracing.layer_search import layer_of


def part(*names: str) -> Part:
    layers = [NormLayer(name=name, kind=NormKind.BATCH, evidence=Evidence.STATISTICS) for name in names]
    return Part(name="", carrier=Carrier.STATE_DICT, layers=tuple(layers))


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("bn1", "bn1"),
        ("layer1.0.bn1", "module.layer1.0.bn1"),
        ("module.layer1.0.bn1", "module.layer1.0.bn1"),
        ("0.bn2", "module.layer1.0.bn2"),
        ("bn2", "module.layer1.0.bn2"),
    ],
)
def test_a_layer_is_found(typed: str, found: str) -> None:
    names = ("bn1", "module.layer1.0.bn1", "module.layer1.0.bn2", "/features/norm/BatchNormalization")
    assert layer_of(part(*names), typed, "model.pt").name == found


def test_a_node_of_a_graph_is_found_by_its_last_piece() -> None:
    found = layer_of(part("/features/norm/BatchNormalization", "/bn1/BN"), "BatchNormalization", "m.onnx")
    assert found.name == "/features/norm/BatchNormalization"


def test_several_are_listed() -> None:
    with pytest.raises(UsageError, match=r"2 norm layers are called bn1: a\.bn1, b\.bn1 \(model\.pt\): write more"):
        layer_of(part("a.bn1", "b.bn1"), "bn1", "model.pt")


def test_the_nearest_name_is_told() -> None:
    with pytest.raises(UsageError, match=r"did you mean layer1\.0\.bn1\?"):
        layer_of(part("layer1.0.bn1", "layer2.0.bn2"), "layer1.0.bn", "model.pt")
