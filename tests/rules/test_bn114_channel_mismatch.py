from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from builders import batch_norm, hits, part, tensor

from bnaudit.description import Carrier, NormKind, StoredTensor
from bnaudit.results import Severity

run = partial(hits, "bn114_channel_mismatch")


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ({"gamma": (1, 1), "beta": (0, 0)}, "weight 2, bias 2, running_mean 3, running_var 3"),
        ({"var": (1, 1, 1, 1)}, "weight 3, bias 3, running_mean 3, running_var 4"),
        ({"mean": (0,), "gamma": None, "beta": None}, "running_mean 1, running_var 3"),
        ({"declared_channels": 4}, "declared 4, weight 3, bias 3, running_mean 3, running_var 3"),
    ],
)
def test_lengths_that_disagree_are_listed(changes: dict[str, Any], value: str) -> None:
    (hit,) = run(part([batch_norm("bn1", **changes), batch_norm("bn2")]))
    assert (hit.layer, hit.value, hit.severity) == ("bn1", value, None)


def test_the_graphs_channel_axis_counts() -> None:
    layers = [batch_norm("bn1", declared_channels=3), batch_norm("bn2", declared_channels=64)]
    (hit,) = run(part(layers, carrier=Carrier.GRAPH))
    assert hit.layer == "bn2"


@pytest.mark.parametrize("carrier", [Carrier.MODULE, Carrier.SCRIPT])
def test_a_stale_number_of_features_is_a_note(carrier: Carrier) -> None:
    (hit,) = run(part([batch_norm("bn1", declared_channels=4)], carrier=carrier))
    assert (hit.layer, hit.severity) == ("bn1", Severity.NOTE)
    (torn,) = run(part([batch_norm("bn1", declared_channels=4, var=(1, 1))], carrier=carrier))
    assert torn.severity is None
    norm = torch.nn.BatchNorm1d(3).eval()
    x = torch.tensor([[1.0, 2.0, 3.0]])
    expected = norm(x)
    norm.num_features = 4
    assert torch.equal(norm(x), expected)


def test_the_batch_norm_of_e3nn_has_fewer_means_than_variances() -> None:
    e3nn: dict[str, Any] = {"mean": (0, 1), "beta": (0, 1), "counter": None}
    assert run(part([batch_norm(**e3nn), batch_norm(metadata_version=1, **e3nn)])) == []
    assert len(run(part([batch_norm(metadata_version=2, **e3nn)]))) == 1
    assert len(run(part([batch_norm(**{**e3nn, "beta": (0, 1, 2)})]))) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"declared_channels": 3},
        {"gamma": None, "beta": None},
        {"mean": None, "var": None},
        {"mean": (), "var": ()},
        {"gamma": tensor("bn1.weight", [[[[1.0]], [[1.0]], [[1.0]]]])},
        {"gamma": tensor("bn1.weight", [[1.0, 2.0], [3.0, 4.0]])},
        {"gamma": tensor("bn1.weight", None, absence="on the meta device")},
        {"counter": (5, 5, 5, 5)},
    ],
)
def test_agreement_and_other_shapes_are_silent(changes: dict[str, Any]) -> None:
    assert run(part([batch_norm(**changes)])) == []


@pytest.mark.parametrize("kind", [NormKind.LAYER, NormKind.GROUP, NormKind.RMS, NormKind.INSTANCE])
def test_other_norms_are_silent(kind: NormKind) -> None:
    assert run(part([batch_norm(kind=kind, gamma=(1, 1))])) == []


def test_an_unknown_kind_counts_only_with_statistics() -> None:
    assert len(run(part([batch_norm(kind=NormKind.UNKNOWN, gamma=(1, 1))]))) == 1
    assert run(part([batch_norm(kind=NormKind.UNKNOWN, mean=None, var=None, gamma=(1, 1))])) == []


def test_pytorch_raises_at_the_first_forward() -> None:
    norm = torch.nn.BatchNorm2d(57).eval()
    norm.running_mean = torch.zeros(64)
    with pytest.raises(RuntimeError, match="running_mean should contain 57 elements not 64"):
        norm(torch.zeros(1, 57, 2, 2))


NOTHING: dict[str, Any] = {"gamma": None, "beta": None, "mean": None, "var": None}


def test_a_number_of_features_without_tensors_contradicts_nothing() -> None:
    assert run(part([batch_norm(declared_channels=4, **NOTHING)], carrier=Carrier.MODULE)) == []


@pytest.mark.parametrize("kept", [{"mean": (1, 1)}, {"var": (1, 1)}])
def test_one_statistic_makes_an_unknown_kind_one_that_counts(kept: dict[str, Any]) -> None:
    layer = batch_norm(kind=NormKind.UNKNOWN, **{**NOTHING, "gamma": (1, 1, 1), **kept})
    assert len(run(part([layer]))) == 1


def test_what_only_resembles_the_batch_norm_of_e3nn() -> None:
    e3nn: dict[str, Any] = {"mean": (0, 1), "beta": (0, 1), "counter": None}
    assert run(part([batch_norm(declared_channels=5, **e3nn)], carrier=Carrier.MODULE)) == []
    assert len(run(part([batch_norm(declared_channels=3, **e3nn)], carrier=Carrier.GRAPH))) == 1
    assert len(run(part([batch_norm(**{**e3nn, "var": (1, 1, 1, 1)})]))) == 1
    fewer_scaled: dict[str, Any] = {"gamma": (1, 1), "var": (1, 1), "counter": None}
    assert len(run(part([batch_norm(**fewer_scaled)]))) == 1


def test_a_tensor_of_one_number_says_nothing() -> None:
    assert run(part([batch_norm(gamma=tensor("bn1.weight", 1.0))])) == []


def test_channels_on_another_axis_count() -> None:
    shaped = tensor("bn1.weight", [[[[1.0]], [[1.0]]]])
    (hit,) = run(part([batch_norm(gamma=shaped)]))
    assert hit.value == "weight 2, bias 3, running_mean 3, running_var 3"


def test_a_shape_counts_where_only_the_header_was_read() -> None:
    stated = StoredTensor(name="bn1.weight", dtype="float32", shape=(2,), values=None)
    assert len(run(part([batch_norm(gamma=stated)]))) == 1
