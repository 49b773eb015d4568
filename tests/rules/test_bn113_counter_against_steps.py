from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from builders import batch_norm, hits, part, tensor

from bnaudit.description import NormKind

run = partial(hits, "bn113_counter_against_steps")


def counted(*counters: Any, **fields: Any) -> list[Any]:
    return [batch_norm(f"bn{i}", counter=counter, **fields) for i, counter in enumerate(counters)]


@pytest.mark.parametrize(
    ("counter", "steps", "value"),
    [
        (40_000, 10_000, "4 ×"),
        (20_000, 10_000, "2 ×"),
        (20_199, 10_000, "2 ×"),
        (10_000, 20_000, "1/2 ×"),
        (640_000, 10_000, "64 ×"),
        (10_000, 640_000, "1/64 ×"),
    ],
)
def test_a_whole_factor_is_a_note(counter: int, steps: int, value: str) -> None:
    (hit,) = run(part(counted(counter, counter)), steps=steps, steps_name="global_step")
    assert (hit.layer, hit.value) == (None, value)
    assert f"global_step {steps:,}" in hit.message


@pytest.mark.parametrize(
    ("counter", "steps"),
    [
        (10_000, 10_000),
        (12_500, 10_000),
        (20_201, 10_000),
        (19_799, 10_000),
        (650_000, 10_000),
        (604_000, 10_000),
        (0, 10_000),
        (10_000, 0),
        (10_000, None),
    ],
)
def test_other_ratios_are_silent(counter: int, steps: int | None) -> None:
    assert run(part(counted(counter, counter)), steps=steps) == []


def test_the_layers_must_agree() -> None:
    assert run(part(counted(20_000, 40_000)), steps=10_000) == []
    assert run(part(counted(20_000, 25_000)), steps=10_000) == []
    assert len(run(part(counted(20_000, 20_001)), steps=10_000)) == 1


@pytest.mark.parametrize("counter", [None, 0])
def test_a_layer_that_says_nothing_leaves_it_undecided(counter: int | None) -> None:
    assert run(part(counted(20_000, counter)), steps=10_000) == []


def test_a_corrupt_counter_leaves_it_undecided() -> None:
    broken = batch_norm("bn9", counter=tensor("bn9.num_batches_tracked", float("inf"), "float32"))
    assert run(part([*counted(20_000), broken]), steps=10_000) == []


def test_a_branch_that_never_ran_does_not_count() -> None:
    virgin = batch_norm("aux", mean=(0, 0, 0), var=(1, 1, 1), counter=0)
    assert len(run(part([*counted(20_000), virgin]), steps=10_000)) == 1


def test_other_norms_do_not_count() -> None:
    layers = [*counted(20_000), *counted(7, kind=NormKind.INSTANCE), *counted(None, kind=NormKind.FROZEN_BATCH)]
    assert len(run(part(layers), steps=10_000)) == 1
    assert run(part(counted(7, kind=NormKind.LAYER)), steps=10_000) == []


def test_each_direction_has_its_own_readings() -> None:
    (more,) = run(part(counted(20_000)), steps=10_000)
    (fewer,) = run(part(counted(10_000)), steps=20_000)
    assert "accumulation" in more.advice
    assert "several optimizers" in fewer.advice


def test_a_branch_with_initial_statistics_that_ran_counts() -> None:
    ran = batch_norm("aux", mean=(0, 0, 0), var=(1, 1, 1), counter=7)
    assert run(part([*counted(20_000), ran]), steps=10_000) == []


@pytest.mark.parametrize(
    ("counter", "steps", "relation"),
    [
        (20_000, 10_000, "2 × the steps: 20,000 batches, 10,000 steps"),
        (10_000, 20_000, "1/2 of the steps: 10,000 batches, 20,000 steps"),
        (4, 1, "4 × the steps: 4 batches, 1 steps"),
    ],
)
def test_the_message_says_which_is_more(counter: int, steps: int, relation: str) -> None:
    (hit,) = run(part(counted(counter)), steps=steps)
    assert hit.message == f"all batch counters are {relation}"


def test_of_counters_that_agree_the_largest_is_shown() -> None:
    (hit,) = run(part(counted(20_000, 20_001, 19_999)), steps=10_000)
    assert "20,001 batches" in hit.message


@pytest.mark.parametrize(("counter", "found"), [(302_400, 1), (302_600, 0), (322_500, 1)])
def test_a_quarter_of_a_batch_is_the_most_that_a_large_factor_may_be_off(counter: int, found: int) -> None:
    assert len(run(part(counted(counter)), steps=10_000)) == found
