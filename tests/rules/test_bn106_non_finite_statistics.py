from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import pytest
import torch
from builders import batch_norm, hits, part, tensor

from bnaudit.description import NormKind

run = partial(hits, "bn106_non_finite_statistics")
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("changes", "where", "channels"),
    [
        ({"mean": (0, NAN, 0)}, "running_mean", (1,)),
        ({"var": (1, 1, INF)}, "running_var", (2,)),
        ({"var": (1, -INF, 1)}, "running_var", (1,)),
        ({"mean": (NAN, 0, 0), "var": (1, 1, INF)}, "running_mean and running_var", (0, 2)),
        ({"mean": (NAN,) * 3, "var": (NAN,) * 3}, "running_mean and running_var", (0, 1, 2)),
    ],
)
def test_what_is_not_finite_is_named_and_counted(
    changes: dict[str, Any], where: str, channels: tuple[int, ...]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (hit,) = run(part([batch_norm("bn1", **changes), batch_norm("bn2")]))
    assert f"NaN or inf in {where};" in hit.message
    assert (hit.layer, hit.value, hit.channels, hit.severity) == ("bn1", len(channels), channels, None)


def test_the_first_layer_in_order_is_named() -> None:
    layers = [batch_norm("stem"), batch_norm("b", var=(NAN, 1, 1)), batch_norm("a", mean=(0, 0, INF))]
    found = run(part(layers, "model"), part([batch_norm("c", var=(NAN, 1, 1))], "ema"))
    assert [hit.layer for hit in found] == ["b", "a", "c"]
    assert [hit.message.rsplit(": ", 1)[1] for hit in found] == ["b", "b", "c"]


def test_at_most_sixteen_channels_are_listed() -> None:
    (hit,) = run(part([batch_norm(var=[NAN] * 40, mean=[0.0] * 40)]))
    assert (hit.value, hit.channels) == (40, tuple(range(16)))


@pytest.mark.parametrize("kind", [NormKind.FROZEN_BATCH, NormKind.UNKNOWN, NormKind.INSTANCE])
def test_any_norm_that_keeps_statistics_is_looked_at(kind: NormKind) -> None:
    assert len(run(part([batch_norm(kind=kind, mean=(NAN, 0, 0))]))) == 1


@pytest.mark.parametrize("extreme", [0.0, -1.0, 3e38, 1e-45, 1.7e308])
def test_finite_values_are_silent(extreme: float) -> None:
    assert run(part([batch_norm(mean=(extreme, 0, 0), var=(extreme, 1, 1))])) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"mean": None, "var": None},
        {"mean": (), "var": ()},
        {"mean": tensor("bn1.running_mean", None, absence="on the meta device")},
        {"gamma": (NAN, 1, 1)},
    ],
)
def test_what_is_not_there_is_unknown(changes: dict[str, Any]) -> None:
    assert run(part([batch_norm(**changes)])) == []


def test_the_limit_is_a_setting() -> None:
    assert run(part([batch_norm(mean=(NAN, 0, 0))]), limits={"channels": 1}) == []


def test_a_nan_enters_once_and_stays_and_training_hides_it() -> None:
    norm = torch.nn.BatchNorm1d(2)
    poisoned = torch.randn(8, 2, generator=torch.Generator().manual_seed(0))
    poisoned[3, 1] = NAN
    norm(poisoned)
    for seed in range(20):
        output = norm(torch.randn(8, 2, generator=torch.Generator().manual_seed(seed)))
    assert torch.isfinite(output).all()
    (hit,) = run(part([batch_norm(mean=norm.running_mean.numpy(), var=norm.running_var.numpy())]))
    assert hit.channels == (1,)


def test_an_infinite_variance_makes_the_output_constant() -> None:
    norm = torch.nn.BatchNorm1d(1).eval()
    norm.running_var.fill_(torch.tensor(1e20) ** 2)
    assert norm(torch.tensor([[3.0], [1e9]])).tolist() == [[0.0], [0.0]]
