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
