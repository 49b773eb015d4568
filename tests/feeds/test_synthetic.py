"""Inputs for models that nobody gave any: shapes that fit, seeded values, and what is assumed is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from feeds.sessions import FakeSession, takes

from bnaudit.description import Carrier, GraphInput
from bnaudit.errors import UsageError
from bnaudit.feeds import Feed
from bnaudit.feeds.opening import open_feed
from bnaudit.feeds.trying import MOST_TRIES
from bnaudit.run_options import RunOptions
from bnaudit.session import Batch, NotPossibleError


def feed_of(session: FakeSession, **options: Any) -> Feed:
    return open_feed(session, RunOptions(**options))


def shape(batch: Batch, place: int = 0) -> tuple[int, ...]:
    return np.shape(batch.args[place])  # type: ignore[arg-type]


def wants(*sizes: int) -> Any:
    """Accepts batches whose first array has these sizes behind the batch."""
    return lambda batch: shape(batch)[1:] == sizes


def test_declared_sizes_are_kept_and_the_batch_is_free() -> None:
    feed = feed_of(FakeSession(takes(("batch", 3, 8, 8)), carrier=Carrier.GRAPH))
    assert shape(feed.base) == (8, 3, 8, 8)
    assert feed.synthetic and feed.companions_differ
    assert feed.source == "synthetic (seed 0): no inputs were given"
    assert feed.samples == 11


@pytest.mark.parametrize("size", [64, 224, 32, 28, 16, 8, 299])
def test_the_size_of_images_is_found(size: int) -> None:
    session = FakeSession(takes((None, 3, "height", "width")), accepts=wants(3, size, size))
    feed = feed_of(session)
    assert shape(feed.base) == (8, 3, size, size)
    assert any(f"height={size}, width={size} assumed; give --dim height=…" in remark for remark in feed.remarks)
    assert all(batch.size == 2 for batch in session.tried), "trials are small"


def test_given_dimensions_are_taken() -> None:
    session = FakeSession(takes((None, 3, "height", "width")), accepts=wants(3, 48, 192))
    feed = feed_of(session, dims={"height": 48, "width": 192})
    assert shape(feed.base) == (8, 3, 48, 192)
    assert len(session.tried) == 1
    assert not any("assumed" in remark for remark in feed.remarks)
    assert shape(feed_of(FakeSession(takes((None, 3, None, None))), dims={"height": 48}).base)[2] == 48
    batch = FakeSession(takes(("batch", 5)))
    assert shape(feed_of(batch, dims={"batch": 6}).base) == (6, 5)


def test_an_unknown_dimension_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no free dimension 'hight': its free dimensions are batch, height, width"):
        feed_of(FakeSession(takes(("batch", 3, "height", "width"))), dims={"hight": 3})


def test_limits_of_the_artifact_are_kept() -> None:
    session = FakeSession(takes(("s0", 3, "s1", 4)), dims={"s0": (1, 5), "s1": (70, 80)}, carrier=Carrier.PROGRAM)
    assert shape(feed_of(session).base) == (5, 3, 70, 4)


def test_a_later_signature_is_tried_when_the_first_does_not_run() -> None:
    session = FakeSession(takes((None, 3, None, None)), takes((None, 17)), accepts=wants(17))
    assert shape(feed_of(session).base) == (8, 17)


@pytest.mark.parametrize("sizes", [(1, 28, 28), (3, 64, 64), (64,), (32, 32)])
def test_a_model_that_says_nothing_is_tried_with_common_shapes(sizes: tuple[int, ...]) -> None:
    assert shape(feed_of(FakeSession(accepts=wants(*sizes))).base) == (8, *sizes)


def test_sound_is_tried_where_names_say_so() -> None:
    rate = GraphInput(name="sr", dtype="int64", shape=())
    session = FakeSession((*takes((None, 129, "length")), rate), accepts=wants(512))
    feed = feed_of(session)
    assert shape(feed.base) == (8, 512)
    assert feed.base.args[1] == 16000


def test_what_no_guess_satisfies_keeps_the_first_error_and_is_bounded() -> None:
    session = FakeSession(takes((None, 3, None, None)), takes((None, 17)), accepts=lambda batch: False)
    with pytest.raises(NotPossibleError, match=r"synthetic inputs: attempt 1 .*\(2, 3, 64, 64\).*--inputs"):
        feed_of(session)
    assert len(session.tried) <= MOST_TRIES


def test_dtypes_and_values_are_valid() -> None:
    signature = (
        GraphInput(name="input_ids", dtype="int64", shape=("batch", "sequence")),
        GraphInput(name="attention_mask", dtype="int64", shape=("batch", "sequence")),
        GraphInput(name="token_type_ids", dtype="int32", shape=("batch", "sequence")),
        GraphInput(name="flags", dtype="bool", shape=("batch",)),
        GraphInput(name="half", dtype="float16", shape=("batch", 4)),
        GraphInput(name="brain", dtype="bfloat16", shape=("batch", 4)),
        GraphInput(name="image", dtype="uint8", shape=("batch", 4, 4, 3)),
    )
    batch = feed_of(FakeSession(signature)).base
    ids, mask, types, flags, half, brain, image = (np.asarray(array) for array in batch.args)
    assert ids.shape == mask.shape == types.shape == (8, 32)
    assert ids.min() >= 0 and ids.max() < 10
    assert mask.min() == 1 and types.max() == 0 and flags.all()
    assert [array.dtype.name for array in (half, brain, image, types)] == ["float16", "float32", "uint8", "int32"]


def test_a_small_table_of_embeddings_is_found() -> None:
    session = FakeSession(takes((None, "length"), dtype="int64"), accepts=lambda b: int(np.max(b.args[0])) < 3)  # type: ignore[call-overload]
    assert np.max(feed_of(session).base.args[0]) == 1  # type: ignore[call-overload]


def test_a_fixed_batch_is_kept_wherever_it_stands() -> None:
    session = FakeSession(takes((1, 3, 240, 320)), fixed_batch=1, carrier=Carrier.GRAPH)
    feed = feed_of(session)
    assert (shape(feed.base), feed.companions_differ) == ((1, 3, 240, 320), False)
    state = FakeSession(takes((4, 6), (2, 4, 5)), fixed_batch=4, carrier=Carrier.GRAPH)
    feed = feed_of(state)
    assert (shape(feed.base), shape(feed.base, 1)) == ((4, 6), (2, 4, 5))
    assert not np.array_equal(feed.base.args[1], feed.swapped.args[1])  # type: ignore[arg-type]


def test_the_seed_decides() -> None:
    session = FakeSession(takes((None, 5)))
    first, again, other = (feed_of(session, seed=seed).base.args[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)  # type: ignore[arg-type]
    assert not np.array_equal(first, other)  # type: ignore[arg-type]


def test_text_cannot_be_made() -> None:
    with pytest.raises(UsageError, match="inputs of type string cannot be made"):
        feed_of(FakeSession(takes((None, 5), dtype="string")))


@pytest.mark.parametrize("held", [1, 2, 40])
def test_the_samples_that_an_artifact_carries_come_first(held: int) -> None:
    sample = np.random.default_rng(0).standard_normal((held, 5)).astype("f") + 100
    batch = Batch(args=(sample,), size=held, anchors=(0,))
    session = FakeSession(takes(("s0", 5)), carrier=Carrier.PROGRAM, sample=batch)
    feed = feed_of(session)
    assert shape(feed.base) == (8, 5)
    assert feed.synthetic and feed.companions_differ
    assert "sample inputs" in feed.source
    assert any(np.array_equal(sample[0], row) for row in feed.base.args[0])  # type: ignore[attr-defined]
    assert not session.tried


def test_samples_of_zeros_are_made_to_differ() -> None:
    batch = Batch(args=(np.zeros((2, 5), "f"),), kwargs={"bias": np.zeros(5, "f")}, size=2, anchors=(0,))
    feed = feed_of(FakeSession(carrier=Carrier.PROGRAM, sample=batch))
    assert feed.companions_differ
    assert np.shape(feed.base.kwargs["bias"]) == (5,)  # type: ignore[arg-type]


def test_two_inputs_may_be_of_two_guesses() -> None:
    first, second = takes((None, 5), (None, 5)), takes((None, 3), (None, 3))
    batch = feed_of(FakeSession(first, second, accepts=lambda given: shape(given)[1:] + shape(given, 1)[1:] == (5, 3)))
    assert (shape(batch.base), shape(batch.base, 1)) == ((8, 5), (8, 3))


def test_the_batch_axis_can_be_given_for_sequences() -> None:
    feed = feed_of(FakeSession(takes((None, "length", 5)), accepts=lambda batch: shape(batch)[1:] == (2, 5)), axis=1)
    assert shape(feed.base) == (32, 8, 5)
    assert feed.base.axis == 1
