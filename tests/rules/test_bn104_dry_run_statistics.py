from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from builders import batch_norm, hits, part, tensor

from bnaudit import arithmetic
from bnaudit.description import CUMULATIVE, Carrier, NormKind, NormLayer
from bnaudit.results import Confidence

run = partial(hits, "bn104_dry_run_statistics")


def zeros_through(forwards: int, momentum: float = 0.1, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The running variance that PyTorch keeps after forwards of zeros, three channels."""
    norm = torch.nn.BatchNorm2d(3, momentum=momentum)
    for _ in range(forwards):
        norm(torch.zeros(2, 3, 4, 4))
    assert not norm.running_mean.any()
    return norm.running_var.to(dtype).double()


def dry(var: Any, **changes: Any) -> NormLayer:
    return batch_norm(
        **{"mean": (0, 0, 0), "var": var, "gamma": (1, 1, 1), "beta": (0, 0, 0), "counter": None, **changes}
    )


@pytest.mark.parametrize("forwards", [1, 2, 7, 40])
@pytest.mark.parametrize("momentum", [0.1, 0.03, 0.01])
def test_known_momentum_proves_it(forwards: int, momentum: float) -> None:
    layer = dry(zeros_through(forwards, momentum), momentum=momentum, counter=forwards)
    (hit,) = run(part([layer], carrier=Carrier.MODULE))
    assert hit.confidence is Confidence.HIGH
    assert f"{forwards} forward" in hit.message
    assert f"momentum {momentum}," in hit.message


@pytest.mark.parametrize("forwards", [1, 2, 7, 40])
def test_without_momentum_and_counter_a_tenth_is_assumed(forwards: int) -> None:
    (hit,) = run(part([dry(zeros_through(forwards))]))
    assert hit.confidence is Confidence.MEDIUM
    assert f"{forwards} forward" in hit.message
    assert "momentum 0.1 (assumed)" in hit.message


def test_the_counter_gives_the_momentum() -> None:
    (hit,) = run(part([dry(zeros_through(3, 0.03), counter=3)]))
    assert hit.confidence is Confidence.MEDIUM
    assert "3 forwards of zeros, momentum 0.03 (solved from the counter)" in hit.message


def test_a_counter_that_gives_no_momentum_proves_nothing() -> None:
    assert run(part([dry((0.95, 0.95, 0.95), counter=92385)])) == []
    (hit,) = run(part([dry((0.9, 0.9, 0.9), counter=92385)]))
    assert "1 forward of zeros, momentum 0.1 (assumed)" in hit.message


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_signature_survives_half_precision(dtype: torch.dtype) -> None:
    stored = tensor("bn1.running_var", zeros_through(2, dtype=dtype), str(dtype).removeprefix("torch."))
    (hit,) = run(part([dry(stored)]))
    assert "2 forwards" in hit.message


@pytest.mark.parametrize(
    "changes",
    [
        {"var": (0.9, 0.9, 0.81)},
        {"var": (0.9, 0.9, 0.9), "mean": (0, 0, 1e-20)},
        {"var": (0.9, 0.9, 0.9), "mean": None},
        {"var": (0.9, 0.9, 0.9), "mean": ()},
        {"var": None},
        {"var": ()},
        {"var": (0.95, 0.95, 0.95)},
        {"var": (0.87, 0.87, 0.87)},
        {"var": (1, 1, 1)},
        {"var": (1.1, 1.1, 1.1)},
        {"var": (0, 0, 0)},
        {"var": (-0.9, -0.9, -0.9)},
        {"var": (float("nan"),) * 3},
        {"var": (0.9999, 0.9999, 0.9999)},
        {"var": (0.999, 0.999, 0.999)},
    ],
)
def test_other_values_are_silent(changes: dict[str, Any]) -> None:
    assert run(part([dry(**changes)])) == []


@pytest.mark.parametrize("momentum", [CUMULATIVE, 0.0, 1.0, 0.2])
def test_a_known_momentum_that_does_not_fit_is_silent(momentum: Any) -> None:
    layer = dry((0.9, 0.9, 0.9), momentum=momentum, counter=1)
    assert run(part([layer], carrier=Carrier.MODULE)) == []


def test_momentum_in_an_inference_graph_proves_nothing() -> None:
    (hit,) = run(part([dry((0.9, 0.9, 0.9), momentum=0.3)], carrier=Carrier.GRAPH))
    assert hit.confidence is Confidence.MEDIUM


@pytest.mark.parametrize("kind", [NormKind.INSTANCE, NormKind.FROZEN_BATCH, NormKind.UNKNOWN, NormKind.LAYER])
def test_other_norms_are_silent(kind: NormKind) -> None:
    assert run(part([dry((0.9, 0.9, 0.9), kind=kind)])) == []


def test_after_long_training_nothing_is_left_of_it() -> None:
    assert run(part([batch_norm(counter=100_000)])) == []


def test_the_pages_arithmetic() -> None:
    np.testing.assert_allclose(zeros_through(1), 0.9, rtol=1e-6)
    np.testing.assert_allclose(zeros_through(2), 0.81, rtol=1e-6)
    value = arithmetic.normalize(np.array([[30.0]]), np.zeros(1), np.array([0.9]), 0.0).item()
    assert round(value, 1) == 31.6
    assert f"{arithmetic.residual_share(0.1, 100):.5f}" == "0.00003"


@pytest.mark.parametrize(
    ("dtype", "momentum", "inside", "outside"),
    [
        ("float16", 0.1, 0.97e-3, 1.03e-3),  # a float16 is stored to 1 in 1,000
        ("bfloat16", 0.1, 7.8e-3, 8.2e-3),
        ("float32", 0.1, 1.95e-6, 2.05e-6),  # 1e-6 for the start and 1e-6 for each update
        ("bfloat16", 0.01, 1.9e-3, 2.1e-3),  # a fifth of the momentum: nearer, everything would fit
    ],
)
def test_rounding_explains_so_much_and_no_more(dtype: str, momentum: float, inside: float, outside: float) -> None:
    for excess, found in ((inside, 1), (outside, 0)):
        variance = (1 - momentum) * (1 + excess)
        layer = dry(tensor("bn1.running_var", (variance,) * 3, dtype), momentum=momentum)
        assert len(run(part([layer], carrier=Carrier.MODULE))) == found


@pytest.mark.parametrize(("momentum", "found"), [(5.2e-4, 1), (4.8e-4, 0)])
def test_a_counter_that_would_mean_a_momentum_below_a_two_thousandth_solves_nothing(
    momentum: float, found: int
) -> None:
    assert len(run(part([dry(((1 - momentum) ** 10,) * 3, counter=10)]))) == found


@pytest.mark.parametrize(("below_one", "counter", "found"), [(0.8e-3, 1, 1), (0.8e-3, None, 0), (1.1e-3, None, 1)])
def test_only_uncounted_layers_near_one_are_read_as_absorbed(below_one: float, counter: int | None, found: int) -> None:
    layer = dry((1 - below_one,) * 3, counter=counter)
    assert len(run(part([layer]), limits={"assumed_momentum": below_one})) == found


@pytest.mark.parametrize(("share_of_the_limit", "found"), [(1.0005, 0), (1.0015, 1)])
def test_absorbed_variances_may_be_off_by_a_thousandth_of_the_limit(share_of_the_limit: float, found: int) -> None:
    below_one = 1e-3 * share_of_the_limit
    assert len(run(part([dry((1 - below_one,) * 3)]), limits={"assumed_momentum": below_one})) == found


def test_a_variance_exactly_at_the_limit_is_read_as_absorbed() -> None:
    at_it = 0.5 / 1.001
    assert at_it * 1.001 == 0.5
    layer = dry((0.5, 0.5, 0.5))
    assert run(part([layer]), limits={"assumed_momentum": 0.5, "absorbed_variance": at_it}) == []
    assert len(run(part([layer]), limits={"assumed_momentum": 0.5, "absorbed_variance": at_it * 0.999})) == 1


def test_a_variance_that_grew_by_one_is_no_forward_of_zeros() -> None:
    assert run(part([dry((1 / 0.95,) * 3, momentum=0.05)], carrier=Carrier.MODULE)) == []


def test_a_momentum_near_one_is_one_too() -> None:
    (hit,) = run(part([dry((0.05, 0.05, 0.05), momentum=0.95)], carrier=Carrier.MODULE))
    assert "1 forward of zeros, momentum 0.95," in hit.message
