from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from builders import batch_norm, part
from compared import compared_hits, part_of, trained

from bnaudit.results import Confidence

run = partial(compared_hits, "bn601_buffers_moved_weights_still")


def arrays(module: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: value.numpy().copy() for name, value in module.state_dict().items()}


def net() -> torch.nn.Module:
    """Trained once, so that weights and biases say something."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = torch.nn.Sequential(torch.nn.Conv2d(3, 6, 3), torch.nn.BatchNorm2d(6), torch.nn.Conv2d(6, 4, 3))
        optimizer = torch.optim.SGD(made.parameters(), lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            made(torch.randn(8, 3, 8, 8)).square().mean().backward()
            optimizer.step()
    return made


@pytest.mark.parametrize(("forwards", "words"), [(1, "; a stray forward in"), (2, "; stray forwards in"), (3, "")])
def test_a_forward_in_training_mode_is_found_and_named(forwards: int, words: str) -> None:
    model = net()
    before = arrays(model)
    with torch.no_grad():
        for _ in range(forwards):
            model(torch.zeros(4, 3, 8, 8))
    (hit,) = run(part_of(arrays(model)), part_of(before))
    assert hit.layer == "1"
    assert f"counter by +{forwards}" in hit.message
    assert hit.message.endswith("training mode") is bool(words) and words in hit.message
    mean, std = before["1.running_mean"], np.sqrt(before["1.running_var"] + 1e-5)
    shift = (model[1].running_mean.numpy() - mean) / std  # type: ignore[index]
    assert hit.value == pytest.approx(np.sqrt((shift**2).mean()), rel=1e-3)


def test_nothing_moved() -> None:
    assert run(part([trained()]), part([trained()])) == []


def test_a_counter_alone_is_silent() -> None:
    assert run(part([trained(counter=7)]), part([trained(counter=9)])) == []


def test_weights_that_moved_too_are_another_matter() -> None:
    assert run(part([trained(seed=1)]), part([trained()])) == []


def test_one_channel_is_enough() -> None:
    moved = np.array(trained().var)
    moved[3] *= 1.01
    (hit,) = run(part([trained(var=moved)]), part([trained()]))
    assert hit.channels[0] == 3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_rounded_copy_is_silent(dtype: torch.dtype) -> None:
    baseline = trained()
    halves = {
        name: torch.tensor(values).to(dtype).double().numpy()
        for name, values in (("mean", baseline.mean), ("var", baseline.var))
    }
    stored_as_half = trained(**halves, dtype=str(dtype).removeprefix("torch."))
    assert run(part([stored_as_half]), part([baseline])) == []
    assert run(part([trained(**halves)]), part([baseline])) == [], "converted back to float32"
    assert run(part([baseline]), part([trained(**halves)])) == []
    moved = {**halves, "mean": halves["mean"] * 1.05}
    assert len(run(part([trained(**moved)]), part([baseline]))) == 1


def test_buffers_that_were_lost_are_named() -> None:
    (hit,) = run(part([trained(mean=np.zeros(8), var=np.ones(8))]), part([trained()]))
    assert "initial 0 and 1: buffers were lost" in hit.message


def test_a_swap_is_named() -> None:
    layer = trained()
    (hit,) = run(part([trained(mean=layer.var, var=layer.mean)]), part([layer]))
    assert "mean and variance changed places" in hit.message


def test_an_epsilon_in_the_variance_is_named() -> None:
    var = np.float32(np.array(trained().var) + 1e-5).astype(float)
    (hit,) = run(part([trained(var=var)]), part([trained()]))
    assert "the variance has +1e-05 in every channel: an epsilon" in hit.message
    (hit,) = run(part([trained(var=np.array(trained().var) + 0.1)]), part([trained()]))
    assert "epsilon" not in hit.message
    for factor in (1.00001, 1.000001, 1.0000005):
        (hit,) = run(part([trained(var=np.float32(np.array(trained().var) * factor))]), part([trained()]))
        assert "epsilon" not in hit.message
    narrow = np.float32(np.linspace(0.13, 0.22, 8))
    for factor in (1.000001, 1.0000005):
        (hit,) = run(part([trained(var=np.float32(narrow * factor))]), part([trained(var=narrow)]))
        assert "epsilon" not in hit.message


def test_weights_as_built_are_weaker_evidence() -> None:
    plain = {"gamma": np.ones(8), "beta": np.zeros(8)}
    (hit,) = run(part([trained(mean=np.zeros(8), **plain)]), part([trained(**plain)]))
    assert hit.confidence is Confidence.MEDIUM


def test_what_is_not_known_is_silent() -> None:
    bare = {"gamma": None, "beta": None}
    assert run(part([trained(seed=1, **bare)]), part([trained(**bare)])) == []
    assert run(part([trained(mean=None)]), part([trained()])) == []
    assert run(part([trained()]), part([trained(var=None)])) == []
    assert run(part([batch_norm()]), part([trained()])) == [], "another number of channels"


def test_broken_values_are_told_without_a_warning() -> None:
    nan = np.array(trained().mean)
    nan[0] = np.nan
    (hit,) = run(part([trained(mean=nan)]), part([trained()]))
    assert hit.value == 0.0
    assert hit.message.endswith("; 1 value is not finite any more")
    assert run(part([trained(mean=nan)]), part([trained(mean=nan)])) == []


def test_the_pages_arithmetic() -> None:
    layer = torch.nn.BatchNorm1d(1)
    layer.running_mean.fill_(2.0)  # type: ignore[union-attr]
    layer.running_var.fill_(4.0)  # type: ignore[union-attr]
    seen = []
    for _ in range(50):
        layer(torch.zeros(4, 1))
        seen.append((float(layer.running_mean), float(layer.running_var)))  # type: ignore[arg-type]
    assert seen[0] == pytest.approx((1.8, 3.6))
    assert seen[1] == pytest.approx((1.62, 3.24))
    assert seen[49] == pytest.approx((0.0103, 0.0206), rel=1e-2)
    assert abs((2 - 1.62) / 2 - 0.19) < 1e-9


EPSILON = "an epsilon"


@pytest.mark.parametrize(
    ("constant", "named"),
    [(1e-2, True), (0.95e-2, True), (1.05e-2, False), (1e-8, True), (1.05e-8, True), (0.95e-8, False), (-1e-5, True)],
)
def test_an_epsilon_lies_between_a_hundredth_and_a_hundred_millionth(constant: float, named: bool) -> None:
    # Not equal to it in float16, of which it would be a copy.
    var = np.full(8, 1.001e-3 if constant < 0 else 0.0 if constant > 1e-3 else 2.0**-60)
    (hit,) = run(part([trained(var=var + constant)]), part([trained(var=var)]))
    assert (EPSILON in hit.message) is named


@pytest.mark.parametrize(("apart", "named"), [(0.0095, True), (0.0105, False)])
def test_it_is_the_same_within_a_hundredth_in_every_channel(apart: float, named: bool) -> None:
    signs = np.array([1, -1] * 4)
    (hit,) = run(part([trained(var=1e-4 * (1 + apart * signs))]), part([trained(var=np.zeros(8))]))
    assert (EPSILON in hit.message) is named


@pytest.mark.parametrize(
    ("constant", "var", "named"),
    [
        # 8 float32 steps of a variance of 1 are 9.5e-7
        (9.0e-7, [1.0] * 8, False),
        (2.0**-20 * (1 + 2.0**-15), [1.0] * 8, False),
        (1.0e-6, [1.0] * 8, True),
        (3.0e-6, [4.0] * 8, False),
        (1.0e-6, [0.5] * 4 + [2.0] * 4, True),
        (1.0e-6, [0.5] * 3 + [2.0] * 5, False),
    ],
)
def test_in_half_of_the_channels_it_is_more_than_the_last_bits(constant: float, var: list[float], named: bool) -> None:
    before = np.array(var) * (1 + 2.0**-15)  # no float16, of which it would be a copy
    (hit,) = run(part([trained(var=before + constant)]), part([trained(var=before)]))
    assert (EPSILON in hit.message) is named


@pytest.mark.parametrize(("channels", "named"), [(1, False), (2, True)])
def test_of_one_channel_nobody_knows_whether_it_is_the_same_in_all(channels: int, named: bool) -> None:
    var = np.full(channels, 0.5001)
    subject, baseline = (part([trained(channels=channels, var=each)]) for each in (var + 1e-4, var))
    (hit,) = run(subject, baseline)
    assert (EPSILON in hit.message) is named


def test_where_the_means_moved_too_it_is_no_epsilon() -> None:
    layer = trained()
    (hit,) = run(part([trained(mean=layer.mean * 2, var=layer.var + 1e-3)]), part([layer]))
    assert EPSILON not in hit.message


def test_half_a_swap_is_none() -> None:
    layer = trained()
    one_alike = np.array(layer.mean)
    one_alike[0] = layer.var[0]
    for moved in ({"mean": layer.var}, {"var": abs(layer.mean)}, {"mean": one_alike}):
        (hit,) = run(part([trained(**moved)]), part([layer]))
        assert "changed places" not in hit.message


@pytest.mark.parametrize("counter", [1000, None])
def test_without_another_count_no_forward_strayed(counter: int | None) -> None:
    moved = {"mean": trained().mean * 1.5, "counter": counter}
    (hit,) = run(part([trained(**moved)]), part([trained(counter=counter)]))
    assert "stray" not in hit.message and hit.confidence is Confidence.HIGH


def test_a_swap_is_of_both_and_of_every_channel() -> None:
    mean, var = np.linspace(1, 2, 8), np.linspace(2.5, 4, 8)
    first = np.arange(8) == 0
    for moved in (
        {"mean": mean, "var": mean},
        {"mean": np.where(first, var, mean), "var": np.where(first, mean, var)},
    ):
        (hit,) = run(part([trained(**moved)]), part([trained(mean=mean, var=var)]))
        assert "changed places" not in hit.message
