from __future__ import annotations

import pytest
from builders import batch_norm, description, part

from bnaudit.averaged_weights import averaged_pairs, complete_copies, speaks_of_average
from bnaudit.description import Evidence, NormKind, NormLayer


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


@pytest.mark.parametrize(
    ("averaged", "raw"),
    [
        ("ema_model.bn1", "online_model.bn1"),
        ("net_ema.layer1.0.bn1", "net.layer1.0.bn1"),
        ("module.ema.module.bn1", "module.net.bn1"),
        ("ema_layer1_0_bn1", "layer1.0.bn1"),
        ("ema_bn1", "bn1"),
    ],
)
def test_prefixes_that_trainers_write(averaged: str, raw: str) -> None:
    (pair,) = averaged_pairs(description(part([batch_norm(raw), batch_norm(averaged)])))
    assert [(a.name, r.name) for a, r in pair.layers] == [(averaged, raw)]


def bare(name: str) -> NormLayer:
    return batch_norm(name, mean=None, var=None, counter=None, kind=NormKind.UNKNOWN, evidence=Evidence.AFFINE)


@pytest.mark.parametrize("name", ["ema.shadow", "4"])
def test_a_shadow_of_the_parameters_is_a_copy_of_the_complete_part(name: str) -> None:
    model = part([batch_norm("module.bn1"), batch_norm("module.bn2")], "model")
    shadow = part([bare("bn1"), bare("bn3")], name)
    assert complete_copies(description(model, shadow), shadow) == {"bn1": "model"}
    assert complete_copies(description(model, shadow), model) == {}


def test_an_average_of_parameters_in_the_same_state_dict() -> None:
    both = part([batch_norm("layer1.bn1"), bare("ema_layer1_bn1"), bare("layer2.bn1")], "state_dict")
    assert complete_copies(description(both), both) == {"ema_layer1_bn1": "state_dict"}


def test_parameters_alone_everywhere_are_no_copies() -> None:
    parts = part([bare("bn1")], "a"), part([bare("bn1")], "b")
    assert complete_copies(description(*parts), parts[1]) == {}


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
