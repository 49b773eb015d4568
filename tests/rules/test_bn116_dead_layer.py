from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from builders import batch_norm, hits, part, tensor

from bnaudit.description import NormKind
from bnaudit.results import Severity
from bnaudit.rules import load_rule

RULE = "bn116_dead_layer"
run = partial(hits, RULE)
DEAD: dict[str, Any] = {"gamma": (0, 0, 0)}
FRESH: dict[str, Any] = {"mean": (0, 0, 0), "var": (1, 1, 1), "beta": (0, 0, 0), "counter": 0}


def test_a_layer_of_zeros_is_a_note() -> None:
    (hit,) = run(part([batch_norm("bn1", **DEAD), batch_norm("bn2")]))
    assert hit.layer == "bn1"
    assert len(run(part([batch_norm(mean=(2,), var=(2,), gamma=(0,), beta=(1,))]))) == 1
    assert load_rule(RULE).severity is Severity.NOTE


@pytest.mark.parametrize("gamma", [(0, 0, 1e-30), (1, 1, 1), None, (), (float("nan"), 0, 0)])
def test_one_live_channel_is_enough(gamma: Any) -> None:
    assert run(part([batch_norm(gamma=gamma)])) == []


@pytest.mark.parametrize("counter", [0, None])
def test_zero_init_residual_in_a_fresh_layer_is_silent(counter: int | None) -> None:
    assert run(part([batch_norm(**{**DEAD, **FRESH, "counter": counter})])) == []


@pytest.mark.parametrize("change", [{"counter": 3}, {"beta": (0, 0.1, 0)}, {"mean": (0, 0.1, 0)}])
def test_anything_trained_makes_it_speak(change: dict[str, Any]) -> None:
    assert len(run(part([batch_norm(**{**DEAD, **FRESH, **change})]))) == 1


@pytest.mark.parametrize("kind", [NormKind.RMS, NormKind.LAYER, NormKind.GROUP, NormKind.INSTANCE, NormKind.UNKNOWN])
def test_other_norms_are_silent(kind: NormKind) -> None:
    assert run(part([batch_norm(kind=kind, **DEAD)])) == []


def test_a_weight_without_values_is_unknown() -> None:
    assert run(part([batch_norm(gamma=tensor("bn1.weight", None, absence="offloaded"))])) == []


def test_the_output_is_the_bias() -> None:
    norm = torch.nn.BatchNorm1d(1).eval()
    torch.nn.init.zeros_(norm.weight)
    torch.nn.init.constant_(norm.bias, 0.25)
    assert norm(torch.tensor([[1.7], [-40.0]])).tolist() == [[0.25], [0.25]]
