"""How samples are cut into forwards: bounded, in order, and filled up where a graph fixes its batch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bnaudit.description import GraphInput
from bnaudit.feeds.axes import Axes
from bnaudit.feeds.pools import Pool
from bnaudit.parting.inputs import batch_size, batches, fewest, repeatable
from bnaudit.run_options import RunOptions


def pool(samples: int, *shape: int) -> Pool:
    array = np.arange(samples * int(np.prod(shape)), dtype=np.float32).reshape(samples, *shape)
    return Pool(((array,), {}), Axes((0,), samples))


def session(fixed: int | None = None, **dims: tuple[int, int | None]) -> Any:
    declared = GraphInput(name="x", dtype="float32", shape=("batch", "height"))
    return SimpleNamespace(fixed_batch=fixed, dims=dims, signatures=((declared,),))


def test_every_sample_comes_once_and_in_order() -> None:
    cut = list(batches(pool(10, 1), 4, 1))
    assert [count for _, count in cut] == [4, 4, 2]
    assert np.concatenate([batch.args[0] for batch, _ in cut]).ravel().tolist() == list(range(10))  # type: ignore[arg-type]


def test_a_fixed_batch_is_filled_with_copies_that_do_not_count() -> None:
    (first, _), (last, count) = batches(pool(6, 1), 4, 4)
    assert (first.size, last.size, count) == (4, 4, 2)
    assert np.asarray(last.args[0]).ravel().tolist() == [4, 5, 5, 5]


@pytest.mark.parametrize(
    ("fixed", "asked", "shape", "size"),
    [
        (None, None, (3,), 64),
        (None, 7, (3,), 7),
        (5, None, (3,), 5),
        (5, 7, (3,), 5),
        (None, None, (3, 1024, 1024), 1),
        (None, None, (3, 224, 224), 27),
    ],
)
def test_a_batch_is_bounded_by_rows_and_by_bytes(
    fixed: int | None, asked: int | None, shape: tuple[int, ...], size: int
) -> None:
    each = int(np.prod(shape)) * 4
    assert size == 64 or asked or fixed or size == max(1, (16 << 20) // each)
    rows = np.broadcast_to(np.zeros((1, *shape), np.float32), (100, *shape))
    given = Pool(((rows,), {}), Axes((0,), 100))
    assert batch_size(session(fixed), given, RunOptions(batch_size=asked)) == size


def test_a_batch_is_no_larger_than_the_artifact_allows_or_than_there_are_samples() -> None:
    assert batch_size(session(batch=(1, 8)), pool(100, 3), RunOptions()) == 8
    assert batch_size(session(batch=(1, None)), pool(3, 3), RunOptions()) == 3
    assert batch_size(session(height=(1, 8)), pool(100, 3), RunOptions()) == 64


def test_a_batch_is_filled_to_what_the_artifact_asks_for() -> None:
    assert fewest(session(batch=(2, None))) == 2 and fewest(session(7)) == 7 and fewest(session()) == 1
    *_, (last, count) = batches(pool(5, 1), 4, 2)
    assert (last.size, count) == (2, 1)


def test_an_iterator_is_read_once_for_both_and_anything_else_stays_as_it_is() -> None:
    array = np.zeros((2, 3))
    assert repeatable(RunOptions(inputs=iter([array]))).inputs == [array]
    assert repeatable(RunOptions(inputs=array)).inputs is array
    assert repeatable(RunOptions(inputs="x.npz")).inputs == "x.npz"
