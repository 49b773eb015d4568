"""Moves against arithmetic by hand and against PyTorch's own outputs."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from builders import batch_norm, part
from compared import part_of, trained
from hypothesis import given
from hypothesis import strategies as st

from bnaudit.comparison import Move
from bnaudit.matching import match, moves

ODD = st.sampled_from((0.0, -1.0, 1e-30, 1e30, -0.0, math.nan, math.inf, -math.inf, 1e308, 5e-324, 0.3))
THREE = st.lists(ODD, min_size=3, max_size=3)


def move(subject: Any, baseline: Any) -> Move:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = moves(match(part([subject]), part([baseline])))
    return found


def test_nothing_moved() -> None:
    found = move(trained(eps=1e-5), trained(eps=1e-5))
    assert (found.affine_equal, found.statistics_equal, found.rounding) == (True, True, "")
    assert (found.mean_shift, found.var_ratio, found.affine_change) == (0.0, 1.0, 0.0)
    assert (found.gain_change, found.shift_change, found.channels) == (0.0, 0.0, ())
    assert (found.configuration, found.modes, found.counters) == ((), None, (1000.0, 1000.0))


def test_the_sizes_by_hand() -> None:
    """Two channels with epsilon 0: every number can be worked out on paper."""
    baseline = batch_norm(mean=(1.0, 2.0), var=(4.0, 9.0), gamma=(2.0, 3.0), beta=(0.0, 1.0), counter=10, eps=0.0)
    subject = batch_norm(mean=(2.0, 5.0), var=(16.0, 9.0), gamma=(2.0, 3.0), beta=(0.0, 2.0), counter=12, eps=0.0)
    found = move(subject, baseline)
    assert found.counters == (10.0, 12.0)
    assert found.mean_shift == pytest.approx(math.sqrt((0.5**2 + 1.0**2) / 2))
    assert found.var_ratio == pytest.approx((4 + 1) / 2)
    assert found.affine_change == pytest.approx(1 / math.sqrt(4 + 9 + 1))
    # gains: baseline 2/2 = 1 and 3/3 = 1; subject 2/4 = 0.5 and 1. shifts: −1 and −1; −1 and 2 − 5 = −3.
    assert found.gain_change == pytest.approx(0.5)
    assert found.shift_change == pytest.approx(2 / (1 + 1))
    assert found.channels == (1, 0)


def test_gain_and_shift_are_what_pytorch_computes() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        nets = [torch.nn.BatchNorm1d(5).double().eval() for _ in range(2)]
        for net in nets:
            for tensor in (net.weight, net.bias, net.running_mean, net.running_var):
                tensor.data.uniform_(0.5, 1.5)  # type: ignore[union-attr]
    with torch.no_grad():
        zero = [net(torch.zeros(1, 5, dtype=torch.float64))[0].numpy() for net in nets]
        one = [net(torch.ones(1, 5, dtype=torch.float64))[0].numpy() for net in nets]
    gains = [high - low for high, low in zip(one, zero, strict=True)]
    states = [{f"bn.{name}": value.numpy() for name, value in net.state_dict().items()} for net in nets]
    (found,) = moves(match(part_of(states[0]), part_of(states[1])))
    assert found.gain_change == pytest.approx(np.abs(gains[0] - gains[1]).max() / np.abs(gains[1]).max())
    assert found.shift_change == pytest.approx(np.abs(zero[0] - zero[1]).max() / (1 + np.abs(zero[1]).max()))


def test_a_dead_channel_does_not_count_for_infinity() -> None:
    found = move(batch_norm(var=(0.0, 1.0, 2.0), mean=(1e-9, 0, 0)), batch_norm(var=(0.0, 1.0, 1.0), mean=(0, 0, 0)))
    assert found.mean_shift == pytest.approx(1e-9 / math.sqrt(1e-5) / math.sqrt(3))
    assert found.var_ratio == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("subject", "baseline", "affine", "statistics"),
    [
        ({"mean": None}, {}, True, None),
        ({}, {"var": None}, True, None),
        ({"gamma": None, "beta": None}, {"gamma": None, "beta": None}, None, True),
        ({"gamma": None, "beta": None}, {"gamma": np.ones(8), "beta": np.zeros(8)}, True, True),
        ({"gamma": None}, {}, False, True),
        ({"channels": 4}, {}, None, None),
    ],
)
def test_what_one_does_not_say_is_unknown(subject: Any, baseline: Any, affine: Any, statistics: Any) -> None:
    found = move(trained(**subject), trained(**baseline))
    assert (found.affine_equal, found.statistics_equal) == (affine, statistics)


@pytest.mark.parametrize(
    ("dtype", "fine"),
    [(torch.float16, "float32"), (torch.bfloat16, "float32"), (torch.float32, "float64"), (torch.float16, "float64")],
)
def test_a_rounded_copy_is_equal_and_says_so(dtype: torch.dtype, fine: str) -> None:
    random = np.random.default_rng(1)
    values = {"mean": random.normal(size=64), "var": random.uniform(0.01, 9, 64)}
    values = {name: value.astype(fine).astype(np.float64) for name, value in values.items()}
    copied = {name: torch.tensor(value).to(dtype).double().numpy() for name, value in values.items()}
    affine = {"gamma": random.normal(size=64), "beta": random.normal(size=64)}
    short = str(dtype).removeprefix("torch.")
    for stored in (short, fine):
        one, other = batch_norm(**copied, **affine, dtype=stored), batch_norm(**values, **affine, dtype=fine)
        for found in (move(one, other), move(other, one)):
            assert (found.statistics_equal, found.rounding) == (True, short)


def test_a_little_more_than_rounding_is_a_move() -> None:
    value = np.array([1.0, 1.0 + 2**-10, 3.0])
    moved = value + np.array([0.0, 2**-10, 0.0])
    assert (
        move(batch_norm(mean=moved, dtype="float16"), batch_norm(mean=value, dtype="float16")).statistics_equal is False
    )
    assert move(batch_norm(mean=moved, dtype="float16"), batch_norm(mean=value)).statistics_equal is False


def test_the_last_bits_of_float32_are_no_move() -> None:
    mean = np.float32(trained().mean)
    nudged = np.nextafter(mean, np.float32(9)).astype(float)
    found = move(trained(mean=nudged), trained())
    assert (found.statistics_equal, found.rounding) == (True, "float32")
    assert move(trained(mean=mean.astype(float) * (1 + 1e-6)), trained()).statistics_equal is False


@given(st.tuples(*[THREE] * 8))
def test_broken_values_neither_raise_nor_warn(values: tuple[list[float], ...]) -> None:
    names = ("mean", "var", "gamma", "beta")
    subject = batch_norm(**dict(zip(names, values[:4], strict=True)))
    baseline = batch_norm(**dict(zip(names, values[4:], strict=True)))
    found = move(subject, baseline)
    assert move(subject, subject).statistics_equal is True, "NaN is bit-equal to itself"
    for size in (found.mean_shift, found.var_ratio, found.affine_change, found.gain_change, found.shift_change):
        assert size is None or size >= 0.0


@given(st.integers(0, 50), st.integers(0, 50))
def test_what_should_be_symmetric_is(one: int, other: int) -> None:
    there, back = move(trained(seed=one), trained(seed=other)), move(trained(seed=other), trained(seed=one))
    assert (there.affine_equal, there.statistics_equal) == (back.affine_equal, back.statistics_equal)
    assert there.affine_equal is (one == other)
    assert there.var_ratio == back.var_ratio
    assert there.configuration == back.configuration


@given(st.permutations(range(8)))
def test_the_order_of_the_channels_does_not_matter(order: list[int]) -> None:
    def permuted(seed: int) -> Any:
        layer = trained(seed=seed)
        five = {"mean": layer.mean, "var": layer.var, "gamma": layer.gamma, "beta": layer.beta}
        return trained(**{name: value[order] for name, value in five.items()})

    plain, found = move(trained(seed=1), trained(seed=2)), move(permuted(1), permuted(2))
    for name in ("mean_shift", "var_ratio", "affine_change", "gain_change", "shift_change"):
        assert getattr(found, name) == pytest.approx(getattr(plain, name))
    assert tuple(order[channel] for channel in found.channels) == plain.channels


def test_at_most_sixteen_channels_are_named() -> None:
    assert len(move(trained(channels=64, seed=1), trained(channels=64)).channels) == 16


def test_modes_are_the_baselines_first() -> None:
    assert move(trained(training=True), trained(training=False)).modes == ("eval", "training")
    assert move(trained(training=True), trained()).modes is None


def test_a_declared_number_of_channels_is_not_believed() -> None:
    """2⁵³ channels would be 64 PiB of ones."""
    bare = {"mean": None, "var": None, "gamma": None, "declared_channels": 2**53}
    found = move(trained(**bare), trained(**bare))
    assert (found.affine_equal, found.gain_change) == (None, None)
