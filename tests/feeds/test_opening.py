"""The batches of a feed, whatever the inputs are."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from feeds.sessions import FakeSession, takes
from hypothesis import given
from hypothesis import strategies as st

from bnaudit.description import Carrier, GraphInput
from bnaudit.errors import UnreadableError, UsageError
from bnaudit.feeds import Feed
from bnaudit.feeds.opening import open_feed
from bnaudit.run_options import RunOptions
from bnaudit.session import Batch, NotPossibleError

IMAGES = takes((None, 1, 4, 4))


def images(count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).random((count, 1, 4, 4), dtype=np.float32)


def feed_of(inputs: object, session: FakeSession | None = None, **options: Any) -> Feed:
    return open_feed(session or FakeSession(IMAGES), RunOptions(inputs=inputs, **options))


def rows(batch: Batch) -> np.ndarray[Any, Any]:
    found = batch.args[0]
    assert isinstance(found, np.ndarray)
    return found


@given(st.integers(1, 40), st.one_of(st.none(), st.integers(1, 20)), st.integers(1, 6), st.integers(0, 3))
def test_anchors_are_bit_equal_in_all_batches_and_companions_are_not(
    count: int, size: int | None, anchors: int, seed: int
) -> None:
    feed = feed_of(images(count), batch_size=size, anchors=anchors, seed=seed)
    base = feed.base
    kept, companions = list(base.anchors), [row for row in range(base.size) if row not in base.anchors]
    for other in (feed.swapped, feed.scaled, feed.poisoned() or base):
        assert (other.size, other.anchors) == (base.size, base.anchors)
        assert rows(other)[kept].tobytes() == rows(base)[kept].tobytes()
    assert feed.companions_differ == bool(companions)
    for row in companions:
        assert not np.array_equal(rows(base)[row], rows(feed.swapped)[row])
        assert np.allclose(rows(feed.scaled)[row], 100 * rows(base)[row])
    assert np.array_equal(rows(feed.alone), rows(base)[[feed.alone_row]])
    if feed.copy is not None:
        assert np.array_equal(*(rows(base)[row] for row in feed.copy))


def test_samples_are_those_given_and_none_is_used_twice() -> None:
    given = images(360)
    feed = feed_of(given)
    used = {row.tobytes() for row in (*rows(feed.base), *rows(feed.swapped))}
    assert used <= {row.tobytes() for row in given}
    assert len(used) == feed.samples == 27
    assert feed.base.size == 16
    assert not feed.synthetic
    assert "27 of 360 samples" in feed.source


def test_the_seed_decides_and_the_global_generators_are_left_alone() -> None:
    random.seed(5)
    np.random.seed(5)
    expected = (random.getstate()[1], np.random.get_state()[1].tolist())  # type: ignore[index,union-attr]
    first, again, other = (rows(feed_of(images(90), seed=seed).base).tobytes() for seed in (1, 1, 2))
    assert first == again != other
    assert (random.getstate()[1], np.random.get_state()[1].tolist()) == expected  # type: ignore[index,union-attr]


def test_few_samples_are_drawn_again_and_that_is_said() -> None:
    feed = feed_of(images(5), batch_size=16)
    assert feed.base.size == 16
    assert feed.samples == 5
    assert any("drawn again" in remark for remark in feed.remarks)


def test_equal_samples_count_once() -> None:
    feed = feed_of(np.repeat(images(3), 20, axis=0))
    assert feed.samples == 3


def test_companions_are_made_of_a_single_sample() -> None:
    feed = feed_of(images(1))
    assert feed.synthetic
    assert feed.companions_differ
    assert any("one sample is given" in remark for remark in feed.remarks)
    assert any(np.array_equal(row, images(1)[0]) for row in rows(feed.base))


def test_a_batch_of_one_has_no_companions() -> None:
    feed = feed_of(images(9), batch_size=1)
    assert (feed.base.size, feed.base.anchors, feed.companions_differ) == (1, (0,), False)
    assert feed.poisoned() is None
    with pytest.raises(NotPossibleError, match="no companions"):
        feed.pair(False)


def test_a_fixed_batch_is_kept_and_alone_is_the_anchor_repeated() -> None:
    session = FakeSession(takes((4, 1, 4, 4)), carrier=Carrier.GRAPH, fixed_batch=4)
    feed = feed_of(images(30), session, batch_size=8)
    assert feed.base.size == feed.alone.size == 4
    assert len({row.tobytes() for row in rows(feed.alone)}) == 1
    assert any("fixes its batch at 4" in remark for remark in feed.remarks)
    with pytest.raises(NotPossibleError, match="fixes its batch at 4"):
        feed.few(2)


def test_few_and_pair_hold_the_anchor_with_companions() -> None:
    feed = feed_of(images(40))
    anchor = rows(feed.alone)[0]
    for batch in (feed.few(2), feed.few(3), feed.pair(False), feed.pair(True)):
        assert np.array_equal(rows(batch)[batch.anchors[0]], anchor)
        assert len(batch.anchors) == 1
    assert feed.few(3).size == 3
    assert not np.array_equal(rows(feed.pair(False)), rows(feed.pair(True)))


def test_poison_is_in_the_companions_alone() -> None:
    feed = feed_of(images(40))
    poisoned = feed.poisoned()
    assert poisoned is not None
    bad = np.isnan(rows(poisoned)).all(axis=(1, 2, 3))
    assert [not flag for flag in bad] == [row in poisoned.anchors for row in range(16)]


def test_integers_are_redrawn_from_those_that_occur() -> None:
    ids = np.random.default_rng(0).choice([3, 5, 9], (40, 12))
    feed = feed_of(ids, FakeSession(takes((None, "length"), dtype="int64")))
    assert set(np.unique(rows(feed.scaled))) <= {3, 5, 9}
    assert not np.array_equal(rows(feed.scaled), rows(feed.base))
    assert feed.poisoned() is None


def test_masks_keep_valid_values() -> None:
    ids = np.random.default_rng(0).random((40, 6, 2), dtype=np.float32)
    mask = np.tri(40, 6, dtype=bool)
    feed = feed_of((ids, mask), FakeSession(takes((None, 6, 2), (None, 6))))
    scaled = feed.scaled.args[1]
    assert isinstance(scaled, np.ndarray) and scaled.dtype == bool
    assert all(row.tobytes() in {one.tobytes() for one in mask} for row in scaled)


def test_what_has_no_rows_is_passed_on() -> None:
    causal = np.tri(7, dtype=bool)
    sequences = np.random.default_rng(0).random((40, 7, 3))
    feed = feed_of({"causal": causal, "x": sequences, "scale": 0.5}, FakeSession())
    assert feed.base.kwargs["causal"] is causal
    assert feed.base.kwargs["scale"] == 0.5
    assert rows(Batch(args=(feed.base.kwargs["x"],), size=1, anchors=())).shape == (16, 7, 3)


def test_the_batch_axis_can_be_given_and_is_found() -> None:
    sequence = np.random.default_rng(0).random((7, 40, 3), dtype=np.float32)
    feed = feed_of(sequence, FakeSession(), axis=1)
    assert rows(feed.base).shape == (7, 16, 3)
    assert feed.base.axis == 1
    declared = (GraphInput(name="x", dtype="float32", shape=("time", "batch", 3)),)
    assert rows(feed_of(sequence, FakeSession(declared)).base).shape == (7, 16, 3)
    state = np.random.default_rng(1).random((2, 40, 5), dtype=np.float32)
    session = FakeSession(takes((None, 6), (2, None, 5)))
    both = feed_of((np.random.default_rng(2).random((40, 6)), state), session)
    assert [np.shape(array) for array in both.base.args] == [(16, 6), (2, 16, 5)]


def test_an_axis_that_no_input_has_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no input has an axis 7"):
        feed_of(images(9), axis=7)


@pytest.mark.parametrize(("bad", "count"), [(np.nan, 1), (np.inf, 1)])
def test_values_that_are_not_finite_are_counted(bad: float, count: int) -> None:
    given = images(8)
    given[3, 0, 0, 0] = bad
    with pytest.raises(UnreadableError, match=f"holds {count} NaN or infinite value.* in 8 samples"):
        feed_of(given)


def test_a_mask_of_minus_infinity_is_no_fault() -> None:
    mask = np.where(np.tri(40, 6) > 0, 0.0, -np.inf)
    feed = feed_of((images(40), mask), FakeSession(takes((None, 1, 4, 4), (None, 6))))
    assert feed.samples == 27


@pytest.mark.parametrize("options", [{"batch_size": 0}, {"anchors": 0}])
def test_no_samples_and_no_anchors_are_usage_errors(options: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="leaves nothing to feed"):
        feed_of(images(3), **options)


def test_half_precision_inputs_stay_finite_when_scaled() -> None:
    feed = feed_of((images(40) * 1000).astype(np.float16))
    assert np.isfinite(rows(feed.scaled)).all()


def test_bytes_are_cast_to_what_the_model_computes_in() -> None:
    feed = feed_of((images(40) * 255).astype(np.uint8))
    assert rows(feed.base).dtype == np.float32
    assert any("cast to float32" in remark for remark in feed.remarks)


def test_inputs_that_a_graph_does_not_take_are_told_with_what_it_takes() -> None:
    session = FakeSession(takes(("batch", 3, 8, 8)), carrier=Carrier.GRAPH)
    with pytest.raises(UnreadableError, match=r"takes x float32 \(batch, 3, 8, 8\).*is float32 \(40, 1, 4, 4\)"):
        feed_of(images(40), session)
    two = FakeSession(takes((None, 1, 4, 4), (None, 2)), carrier=Carrier.GRAPH)
    with pytest.raises(UnreadableError, match="takes 2 inputs, 1 are given"):
        feed_of(images(40), two)


def test_a_single_sample_may_come_without_a_batch_axis() -> None:
    feed = feed_of(images(1)[0], FakeSession(takes((None, 1, 4, 4))))
    assert rows(feed.base).shape == (8, 1, 4, 4)


def test_black_and_white_drawings_are_scaled_and_masks_beside_them_are_not() -> None:
    drawings = (images(40) > 0.5).astype(np.float32)
    assert np.max(rows(feed_of(drawings).scaled)) == 100
    mask = np.tri(40, 6, dtype=np.float32)
    both = feed_of((images(40), mask), FakeSession(takes((None, 1, 4, 4), (None, 6))))
    assert np.max(both.scaled.args[1]) == 1  # type: ignore[call-overload]


def test_only_drawn_samples_of_a_file_are_read_and_cast(tmp_path: Path) -> None:
    path = tmp_path / "bytes.npy"
    np.save(path, np.random.default_rng(0).integers(0, 256, (2000, 1, 64, 64), dtype=np.uint8))
    tracemalloc.start()
    feed = feed_of(path, FakeSession(takes((None, 1, None, None))), batch_size=4)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert rows(feed.base).dtype == np.float32
    assert peak < path.stat().st_size / 2


def test_batches_that_no_machine_holds_are_refused_before_they_are_made() -> None:
    with pytest.raises(UsageError, match=r"--batch-size 1000000000 is more than a batch can hold: give 1000000"):
        feed_of(None, batch_size=10**9)
    with pytest.raises(NotPossibleError, match="fixes its batch at 1000000000000 samples"):
        feed_of(None, FakeSession(takes((10**12, 4)), fixed_batch=10**12))


@pytest.mark.parametrize("axis", [1, 7])
def test_a_batch_axis_that_synthetic_inputs_cannot_have_is_not_passed_over(axis: int) -> None:
    with pytest.raises(UsageError, match=rf"--batch-axis {axis} is no axis .*\(x float32 \(8, 1, 4, 4\)\): leave"):
        feed_of(None, axis=axis)
