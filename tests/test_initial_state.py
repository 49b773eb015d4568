from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
import torch
from builders import batch_norm, tensor
from numpy.typing import NDArray

from bnaudit.description import CUMULATIVE, NormLayer
from bnaudit.initial_state import (
    has_drawn_affines,
    has_initial_affine,
    initial_share,
    is_absorbed,
    is_fresh,
    is_virgin,
    updates,
    was_trained,
)


def _of_torch(norm: torch.nn.BatchNorm1d, name: str = "bn1") -> NormLayer:
    return batch_norm(
        name,
        mean=norm.running_mean.numpy(),
        var=norm.running_var.numpy(),
        gamma=norm.weight.detach().numpy(),
        beta=norm.bias.detach().numpy(),
        counter=norm.num_batches_tracked.item(),
    )


def test_a_layer_as_pytorch_builds_it_is_fresh() -> None:
    layer = _of_torch(torch.nn.BatchNorm1d(5))
    assert is_virgin(layer)
    assert has_initial_affine(layer)
    assert not was_trained(layer)
    assert is_fresh([layer, layer])


def test_one_training_forward_is_seen() -> None:
    norm = torch.nn.BatchNorm1d(5)
    norm(torch.randn(8, 5, generator=torch.Generator().manual_seed(0)))
    layer = _of_torch(norm)
    assert not is_virgin(layer)
    assert was_trained(layer)


def test_one_optimizer_step_is_seen() -> None:
    norm = torch.nn.BatchNorm1d(5)
    norm.eval()
    optimizer = torch.optim.SGD(norm.parameters(), lr=0.1)
    (norm(torch.randn(8, 5, generator=torch.Generator().manual_seed(0))) ** 2).sum().backward()
    optimizer.step()
    layer = _of_torch(norm)
    assert is_virgin(layer)
    assert not has_initial_affine(layer)
    assert was_trained(layer)


@pytest.mark.parametrize(
    ("gamma", "beta", "initial"),
    [
        ((1, 1, 1), (0, 0, 0), True),
        ((0, 0, 0), (0, 0, 0), True),
        ((0.2, 0.9, 0.0), (0, 0, 0), True),
        ((2, 2, 2), (0, 0, 0), True),
        (None, None, True),
        ((1, 1, 1), (0, 1e-9, 0), False),
        ((0.2, 1.1, 0.5), (0, 0, 0), False),
        ((0.2, -0.1, 0.5), (0, 0, 0), False),
        ((0.95, 1.06, 1.01), (0, 0, 0), True),
        ((0.95, 1.06, 1.01), (0, 1e-9, 0), False),
        ((0.95, 1.11, 1.01), (0, 0, 0), False),
        ((0.2, 1.0, 0.5), (0, 0, 0), True),
        ((0.9, 1.1, 1.0), (0, 0, 0), True),
        ((0.91, 1.09, 1.0), (0, 0, 0), True),
        ((0.89, 1.01, 1.0), (0, 0, 0), False),
        ((), (), True),
    ],
)
def test_initial_affine(gamma: object, beta: object, initial: bool) -> None:
    assert has_initial_affine(batch_norm(gamma=gamma, beta=beta)) is initial


def test_the_initialiser_of_dcgan_shows_no_training() -> None:
    norm = torch.nn.BatchNorm1d(1024)
    torch.nn.init.normal_(norm.weight, 1.0, 0.02, generator=torch.Generator().manual_seed(0))
    assert is_fresh([_of_torch(norm)])


@pytest.mark.parametrize(
    ("counter", "expected"),
    [(0, 0), (7, 7), (None, None), (-1, None), (2.5, None), (math.inf, None), (math.nan, None), (3.0, 3)],
)
def test_only_a_whole_counter_counts(counter: float | None, expected: int | None) -> None:
    stored = None if counter is None else tensor("bn1.num_batches_tracked", counter, "float32")
    assert updates(batch_norm(counter=stored)) == expected


def test_without_values_nothing_is_virgin() -> None:
    absent = tensor("bn1.running_mean", None, absence="on the meta device")
    assert not is_virgin(batch_norm(mean=absent, var=(1, 1, 1)))
    assert not is_virgin(batch_norm(mean=None, var=None))
    for mean, var in (((), ()), ((), (1, 1, 1)), ((0, 0, 0), ()), ((0, 0, 0), None)):
        assert not is_virgin(batch_norm(mean=mean, var=var))


@pytest.mark.parametrize(
    ("counter", "momentum", "share"),
    [
        (10, 0.1, 0.9**10),
        (10, None, 0.9**10),
        (3, 0.5, 0.125),
        (2.5, 0.5, 0.5**2.5),
        (1, CUMULATIVE, 0.0),
        (0, 0.1, None),
        (10, 0.0, None),
        (float("inf"), 0.1, None),
        (2, 1.0, 0.0),
        (2, 1.5, None),
    ],
)
def test_initial_share(counter: float, momentum: object, share: float | None) -> None:
    stored = tensor("bn.num_batches_tracked", counter, "float32")
    layer = batch_norm("bn", counter=stored, momentum=momentum)
    assert initial_share(layer) == (None if share is None else pytest.approx(share))


def _drawn(layers: int = 10, channels: int = 64, counter: int | None = 0) -> list[NormLayer]:
    """As timm 1.0 builds RepVGG: weights from N(0.1, 0.1), biases from N(0, 0.1)."""
    generator = torch.Generator().manual_seed(0)
    return [
        batch_norm(
            f"bn{number}",
            mean=torch.zeros(channels).numpy(),
            var=torch.ones(channels).numpy(),
            gamma=torch.normal(0.1, 0.1, (channels,), generator=generator).numpy(),
            beta=torch.normal(0.0, 0.1, (channels,), generator=generator).numpy(),
            counter=counter,
        )
        for number in range(layers)
    ]


def _with(layer: NormLayer, **arrays: object) -> NormLayer:
    given = {"mean": layer.mean, "var": layer.var, "gamma": layer.gamma, "beta": layer.beta, "counter": 0, **arrays}
    return batch_norm(layer.name, **given)


def test_the_initialiser_of_repvgg_shows_no_training() -> None:
    assert is_fresh(_drawn())
    assert has_drawn_affines(_drawn())


@pytest.mark.parametrize("seed", range(20))
def test_weights_drawn_for_layers_of_any_width_are_fresh(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    widths = [8, 16, 24, 3, 512, 64, 1, 96, 32, 1024]
    layers = [
        batch_norm(
            mean=torch.zeros(width).numpy(),
            var=torch.ones(width).numpy(),
            gamma=torch.normal(0.1, 0.1, (width,), generator=generator).numpy(),
            beta=torch.normal(0.0, 0.1, (width,), generator=generator).numpy(),
            counter=0,
        )
        for width in widths
    ]
    assert is_fresh(layers)


@pytest.mark.parametrize("change", ["shifted bias", "wider weights", "weights of one size", "a NaN"])
def test_layers_that_differ_were_trained(change: str) -> None:
    first, *others = _drawn()
    gamma, beta = torch.tensor(first.gamma), torch.tensor(first.beta)
    changed = {
        "shifted bias": {"beta": (beta + 0.1).numpy()},
        "wider weights": {"gamma": (0.1 + (gamma - 0.1) * 2).numpy()},
        "weights of one size": {"gamma": torch.full_like(gamma, 1.0).numpy()},
        "a NaN": {"gamma": torch.where(torch.arange(gamma.numel()) == 3, torch.nan, gamma).numpy()},
    }[change]
    assert not is_fresh([_with(first, **changed), *others])


def test_one_step_of_adam_is_no_draw() -> None:
    """It moves every value by the learning rate, up or down."""
    generator = torch.Generator().manual_seed(1)
    step = [
        _with(
            layer,
            gamma=(1 + 0.001 * torch.randn(64, generator=generator).sign()).numpy(),
            beta=(0.001 * torch.randn(64, generator=generator).sign()).numpy(),
        )
        for layer in _drawn()
    ]
    assert not is_fresh(step)


def test_few_layers_or_missing_counters_prove_no_draw() -> None:
    assert not is_fresh(_drawn(layers=7))
    assert not is_fresh(_drawn(counter=None))
    assert not is_fresh(_drawn(counter=5))


def test_statistics_that_are_not_there_leave_no_share() -> None:
    assert initial_share(batch_norm(mean=None, counter=10)) is None
    assert initial_share(batch_norm(counter=None)) is None


def test_eight_layers_that_were_never_counted_prove_a_draw() -> None:
    assert has_drawn_affines(_drawn(layers=8))
    first, *others = _drawn()
    assert not has_drawn_affines([batch_norm(gamma=first.gamma, beta=first.beta, counter=1), *others])


@pytest.mark.parametrize("left", [{"gamma": None}, {"beta": None}, {"gamma": ()}, {"beta": ()}])
def test_a_layer_without_weight_or_bias_was_not_drawn_as_the_others(left: dict[str, object]) -> None:
    first, *others = _drawn()
    assert not has_drawn_affines([_with(first, **left), *others])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [0.1, 0.5, math.inf, math.nan, 1e200])
def test_weights_of_one_number_or_none_were_not_drawn(value: float) -> None:
    alike = np.full(64, value) * np.where(np.arange(64) % 2, 1, 1 + (value == 1e200))
    assert not has_drawn_affines([_with(layer, gamma=alike) for layer in _drawn()])


@pytest.mark.parametrize(
    ("layers", "absorbed"),
    [
        ([{}, {}], True),
        ([{}], False),
        ([], False),
        ([{}, {"var": None}], False),
        ([{"mean": None}, {}], False),
        ([{"var": None}, {}], False),
        ([{"mean": (), "var": ()}, {}], False),
    ],
)
def test_absorbed_statistics_need_two_layers_with_values(layers: list[dict[str, object]], absorbed: bool) -> None:
    settings = {"mean": (0, 0, 0), "var": (1, 1, 1), "beta": (1, 2, 3), "counter": None}
    assert is_absorbed([batch_norm(**{**settings, **each}) for each in layers]) is absorbed


@pytest.mark.parametrize(("below_one", "absorbed"), [(0.95e-3, True), (1.05e-3, False)])
def test_absorbed_variances_lie_within_a_thousandth_of_1(below_one: float, absorbed: bool) -> None:
    layer = batch_norm(mean=(0, 0, 0), var=(1 - below_one,) * 3, beta=(1, 2, 3), counter=None)
    assert is_absorbed([layer, layer]) is absorbed


def test_one_trained_layer_makes_a_model_that_is_not_fresh() -> None:
    fresh = {"mean": (0, 0, 0), "var": (1, 1, 1), "gamma": (1, 1, 1), "beta": (0, 0, 0), "counter": 0}
    assert is_fresh([batch_norm(**fresh), batch_norm(**fresh)])
    assert not is_fresh([batch_norm(**fresh), batch_norm(**{**fresh, "beta": (0, 0.1, 0)})])


def _alike(values: NDArray[np.float64], last: NDArray[np.float64]) -> list[NormLayer]:
    """Eight layers whose weights and biases are these values, but for the last one's."""
    return [_with(layer, gamma=each, beta=each) for layer, each in zip(_drawn(8), [*[values] * 7, last], strict=True)]


NORMAL = np.array([NormalDist().inv_cdf((i + 0.5) / 64) for i in range(64)])


@pytest.mark.parametrize(("errors", "drawn"), [(4.9, True), (5.1, False)])
def test_a_mean_within_five_errors_was_drawn(errors: float, drawn: bool) -> None:
    """Eight means of 64 values: one that is off by d moves the common one by d / 8, and the spread by d² · 7 / 64."""
    limit = errors / 8
    off = limit / math.sqrt((7 / 8) ** 2 - limit**2 * 7 / 64) * NORMAL.std()
    assert has_drawn_affines(_alike(NORMAL, NORMAL + off)) is drawn


@pytest.mark.parametrize(("apart", "drawn"), [(0.4567, True), (0.4583, False)])
def test_a_spread_within_five_errors_was_drawn(apart: float, drawn: bool) -> None:
    """5 / √64 / √2 + 1 / 64 = 0.4575; a spread f times the others' is f / √((7 + f²) / 8) times the common one."""
    share = 1 + apart
    factor = math.sqrt(7 * share**2 / (8 - share**2))
    assert has_drawn_affines(_alike(NORMAL, NORMAL * factor)) is drawn


@pytest.mark.parametrize(("inner", "drawn"), [(64, True), (73, True), (74, False), (100, False)])
def test_half_of_what_was_drawn_lies_within_its_quartiles(inner: int, drawn: bool) -> None:
    """Of 8 · 128 values half and 2.5 / √1024 more or less, that is up to 74 of 128, and not 74 itself."""
    outer = np.where(np.arange(128 - inner) % 2, 1.0, -1.0)
    values = np.concatenate([np.linspace(-1e-3, 1e-3, inner), outer])
    assert has_drawn_affines(_alike(values, values)) is drawn
