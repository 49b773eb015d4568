from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from builders import batch_norm, hits, part, tensor

from bnaudit import arithmetic
from bnaudit.description import NormLayer, Part
from bnaudit.records import replace
from bnaudit.results import Confidence, Severity

run = partial(hits, "bn117_stale_average")
C = 32
RNG = np.random.default_rng(0)
RAW: dict[str, Any] = {
    "mean": RNG.normal(0.5, 1, C),
    "var": RNG.uniform(0.1, 6, C),
    "gamma": RNG.uniform(0.5, 1.5, C),
    "beta": RNG.normal(0, 0.3, C),
    "counter": 10_000,
}
INITIAL: dict[str, Any] = {"mean": np.zeros(C), "var": np.ones(C)}


def raw(name: str = "bn1") -> NormLayer:
    return batch_norm(name, **RAW)


def beside(*averaged: NormLayer, part_name: str = "state_dict_ema", **fields: Any) -> tuple[Part, Part]:
    return part([raw(layer.name) for layer in averaged], "state_dict"), part(averaged, part_name, **fields)


def affine(relative: float) -> dict[str, Any]:
    """Weights and biases whose relative L2 distance from the raw ones is this."""
    return {"gamma": RAW["gamma"] * (1 + relative), "beta": RAW["beta"] * (1 + relative)}


def test_initial_statistics_under_trained_averages_are_an_error() -> None:
    (hit,) = run(*beside(batch_norm(**{**RAW, **INITIAL, **affine(0.01)})))
    assert (hit.part, hit.layer, hit.severity) == ("state_dict_ema", "bn1", Severity.ERROR)


def test_initial_statistics_under_untrained_averages_are_a_warning() -> None:
    untrained = batch_norm(**{**RAW, **INITIAL, "gamma": np.ones(C), "beta": np.zeros(C), "counter": 0})
    (hit,) = run(*beside(untrained))
    assert hit.severity is Severity.WARNING


@pytest.mark.parametrize(("share", "found"), [(0.9, True), (0.2, True), (0.051, True), (0.049, False), (0.0001, False)])
def test_a_share_of_the_initial_values_lags(share: float, found: bool) -> None:
    mixed = {"mean": (1 - share) * RAW["mean"], "var": (1 - share) * RAW["var"] + share}
    result = run(*beside(batch_norm(**{**RAW, **mixed, **affine(0.1)})))
    assert bool(result) is found
    assert all(hit.value == round(share, 3) and hit.confidence is Confidence.MEDIUM for hit in result)


def test_the_share_is_found_in_a_real_average_over_buffers() -> None:
    norm = torch.nn.BatchNorm1d(C)
    average = torch.optim.swa_utils.AveragedModel(
        norm, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99), use_buffers=True
    )
    average.update_parameters(norm)  # the first update copies: these are the initial values
    generator = torch.Generator().manual_seed(0)
    offset, scale = torch.randn(C, generator=generator) * 3, torch.rand(C, generator=generator) * 4 + 0.2
    for _ in range(100):
        norm(torch.randn(64, C, generator=generator) * scale + offset)
    for _ in range(150):
        average.update_parameters(norm)
    stored = [(n.running_mean.numpy(), n.running_var.numpy()) for n in (norm, average.module)]
    layers = [batch_norm(mean=m, var=v, gamma=None, beta=None, counter=100) for m, v in stored]
    (hit,) = run(part([layers[0]], "model"), part([layers[1]], "ema"))
    assert hit.value == pytest.approx(0.99**150, abs=0.02)


def test_an_average_of_the_statistics_that_is_merely_older_does_not_lag() -> None:
    drifted = {"mean": RAW["mean"] * 0.93 + RNG.normal(0, 0.05, C), "var": RAW["var"] * 0.9}
    assert run(*beside(batch_norm(**{**RAW, **drifted, "counter": 9_000}))) == []
    scaled = {"mean": RAW["mean"] * 0.9, "var": RAW["var"] * 0.9}
    assert run(*beside(batch_norm(**{**RAW, **scaled}))) == []


@pytest.mark.parametrize(
    ("mean_shift", "factor", "counter", "found"),
    [
        (0.6, 1.0, 4_000, True),
        (0.4, 1.0, 4_000, False),
        (0.6, 1.0, 6_000, False),
        (0.6, 1.0, None, False),
        (0.1, 2.1, 4_000, True),
        (0.1, 1.9, 4_000, False),
        (0.0, 2.1, 4_000, True),
        (0.0, 1 / 2.1, 4_000, True),
        (0.0, 1.9, 4_000, False),
    ],
)
def test_an_old_snapshot(mean_shift: float, factor: float, counter: int | None, found: bool) -> None:
    signs = np.where(np.arange(C) % 2, 1, -1)
    old = {
        "mean": RAW["mean"] + mean_shift * signs * np.sqrt(RAW["var"]),
        "var": RAW["var"] * factor,
        "counter": counter,
    }
    assert bool(run(*beside(batch_norm(**{**RAW, **old, **affine(0.1)})))) is found


def test_a_snapshot_of_other_variances_alone_states_their_factor() -> None:
    old = {"mean": RAW["mean"], "var": RAW["var"] * 3.0, "counter": 4_000}
    (hit,) = run(*beside(batch_norm(**{**RAW, **old, **affine(0.1)})))
    assert (hit.value, hit.limit) == (3.0, 2.0)
    assert "factor between the variances" in hit.message


@pytest.mark.parametrize(
    ("relative", "severity"),
    [(0.5, Severity.WARNING), (0.051, Severity.WARNING), (0.049, Severity.NOTE), (0.001, Severity.NOTE)],
)
def test_copied_statistics_are_judged_by_the_distance_of_the_weights(relative: float, severity: Severity) -> None:
    layers = [batch_norm(f"bn{i}", **{**RAW, **affine(relative)}) for i in range(3)]
    (hit,) = run(*beside(*layers))
    assert (hit.layer, hit.part, hit.severity) == (None, "state_dict_ema", severity)
    assert hit.value == pytest.approx(relative, abs=1e-4)
    assert "3 averaged layers" in hit.message


def test_the_distance_is_taken_over_all_layers_together() -> None:
    far, near = batch_norm("bn1", **{**RAW, **affine(0.08)}), batch_norm("bn2", **RAW)
    (hit,) = run(*beside(far, near))
    assert hit.value == pytest.approx(0.08 / 2**0.5, abs=1e-4)


@pytest.mark.parametrize(
    "averaged",
    [
        batch_norm(**RAW),
        batch_norm(**{**RAW, "gamma": None, "beta": None}),
        batch_norm(**{**RAW, **affine(0.1), "mean": RAW["mean"] * 1.01, "var": RAW["var"] * 1.01}),
    ],
)
def test_equal_unknown_and_own_statistics_are_silent(averaged: NormLayer) -> None:
    assert run(*beside(averaged)) == []


def test_fresh_models_on_both_sides_are_silent() -> None:
    fresh = batch_norm(mean=(0, 0, 0), var=(1, 1, 1), counter=0)
    assert run(part([fresh], "model"), part([fresh], "ema")) == []


def test_an_average_alone_is_silent() -> None:
    assert run(part([batch_norm(**{**RAW, **INITIAL})], "ema")) == []
    assert run(part([raw()], "a"), part([batch_norm(**{**RAW, **affine(0.5)})], "b")) == []


def test_hostile_values_raise_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for field in ("mean", "var", "gamma", "beta"):
            for value in (np.nan, np.inf, 1e300, -1e300, 0.0):
                run(*beside(batch_norm(**{**RAW, field: np.full(C, value)})))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_at_no_distance(value: float) -> None:
    assert run(*beside(batch_norm(**{**RAW, "gamma": np.full(C, value)}))) == []


def test_the_default_of_pytorch_copies_buffers() -> None:
    norm = torch.nn.BatchNorm1d(C)
    average = torch.optim.swa_utils.AveragedModel(norm)
    norm(torch.randn(8, C, generator=torch.Generator().manual_seed(0)))
    average.update_parameters(norm)
    assert torch.equal(average.module.running_mean, norm.running_mean)


def test_the_pages_arithmetic() -> None:
    left = [arithmetic.residual_share(1e-4, steps) for steps in (1_000, 30_000)]
    assert [f"{share:.2g}" for share in left] == ["0.9", "0.05"]


def pair(raw_fields: dict[str, Any], averaged_fields: dict[str, Any]) -> tuple[Part, Part]:
    """A raw and an averaged layer, with no weight and bias unless they are given."""
    settings: dict[str, Any] = {"gamma": None, "beta": None, "counter": 10_000}
    one, other = batch_norm("bn1", **settings | raw_fields), batch_norm("bn1", **settings | averaged_fields)
    return part([one], "model"), part([other], "ema")


def mixed(mean: Any, var: Any, of_means: float, of_variances: float) -> tuple[Part, Part]:
    """An average that holds these shares of the initial means and variances."""
    mean, var = np.asarray(mean, dtype=float), np.asarray(var, dtype=float)
    averaged = {"mean": (1 - of_means) * mean, "var": (1 - of_variances) * var + of_variances}
    return pair({"mean": mean, "var": var}, averaged)


@pytest.mark.parametrize(
    ("of_means", "of_variances", "found"),
    [
        (0.2, 0.2 * 0.855, True),
        (0.2, 0.2 * 0.845, False),
        (0.2 * 0.855, 0.2, True),
        (0.2 * 0.845, 0.2, False),
        (-0.2, -0.2, False),
    ],
)
def test_means_and_variances_hold_the_same_share_within_a_seventh(
    of_means: float, of_variances: float, found: bool
) -> None:
    for variance in (0.5, 4.0):
        result = run(*mixed((1, 2, -1, 0.5), (variance,) * 4, of_means, of_variances))
        assert [hit.value for hit in result] == [round(of_means, 3)] * found


@pytest.mark.parametrize(("unexplained", "found"), [(0.095, True), (0.105, False)])
def test_a_tenth_may_stay_unexplained(unexplained: float, found: bool) -> None:
    off = 2 * 0.5 * (unexplained / (1 - unexplained)) ** 0.5 * np.array([1, -1, 1, -1])  # across to the way back
    raw_fields = {"mean": np.full(4, 2.0), "var": np.full(4, 4.0)}
    assert bool(run(*pair(raw_fields, {"mean": 1 + off, "var": np.full(4, 2.5)}))) is found


def test_means_are_compared_in_standard_deviations() -> None:
    """One mean of a channel with deviation 10 is off by 10: 1, of 9.5 that all the means moved by (squared)."""
    mean, var = np.array([0.0, 1.7, 1.7, -1.7]), np.array([100.0, 0.25, 0.25, 0.25])
    off = np.array([10.0, 0, 0, 0])
    averaged = {"mean": mean / 2 + off, "var": var / 2 + 0.5}
    assert run(*pair({"mean": mean, "var": var}, averaged)) == []
    assert len(run(*pair({"mean": mean, "var": var}, {**averaged, "mean": mean / 2 + off * 0.95}))) == 1


@pytest.mark.parametrize(("channels", "found"), [(3, 1), (2, 0)])
def test_three_channels_are_enough(channels: int, found: int) -> None:
    assert len(run(*mixed((1, 2, 3)[:channels], (4, 4, 4)[:channels], 0.5, 0.5))) == found


@pytest.mark.parametrize(("limit", "found"), [(0.5, 1), (0.501, 0)])
def test_a_share_exactly_at_the_limit_lags(limit: float, found: int) -> None:
    assert len(run(*mixed((2, 2, 2, 2), (4, 4, 4, 4), 0.5, 0.5), limits={"initial_share": limit})) == found


@pytest.mark.parametrize(
    ("raw_mean", "raw_var", "mean", "var"),
    [
        (7.0, 0.0, 50.0, 100.0),
        (7.0, arithmetic.PYTORCH_EPS, 50.0, 100.0),
        (7.0, 4.0, 50.0, 0.0),
        (7.0, float("inf"), 50.0, 100.0),
        (float("nan"), 4.0, 50.0, 100.0),
        (0.0, 1.0, 0.0, 1.0),
    ],
)
def test_channels_that_are_dead_or_not_finite_or_equal_say_nothing(
    raw_mean: float, raw_var: float, mean: float, var: float
) -> None:
    raw_fields = {"mean": (2, 1, -2, raw_mean), "var": (0.25, 0.25, 0.25, raw_var)}
    averaged = {"mean": (1, 0.5, -1, mean), "var": (0.625, 0.625, 0.625, var)}
    (hit,) = run(*pair(raw_fields, averaged))
    assert hit.value == 0.5


def test_means_of_zero_hold_no_share() -> None:
    zeros, fours = np.zeros(4), np.full(4, 4.0)
    assert run(*pair({"mean": zeros, "var": fours}, {"mean": zeros + 0.3, "var": np.ones(4)})) == []
    assert run(*pair({"mean": zeros, "var": fours}, {"mean": zeros, "var": fours / 2 + 0.5})) == []


@pytest.mark.parametrize("side", ["raw", "averaged", "both"])
@pytest.mark.parametrize("field", ["mean", "var"])
def test_statistics_without_values_are_unknown(side: str, field: str) -> None:
    absent = {field: replace(tensor(f"bn1.running_{field}", None, absence="offloaded"), shape=(4,))}
    (one, other) = mixed((1, 2, 3, 4), (4, 4, 4, 4), 0.5, 0.5)
    raw_fields, averaged = (
        {"mean": each.layers[0].mean, "var": each.layers[0].var} | (absent if side in (name, "both") else {})
        for each, name in ((one, "raw"), (other, "averaged"))
    )
    assert run(*pair(raw_fields, averaged)) == []


@pytest.mark.parametrize(
    ("shift", "factor", "then", "now", "value"),
    [
        (1.0, 1.0, 4_999, 10_000, None),
        (1.25, 1.0, 4_999, 10_000, 0.625),
        (1.25, 1.0, 5_000, 10_000, None),
        (1.25, 1.0, 4_999, None, None),
        (0.0, 2.0, 4_999, 10_000, None),
        (0.0, 0.5, 4_999, 10_000, None),
        (0.0, 2.5, 4_999, 10_000, 2.5),
        (0.0, 1 / 1.9, 4_999, 10_000, None),
    ],
)
def test_a_snapshot_is_older_than_half_the_batches_and_beyond_a_limit(
    shift: float, factor: float, then: int, now: int | None, value: float | None
) -> None:
    signs = np.array([1.0, -1.0, 1.0, -1.0])
    raw_fields = {"mean": np.full(4, 8.0), "var": np.full(4, 4.0), "counter": now}
    averaged = {"mean": 8 + shift * signs, "var": np.full(4, 4.0 * factor), "counter": then}
    assert [hit.value for hit in run(*pair(raw_fields, averaged))] == ([] if value is None else [value])


def copied(raw_affine: dict[str, Any], averaged_affine: dict[str, Any], **statistics: Any) -> tuple[Part, Part]:
    same: dict[str, Any] = {"mean": (1, 2, 3), "var": (4, 4, 4), **statistics}
    return pair({**same, **raw_affine}, {**same, **averaged_affine})


@pytest.mark.parametrize(
    ("limit", "severity", "reading", "advice"),
    [
        (0.5, Severity.NOTE, "documented behaviour", "nothing to do"),
        (0.499, Severity.WARNING, "they describe the raw model", "measure the statistics"),
    ],
)
def test_weights_exactly_at_the_limit_are_near(limit: float, severity: Severity, reading: str, advice: str) -> None:
    parts = copied({"gamma": (0.25, 0.25, 0.25)}, {"gamma": (0.375, 0.375, 0.375)})
    (hit,) = run(*parts, limits={"affine_difference": limit})
    assert (hit.severity, hit.value, hit.limit) == (severity, 0.5, limit)
    assert hit.message.endswith(f"50.0% apart: {reading}") and hit.advice.startswith(advice)


@pytest.mark.parametrize(
    ("raw_affine", "averaged_affine", "statistics"),
    [
        ({}, {"gamma": (1, 1, 1)}, {}),
        ({"gamma": (1, 1, 1)}, {}, {}),
        ({"gamma": (1, 1, 1)}, {"gamma": (1, 1)}, {}),
        ({"gamma": (0, 0, 0), "beta": (0, 0, 0)}, {"gamma": (1, 1, 1), "beta": (0, 0, 0)}, {}),
        ({"gamma": (1e300, 1, 1)}, {"gamma": (2, 1, 1)}, {}),
        ({"gamma": (1, 1, 1)}, {"gamma": (2, 2, 2)}, {"mean": (0, 0, 0), "var": (1, 1, 1)}),
    ],
)
def test_weights_that_can_not_be_compared_say_nothing(
    raw_affine: dict[str, Any], averaged_affine: dict[str, Any], statistics: dict[str, Any]
) -> None:
    assert run(*copied(raw_affine, averaged_affine, **statistics)) == []
