from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from builders import batch_norm, hits, part, tensor

from bnaudit import arithmetic
from bnaudit.description import Carrier, NormKind, NormLayer
from bnaudit.results import Confidence, Severity
from bnaudit.rules import load_rule

RULE = "bn103_virgin_statistics"
run = partial(hits, RULE)

FRESH: dict[str, Any] = {"mean": (0, 0, 0), "var": (1, 1, 1), "gamma": (1, 1, 1), "beta": (0, 0, 0), "counter": 0}


def virgin(name: str = "bn1", **changes: Any) -> NormLayer:
    return batch_norm(name, **{**FRESH, **changes})


MOVED = batch_norm("other")


@pytest.mark.parametrize(
    ("changes", "proof"),
    [
        ({"counter": 1}, "its counter moved"),
        ({"counter": 100_000}, "its counter moved"),
        ({"beta": (0, 1e-6, 0)}, "its weight or bias is trained"),
        ({"gamma": (0.5, 1.2, 0.9)}, "its weight or bias is trained"),
        ({"gamma": (0.5, -0.2, 0.9)}, "its weight or bias is trained"),
        ({"beta": (0, 1, 0), "counter": None}, "its weight or bias is trained"),
    ],
)
def test_a_trained_layer_at_initial_statistics_is_an_error(changes: dict[str, Any], proof: str) -> None:
    for layers in ([virgin(**changes)], [virgin(**changes), MOVED]):
        (hit,) = run(part(layers))
        assert (hit.layer, hit.severity, hit.confidence) == ("bn1", None, Confidence.HIGH)
        assert proof in hit.message
    assert load_rule(RULE).severity is Severity.ERROR


def test_the_same_in_a_graph() -> None:
    layers = [virgin(counter=None, gamma=(1.5, 0.5, 1)), batch_norm("other", counter=None)]
    (hit,) = run(part(layers, carrier=Carrier.GRAPH))
    assert hit.layer == "bn1"


@pytest.mark.parametrize("changes", [{"mean": (0, 0, 1e-30)}, {"var": (1, 1, 1.0000001)}])
def test_one_channel_that_moved_is_enough(changes: dict[str, Any]) -> None:
    assert run(part([virgin(counter=5, beta=(1, 1, 1), **changes)])) == []


@pytest.mark.parametrize("counter", [0, None])
@pytest.mark.parametrize(
    "affine", [{}, {"gamma": (0, 0, 0)}, {"gamma": (0.1, 0.9, 0.5)}, {"gamma": None, "beta": None}]
)
def test_an_unused_branch_is_a_warning(counter: int | None, affine: dict[str, Any]) -> None:
    (hit,) = run(part([virgin("aux.bn", counter=counter, **affine), MOVED]))
    assert (hit.layer, hit.severity, hit.confidence) == ("aux.bn", Severity.WARNING, Confidence.MEDIUM)
    assert hit.undecided


@pytest.mark.parametrize("gamma", [(1, 1, 1), (0, 0, 0), (0.2, 0.7, 0.5)])
@pytest.mark.parametrize("counter", [0, None])
def test_a_fresh_model_is_one_note(gamma: tuple[float, ...], counter: int | None) -> None:
    (hit,) = run(part([virgin("bn1", gamma=gamma, counter=counter), virgin("bn2", counter=counter)]))
    assert (hit.layer, hit.severity, hit.value) == (None, Severity.NOTE, 2)
    assert "a fresh model" in hit.message


def test_untrained_layers_beside_trained_ones_that_are_all_virgin_are_not_blamed() -> None:
    (hit,) = run(part([virgin("bn1"), virgin("bn2", counter=10)]))
    assert hit.layer == "bn2"


@pytest.mark.parametrize(("variance", "open_verdict"), [(1.0, True), (1 - 1e-5, False), (1 - 1e-3, False)])
def test_absorbed_statistics_are_one_note(variance: float, open_verdict: bool) -> None:
    layers = [virgin(f"bn{i}", var=(variance,) * 3, counter=None, beta=(0.3, 0.2, 0.1)) for i in range(5)]
    (hit,) = run(part(layers))
    assert (hit.layer, hit.severity, hit.value, hit.limit) == (None, Severity.NOTE, variance, 1)
    assert bool(hit.undecided) is open_verdict
    assert hit.message.endswith("or never stored") is open_verdict


@pytest.mark.parametrize("kind", [NormKind.BATCH, NormKind.FROZEN_BATCH])
def test_absorbed_statistics_of_frozen_norms_too(kind: NormKind) -> None:
    layers = [virgin(f"bn{i}", kind=kind, counter=None, beta=(0.3, 0.2, 0.1)) for i in range(2)]
    (hit,) = run(part(layers))
    assert "absorbed" in hit.message


def test_what_only_looks_absorbed() -> None:
    trained = partial(virgin, beta=(0.3, 0.2, 0.1))
    with_counters = run(part([trained("bn1", counter=7), trained("bn2", counter=7)]))
    assert [hit.layer for hit in with_counters] == ["bn1", "bn2"]
    one_moved = run(part([trained("bn1", counter=None), batch_norm("bn2", counter=None)]))
    assert [hit.layer for hit in one_moved] == ["bn1"]
    alone = run(part([trained("bn1", counter=None)]))
    assert [hit.layer for hit in alone] == ["bn1"]
    too_far = [trained(f"bn{i}", var=(0.998,) * 3, counter=None) for i in range(2)]
    assert run(part(too_far)) == []


@pytest.mark.parametrize("kind", [NormKind.INSTANCE, NormKind.GROUP, NormKind.LAYER, NormKind.RMS, NormKind.UNKNOWN])
def test_other_norms_are_silent(kind: NormKind) -> None:
    assert run(part([virgin(kind=kind, counter=9), MOVED])) == []


def test_values_that_were_not_read_are_unknown() -> None:
    absent = tensor("bn1.running_mean", None, absence="on the meta device")
    assert run(part([virgin(mean=absent, counter=9), MOVED])) == []


def test_a_momentum_of_zero_leaves_exactly_this() -> None:
    norm = torch.nn.BatchNorm1d(3, momentum=0.0)
    norm(torch.randn(8, 3, generator=torch.Generator().manual_seed(0)))
    layer = batch_norm(
        mean=norm.running_mean.numpy(),
        var=norm.running_var.numpy(),
        gamma=(1, 1, 1),
        beta=(0, 0, 0),
        counter=norm.num_batches_tracked.item(),
    )
    (hit,) = run(part([layer]))
    assert hit.value == "1 update"


def test_the_pages_arithmetic() -> None:
    one = np.ones(1)
    true = arithmetic.forward(np.array([[30.0]]), 20 * one, 25 * one, 2 * one, one, 0.0)
    initial = arithmetic.forward(np.array([[30.0]]), 0 * one, one, 2 * one, one, 0.0)
    assert (true.item(), initial.item()) == (5.0, 61.0)


def test_weights_and_biases_that_an_initialiser_drew_are_a_note_that_stays_open() -> None:
    """timm 1.0 builds RepVGG with weights from N(0.1, 0.1) and biases from N(0, 0.1)."""
    random = np.random.default_rng(0)
    layers = [
        virgin(
            f"stages.{number}.bn",
            mean=np.zeros(64),
            var=np.ones(64),
            gamma=random.normal(0.1, 0.1, 64),
            beta=random.normal(0.0, 0.1, 64),
            counter=0,
        )
        for number in range(12)
    ]
    (hit,) = run(part(layers))
    assert (hit.layer, hit.severity) == (None, Severity.NOTE)
    assert hit.undecided
    assert len(run(part([*layers, virgin("head.bn", beta=(1, 1, 1), counter=0)]))) == 13


def test_a_part_without_batch_norms_is_no_fresh_model() -> None:
    assert run(part([])) == []


@pytest.mark.parametrize("left", [{"mean": ()}, {"var": ()}, {"mean": (), "var": ()}, {"var": None}, {"mean": None}])
def test_a_layer_without_values_does_not_count(left: dict[str, Any]) -> None:
    (hit,) = run(part([virgin("bn1"), batch_norm("bn2", **left)]))
    assert (hit.layer, hit.severity, hit.value) == (None, Severity.NOTE, 1)


def test_one_channel_is_enough() -> None:
    single: dict[str, Any] = {"mean": (0,), "var": (1,), "gamma": (1,), "beta": (0,)}
    (fresh,) = run(part([virgin(**single)]))
    assert fresh.message.endswith("variance 1 and nothing trained")
    (trained,) = run(part([virgin(**single, counter=1), MOVED]))
    assert trained.layer == "bn1"


def test_one_layer_as_if_drawn_makes_the_model_so() -> None:
    random = np.random.default_rng(0)
    zeros, ones = np.zeros(64), np.ones(64)
    drawn = [
        virgin(f"{i}.bn", mean=zeros, var=ones, gamma=random.normal(0.1, 0.1, 64), beta=random.normal(0, 0.1, 64))
        for i in range(8)
    ]
    single = virgin("head.bn", mean=(0,), var=(1,), gamma=(0.1,), beta=(0,))
    (hit,) = run(part([*drawn, single]))
    assert hit.message.endswith("a weight and bias as if drawn") and hit.value == 9


ABSORBED: dict[str, Any] = {"var": (1 - 1e-5,) * 3, "counter": None, "beta": (0.3, 0.2, 0.1)}


@pytest.mark.parametrize(
    "one",
    [
        {"mean": (0, 0, 1e-3)},
        {"mean": (1e-3, 1e-3, 1e-3)},
        {"var": (1 - 1e-5, 1 - 1e-4, 1 - 1e-5)},
        {"var": (1 - 1e-4,) * 3},
    ],
)
def test_absorbed_means_one_variance_everywhere_and_no_mean(one: dict[str, Any]) -> None:
    for order in (1, -1):
        layers = [virgin("bn1", **{**ABSORBED, **one}), virgin("bn2", **ABSORBED)]
        assert run(part(layers[::order])) == []


def test_one_trained_affine_is_enough_to_have_absorbed_statistics() -> None:
    (hit,) = run(part([virgin("bn1", **ABSORBED), virgin("bn2", **{**ABSORBED, "beta": (0, 0, 0)})]))
    assert (hit.layer, hit.severity) == (None, Severity.NOTE)
    assert run(part([virgin(f"bn{i}", **{**ABSORBED, "beta": (0, 0, 0)}) for i in range(2)])) == []


@pytest.mark.parametrize(("variance", "limit", "found"), [(1 - 1.0005e-3, 1e-3, 1), (1 - 1.0015e-3, 1e-3, 0)])
def test_a_thousandth_of_the_limit_is_left_to_rounding(variance: float, limit: float, found: int) -> None:
    layers = [virgin(f"bn{i}", **{**ABSORBED, "var": (variance,) * 3}) for i in range(2)]
    assert len(run(part(layers), limits={"absorbed_variance": limit})) == found


def test_a_variance_exactly_at_the_limit_is_near_enough() -> None:
    assert 0.5 / 1.001 * 1.001 == 0.5
    layers = [virgin(f"bn{i}", **{**ABSORBED, "var": (0.5,) * 3}) for i in range(2)]
    assert len(run(part(layers), limits={"absorbed_variance": 0.5 / 1.001})) == 1
