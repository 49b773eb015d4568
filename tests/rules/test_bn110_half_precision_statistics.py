from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from builders import batch_norm, hits, part, tensor

from bnaudit.description import Carrier, NormKind, NormLayer
from bnaudit.results import Severity

run = partial(hits, "bn110_half_precision_statistics")
RNG = np.random.default_rng(0)
MEAN = RNG.normal(0, 1, 16).astype(np.float32)
VAR = RNG.uniform(0.1, 3, 16).astype(np.float32)


def layer(statistics: str = "float32", weights: str = "float32", mean: Any = MEAN, var: Any = VAR) -> NormLayer:
    return batch_norm(
        mean=tensor("bn1.running_mean", mean, statistics),
        var=tensor("bn1.running_var", var, statistics),
        gamma=tensor("bn1.weight", np.ones(len(mean)), weights),
        beta=tensor("bn1.bias", np.zeros(len(mean)), weights),
    )


def through(dtype: torch.dtype, values: np.ndarray) -> np.ndarray:
    return torch.from_numpy(values).to(dtype).float().numpy()


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_half_statistics_beside_wider_weights_are_a_warning(half: str) -> None:
    (hit,) = run(part([layer(half)], floating_dtypes=(half, "float32")))
    assert hit.severity is Severity.WARNING
    assert half in hit.message


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_a_training_checkpoint_is_a_warning(half: str) -> None:
    (hit,) = run(part([layer(half, half)], floating_dtypes=(half,)), has_optimizer=True)
    assert hit.severity is Severity.WARNING
    assert "training checkpoint" in hit.message


@pytest.mark.parametrize("optimizer", [False, None])
@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_a_model_that_is_half_throughout_is_a_note(half: str, optimizer: bool | None) -> None:
    (hit,) = run(part([layer(half, half)], floating_dtypes=(half,)), has_optimizer=optimizer)
    assert hit.severity is Severity.NOTE


def test_wider_tensors_elsewhere_count_where_the_norm_has_no_weight_of_its_own() -> None:
    mixed = {"floating_dtypes": ("float16", "float32")}
    (hit,) = run(part([layer("float16", "float16")], **mixed))
    assert hit.severity is Severity.NOTE
    bare = batch_norm(gamma=None, beta=None, dtype="float16")
    (hit,) = run(part([bare], **mixed))
    assert hit.severity is Severity.WARNING
    (hit,) = run(part([bare], carrier=Carrier.GRAPH, **mixed))
    assert hit.severity is Severity.NOTE


@pytest.mark.parametrize(("dtype", "grid"), [(torch.float16, "float16"), (torch.bfloat16, "bfloat16")])
def test_a_round_trip_is_a_note(dtype: torch.dtype, grid: str) -> None:
    (hit,) = run(part([layer(mean=through(dtype, MEAN), var=through(dtype, VAR))]))
    assert hit.severity is Severity.NOTE
    assert f"went through {grid}" in hit.message


def test_one_value_off_the_grid_is_no_round_trip() -> None:
    var = through(torch.float16, VAR)
    var[-1] = np.float32(0.1)
    assert run(part([layer(mean=through(torch.float16, MEAN), var=var)])) == []


def test_plain_single_and_double_precision_are_silent() -> None:
    assert run(part([layer()])) == []
    assert run(part([layer("float64", "float64", MEAN.astype(np.float64) + 1e-12)])) == []


def test_few_values_do_not_tell() -> None:
    half = partial(through, torch.float16)
    assert run(part([layer(mean=half(MEAN[:3]), var=half(VAR[:3]))])) == []
    assert len(run(part([layer(mean=half(MEAN[:4]), var=half(VAR[:4]))]))) == 1
    virgin = layer(mean=np.zeros(64, np.float32), var=np.ones(64, np.float32))
    assert run(part([virgin])) == []


def test_nan_and_overflow_lie_on_no_float16_grid() -> None:
    big = through(torch.float16, VAR).copy()
    big[3] = 1e6
    assert run(part([layer(var=big)])) == []


@pytest.mark.parametrize("kind", [NormKind.INSTANCE, NormKind.LAYER, NormKind.UNKNOWN])
def test_other_norms_are_silent(kind: NormKind) -> None:
    assert run(part([batch_norm(kind=kind, dtype="float16")])) == []


def test_statistics_without_values_still_have_a_dtype() -> None:
    absent = tensor("bn1.running_var", None, "float16", absence="on the meta device")
    (hit,) = run(part([batch_norm(var=absent)]))
    assert hit.severity is Severity.WARNING
    assert run(part([batch_norm(mean=None, var=None)])) == []


def test_the_pages_arithmetic() -> None:
    stored = torch.tensor(1.0, dtype=torch.bfloat16)
    exact = torch.tensor(1.0)
    for _ in range(3000):
        stored = stored * (1 - 0.001) + 9 * 0.001
        exact = exact * (1 - 0.001) + 9 * 0.001
    assert stored.item() == 4.0
    assert round(exact.item(), 1) == 8.6
    step = torch.nextafter(torch.tensor(4.0, dtype=torch.bfloat16), torch.tensor(8.0, dtype=torch.bfloat16)) - 4
    assert step.item() == 0.03125
    for dtype, bound in ((torch.float16, 0.0003), (torch.bfloat16, 0.0021)):
        var = torch.linspace(0.01, 10, 10_000)
        assert ((var / var.to(dtype).float()).sqrt() - 1).abs().max() < bound


def test_double_precision_is_wider_too() -> None:
    (hit,) = run(part([layer("float16", "float64")]))
    assert hit.severity is Severity.WARNING


def test_a_norm_without_a_weight_in_a_model_that_is_half_throughout_is_a_note() -> None:
    (hit,) = run(part([batch_norm(gamma=None, beta=None, dtype="float16")], floating_dtypes=("float16",)))
    assert hit.severity is Severity.NOTE


def test_only_float32_with_values_went_there_and_back() -> None:
    half = partial(through, torch.float16)
    assert run(part([layer("float64", mean=half(MEAN), var=half(VAR))])) == []
    mean, var = tensor("bn1.running_mean", half(MEAN), "float64"), tensor("bn1.running_var", half(VAR))
    assert run(part([batch_norm(mean=mean, var=var)])) == []
    absent = tensor("bn1.running_var", None, absence="on the meta device")
    assert run(part([batch_norm(mean=half(MEAN), var=absent)])) == []


def test_without_statistics_nothing_went_anywhere() -> None:
    assert run(part([batch_norm(mean=None, var=None)]), limits={"distinct_values": 0}) == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_nan_lies_on_no_grid(dtype: torch.dtype) -> None:
    var = through(dtype, VAR).copy()
    var[5] = np.nan
    assert run(part([layer(mean=through(dtype, MEAN), var=var)])) == []
