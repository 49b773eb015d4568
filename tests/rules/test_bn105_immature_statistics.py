from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from builders import batch_norm, hits, part

from bnaudit import arithmetic
from bnaudit.description import CUMULATIVE, Carrier, NormKind, NormLayer
from bnaudit.results import Confidence, Severity

run = partial(hits, "bn105_immature_statistics")
module = partial(part, carrier=Carrier.MODULE)


def after(updates: int, trained_with: float | None = 0.1, scale: float = 1.0, **changes: Any) -> NormLayer:
    """A layer after this many training forwards of seeded noise with standard deviation `scale`, by PyTorch."""
    norm = torch.nn.BatchNorm1d(3, momentum=trained_with)
    generator = torch.Generator().manual_seed(updates)
    for _ in range(updates):
        norm(torch.randn(32, 3, generator=generator) * scale)
    counter = norm.num_batches_tracked.item()
    return batch_norm(**{"mean": norm.running_mean, "var": norm.running_var, "counter": counter, **changes})


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("updates", [1, 6, 7, 28])
def test_truly_immature_statistics_are_found(updates: int, scale: float) -> None:
    (hit,) = run(part([after(updates, scale=scale)]))
    assert hit.value == round(0.9**updates, 4)
    assert (hit.severity, hit.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert "momentum 0.1 (assumed)" in hit.message


def test_one_more_update_is_enough() -> None:
    assert len(run(part([after(28)]))) == 1
    assert run(part([after(29)])) == []


@pytest.mark.parametrize(
    ("updates", "severity"), [(68, Severity.ERROR), (69, Severity.WARNING), (298, Severity.WARNING)]
)
def test_half_of_it_with_known_momentum_is_an_error(updates: int, severity: Severity) -> None:
    (hit,) = run(module([after(updates, 0.01, momentum=0.01)]))
    assert (hit.severity, hit.confidence) == (severity, Confidence.HIGH)
    assert "(assumed)" not in hit.message
    assert run(module([after(299, 0.01, momentum=0.01)])) == []


def test_half_of_it_with_assumed_momentum_stays_a_warning() -> None:
    (hit,) = run(part([after(1)]))
    assert hit.severity is Severity.WARNING


def test_update_bn_results_are_not_immature() -> None:
    # momentum=None while measuring, 0.1 afterwards: the counter is 5, the values are complete
    measured = after(5, None, scale=0.5, momentum=0.1)
    assert run(module([measured])) == []


def test_one_layer_below_the_bound_clears_all_layers_with_its_counter() -> None:
    low, high = batch_norm("bn1", var=(0.2, 3, 3), counter=5), batch_norm("bn2", var=(3, 3, 3), counter=5)
    assert run(part([low, high])) == []
    other = batch_norm("bn3", var=(3, 3, 3), counter=6)
    assert [hit.layer for hit in run(part([low, high, other]))] == ["bn3"]


def test_the_bound_is_the_share_itself() -> None:
    share = 0.9**10
    assert len(run(part([batch_norm(var=(share, 3, 3), counter=10)]))) == 1
    assert run(part([batch_norm(var=(share * 0.98, 3, 3), counter=10)])) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"counter": 0},
        {"counter": None},
        {"counter": -3},
        {"kind": NormKind.INSTANCE},
        {"kind": NormKind.FROZEN_BATCH},
        {"kind": NormKind.UNKNOWN},
        {"mean": None, "var": None},
    ],
)
def test_unknown_counts_and_other_norms_are_silent(changes: dict[str, Any]) -> None:
    assert run(part([batch_norm(**{"var": (3, 3, 3), "counter": 3, **changes})])) == []


@pytest.mark.parametrize("momentum", [CUMULATIVE, 0.0, 1.0])
def test_momenta_that_leave_no_share(momentum: Any) -> None:
    assert run(module([batch_norm(var=(3, 3, 3), counter=1, momentum=momentum)])) == []


def test_a_trace_that_states_no_momentum_was_called_with_0() -> None:
    """In eval mode torch calls a norm of momentum None or 0 with momentum 0; a script or a state dict says nothing."""
    layer = batch_norm(var=(3, 3, 3), counter=1, graph_training=False)
    assert run(part([layer], carrier=Carrier.SCRIPT)) == []
    assert len(run(part([batch_norm(var=(3, 3, 3), counter=1)], carrier=Carrier.SCRIPT))) == 1


def test_a_nan_contradicts_nothing() -> None:
    assert len(run(part([batch_norm(var=(float("nan"), 3, 3), counter=1)]))) == 1


def test_a_fresh_model_with_some_forwards_is_a_note() -> None:
    fresh = [after(2, gamma=(1, 1, 1), beta=(0, 0, 0)), after(2, name="bn2", gamma=(1, 1, 1), beta=(0, 0, 0))]
    assert [hit.severity for hit in run(part(fresh))] == [Severity.NOTE] * 2
    trained = after(2, name="bn3")
    assert {hit.severity for hit in run(part([*fresh, trained]))} == {Severity.WARNING}


def test_without_affine_parameters_nothing_says_fresh() -> None:
    (hit,) = run(part([after(2, gamma=None, beta=None)]))
    assert hit.severity is Severity.WARNING


def test_the_pages_arithmetic() -> None:
    shares = [arithmetic.residual_share(m, n) for m, n in ((0.1, 28), (0.1, 29), (0.01, 30))]
    assert [f"{share:.1%}" for share in shares[:2]] == ["5.2%", "4.7%"]
    assert f"{shares[2]:.0%}" == "74%"
    mean, var = (1 - shares[2]) * 20, shares[2] + (1 - shares[2]) * 25
    assert (round(mean, 1), round(var, 1)) == (5.2, 7.2)
    value = arithmetic.normalize(np.array([[30.0]]), np.array([mean]), np.array([var])).item()
    assert round(value, 1) == 9.2


def test_one_initial_affine_is_enough_to_say_fresh() -> None:
    without = after(2, name="bn2", gamma=None, beta=None)
    fresh = [after(2, gamma=(1, 1, 1), beta=(0, 0, 0)), without]
    assert [hit.severity for hit in run(part(fresh))] == [Severity.NOTE] * 2


def test_a_share_exactly_at_the_limit_is_found() -> None:
    layer = batch_norm(var=(3, 3, 3), counter=28)
    assert len(run(part([layer]), limits={"share": 0.9**28})) == 1
    assert run(part([layer]), limits={"share": 0.9**28 * 1.001}) == []


def test_momentum_in_a_graph_is_no_knowledge() -> None:
    (hit,) = run(part([batch_norm(var=(3, 3, 3), counter=2, momentum=0.01)], carrier=Carrier.GRAPH))
    assert (hit.value, hit.confidence) == (0.81, Confidence.MEDIUM)


def test_only_a_trace_that_states_no_momentum_was_called_with_0() -> None:
    silent: dict[str, Any] = {"var": (3, 3, 3), "counter": 1, "graph_training": False}
    assert len(run(part([batch_norm(**silent)], carrier=Carrier.GRAPH))) == 1
    assert len(run(part([batch_norm(momentum=0.1, **silent)], carrier=Carrier.SCRIPT))) == 1


@pytest.mark.parametrize(("momentum", "found"), [(0.95, 1), (1.05, 0)])
def test_a_momentum_above_1_averages_nothing(momentum: float, found: int) -> None:
    layer = batch_norm(var=(3, 3, 3), counter=1, momentum=momentum)
    assert len(run(module([layer]), limits={"share": 0.05 - 1e-9})) == found


def test_a_layer_without_a_share_or_a_variance_contradicts_nothing() -> None:
    found = [
        batch_norm("bn1", var=(3, 3, 3), counter=5, momentum=0.1),
        batch_norm("bn2", var=(-1, 3, 3), counter=5, momentum=1.0),
        batch_norm("bn3", var=None, counter=5, momentum=0.1),
    ]
    assert [hit.layer for hit in run(module(found))] == ["bn1", "bn3"]


def test_a_variance_a_hundredth_below_the_share_is_rounding() -> None:
    share = arithmetic.residual_share(0.1, 10)
    assert len(run(part([batch_norm(var=(share * 0.99, 3, 3), counter=10)]))) == 1


@pytest.mark.parametrize(("severe_share", "severity"), [(0.9, Severity.ERROR), (0.91, Severity.WARNING)])
def test_a_share_exactly_at_the_severe_one_is_an_error(severe_share: float, severity: Severity) -> None:
    (hit,) = run(module([after(1, momentum=0.1)]), limits={"severe_share": severe_share})
    assert hit.severity is severity
    assert hit.message == "90% of the statistics is still the initial value: 1 update, momentum 0.1"


@pytest.mark.parametrize("kind", [NormKind.BATCH, NormKind.SYNC_BATCH])
def test_every_norm_that_learns_statistics_is_looked_at(kind: NormKind) -> None:
    assert len(run(part([batch_norm(var=(3, 3, 3), counter=3, kind=kind)]))) == 1
