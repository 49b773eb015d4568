"""BN405: how many values a batch norm trains on."""

from __future__ import annotations

import numpy as np
import pytest
from builders import batch_norm, description, part
from measured import norm_size, run_hits

from bnaudit.description import Carrier, NormKind
from bnaudit.measurement import Trained
from bnaudit.results import Severity

RULE = "bn405_too_few_values_per_channel"


def test_a_layer_left_in_training_mode_with_fewer_than_16_values_is_found() -> None:
    (hit,) = run_hits(RULE, norm_size("bn1", per_sample=1, batch=15, trains=True))
    assert (hit.layer, hit.value, hit.limit, hit.severity) == ("bn1", 15, 16, Severity.WARNING)
    assert hit.message == "it trains on 15 values per channel: 15 samples of 1 each"
    assert "accumulation does not help" in hit.advice


def test_sixteen_values_are_enough() -> None:
    assert not run_hits(RULE, norm_size(per_sample=1, batch=16, trains=True))
    assert not run_hits(RULE, norm_size(per_sample=4, training_batch_size=4))


@pytest.mark.parametrize("fields", [{"trains": True, "batch": 1}, {"training_batch_size": 1}])
def test_one_value_is_an_error(fields: dict[str, object]) -> None:
    (hit,) = run_hits(RULE, norm_size(**fields))
    assert hit.severity is Severity.ERROR
    assert "1 value per channel" in hit.message


def test_the_training_batch_size_counts_and_not_the_batch_that_was_run() -> None:
    (hit,) = run_hits(RULE, norm_size(per_sample=4, batch=64, training_batch_size=2))
    assert (hit.value, hit.message) == (8, "it trains on 8 values per channel: 2 samples of 4 each")
    assert not run_hits(RULE, norm_size(per_sample=4, batch=1, trains=True, training_batch_size=8))


def test_a_layer_that_nothing_says_will_train_is_silent() -> None:
    assert not run_hits(RULE, norm_size(batch=2))


def test_other_norms_are_silent() -> None:
    assert not run_hits(RULE, norm_size(training_batch_size=2, is_batch_norm=False))
    frozen = description(part([batch_norm("bn1", kind=NormKind.FROZEN_BATCH)], carrier=Carrier.MODULE))
    assert not run_hits(RULE, norm_size("bn1", training_batch_size=2), subject=frozen)


def test_a_layer_that_train_keeps_in_eval_does_not_train() -> None:
    layers = [batch_norm("bn1", training=False), batch_norm("bn2", training=True)]
    trained = Trained(part=part(layers, carrier=Carrier.MODULE))
    found = run_hits(RULE, *(norm_size(name, training_batch_size=2) for name in ("bn1", "bn2")), trained)
    assert [hit.layer for hit in found] == ["bn2"]


def test_of_several_calls_the_smallest_speaks() -> None:
    sizes = [norm_size("bn1", per_sample, training_batch_size=2) for per_sample in (4, 1)]
    (hit,) = run_hits(RULE, *sizes)
    assert hit.value == 2


@pytest.mark.parametrize(("count", "var", "mean"), [(2, 1.41, 0.71), (16, 0.37, 0.25), (256, 0.09, 0.06)])
def test_the_page_numbers_are_those_of_drawn_batches(count: int, var: float, mean: float) -> None:
    draws = np.random.default_rng(0).standard_normal((200_000, count)) if count < 100 else None
    assert np.sqrt(2 / (count - 1)) == pytest.approx(var, abs=5e-3)
    assert 1 / np.sqrt(count) == pytest.approx(mean, abs=5e-3)
    if draws is not None:
        assert draws.var(axis=1, ddof=1).std() == pytest.approx(var, rel=0.03)
        assert draws.mean(axis=1).std() == pytest.approx(mean, rel=0.03)


def test_a_call_that_nothing_says_will_train_hides_no_other() -> None:
    (hit,) = run_hits(RULE, norm_size("bn1", batch=2), norm_size("bn1", batch=4, trains=True))
    assert hit.value == 4


def test_a_layer_of_the_model_that_is_not_frozen_is_found() -> None:
    subject = description(part([batch_norm("bn1")], carrier=Carrier.MODULE))
    (hit,) = run_hits(RULE, norm_size("bn1", per_sample=4, values=12, trains=True), subject=subject)
    assert hit.message == "it trains on 12 values per channel: 3 samples of 4 each"


def test_two_values_are_no_error() -> None:
    (hit,) = run_hits(RULE, norm_size(batch=2, trains=True))
    assert hit.severity is Severity.WARNING
