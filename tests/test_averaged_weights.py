from __future__ import annotations

import pytest
from builders import batch_norm, description, part

from bnaudit.averaged_weights import averaged_pairs, speaks_of_average
from bnaudit.description import NormKind


@pytest.mark.parametrize(
    "name",
    ["ema", "state_dict_ema", "model_ema", "ema_state_dict", "swa_model", "modelEma", "EMA", "callbacks.ema.weights"],
)
def test_names_of_averages(name: str) -> None:
    assert speaks_of_average(name)


@pytest.mark.parametrize("name", ["", "schema", "model", "state_dict", "teacher", "cinema", "avgpool", "semantic"])
def test_other_names(name: str) -> None:
    assert not speaks_of_average(name)


def test_two_parts_are_paired_by_layer_name_without_wrappers() -> None:
    raw = part([batch_norm("module.bn1"), batch_norm("module.bn2")], "state_dict")
    average = part([batch_norm("bn2"), batch_norm("bn1"), batch_norm("bn3")], "state_dict_ema")
    (pair,) = averaged_pairs(description(raw, average))
    assert pair.part == "state_dict_ema"
    assert [(a.name, r.name) for a, r in pair.layers] == [("bn2", "module.bn2"), ("bn1", "module.bn1")]


def test_a_counted_average_needs_no_name() -> None:
    raw = part([batch_norm("bn1")], "a")
    average = part([batch_norm("module.bn1")], "b", averaged_over=10)
    (pair,) = averaged_pairs(description(raw, average))
    assert pair.part == "b"


def test_one_part_that_holds_both() -> None:
    layers = [batch_norm("model.bn1"), batch_norm("ema_model.module.bn1")]
    (pair,) = averaged_pairs(description(part(layers, "state_dict")))
    assert [(a.name, r.name) for a, r in pair.layers] == [("ema_model.module.bn1", "model.bn1")]


def test_the_raw_part_with_most_in_common_is_taken() -> None:
    discriminator = part([batch_norm("bn1")], "d")
    generator = part([batch_norm("bn1"), batch_norm("bn2")], "g")
    average = part([batch_norm("bn1"), batch_norm("bn2")], "g_ema")
    (pair,) = averaged_pairs(description(discriminator, generator, average))
    assert len(pair.layers) == 2


def test_an_average_alone_or_two_raw_parts_are_no_pair() -> None:
    assert list(averaged_pairs(description(part([batch_norm()], "ema")))) == []
    assert list(averaged_pairs(description(part([batch_norm()], "a"), part([batch_norm()], "b")))) == []


@pytest.mark.parametrize("fields", [{"mean": None}, {"mean": (1, 2)}, {"kind": NormKind.INSTANCE}])
def test_layers_that_cannot_be_compared_are_left_out(fields: dict[str, object]) -> None:
    parts = part([batch_norm()], "model"), part([batch_norm(**fields)], "ema")
    assert list(averaged_pairs(description(*parts))) == []
