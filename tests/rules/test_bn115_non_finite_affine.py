from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import pytest
import torch
from builders import batch_norm, hits, part, tensor

from bnaudit.description import NormKind

run = partial(hits, "bn115_non_finite_affine")
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("changes", "where", "channels"),
    [
        ({"gamma": (1, NAN, 1)}, "weight", (1,)),
        ({"beta": (0, 0, -INF)}, "bias", (2,)),
        ({"gamma": (INF, 1, 1), "beta": (0, NAN, 0)}, "weight and bias", (0, 1)),
    ],
)
def test_what_is_not_finite_is_named_and_counted(
    changes: dict[str, Any], where: str, channels: tuple[int, ...]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (hit,) = run(part([batch_norm("bn1", **changes), batch_norm("bn2")]))
    assert f"NaN or inf in {where};" in hit.message
    assert (hit.layer, hit.value, hit.channels) == ("bn1", len(channels), channels)


def test_the_first_layer_in_order_is_named() -> None:
    found = run(part([batch_norm("z", gamma=(NAN, 1, 1)), batch_norm("a", gamma=(NAN, 1, 1))]))
    assert [hit.message.rsplit(": ", 1)[1] for hit in found] == ["z", "z"]


@pytest.mark.parametrize("kind", list(NormKind))
def test_norms_of_every_kind_are_looked_at(kind: NormKind) -> None:
    assert len(run(part([batch_norm(kind=kind, mean=None, var=None, counter=None, gamma=(NAN, 1, 1))]))) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"gamma": (3e38, -3e38, 1e-45)},
        {"gamma": None, "beta": None},
        {"gamma": ()},
        {"mean": (NAN, 0, 0)},
        {"gamma": tensor("bn1.weight", None, absence="on the meta device")},
    ],
)
def test_finite_absent_and_unread_are_silent(changes: dict[str, Any]) -> None:
    assert run(part([batch_norm(**changes)])) == []


def test_one_step_with_a_nan_gradient_is_enough() -> None:
    norm = torch.nn.BatchNorm1d(2)
    optimizer = torch.optim.Adam(norm.parameters())
    for gradient in (NAN, 1.0):
        norm.weight.grad = torch.tensor([gradient, 1.0])
        optimizer.step()
    (hit,) = run(part([batch_norm(gamma=norm.weight.detach().numpy(), beta=norm.bias.detach().numpy())]))
    assert hit.channels == (0,)


def test_sixteen_channels_are_shown() -> None:
    (hit,) = run(part([batch_norm(mean=None, var=None, gamma=[NAN] * 20, beta=None)]))
    assert (hit.value, hit.channels) == (20, tuple(range(16)))
