"""Faults of preparing inputs, against arithmetic by hand."""

from __future__ import annotations

import numpy as np

from bnaudit.feeds.axes import Axes
from bnaudit.feeds.pools import Pool
from bnaudit.triage.input_faults import NORMALIZATIONS, changed, input_faults

FAULTS = {fault.name: fault for fault in input_faults(NORMALIZATIONS)}
PIXELS = np.random.default_rng(0).random((2, 3, 4, 5)).astype(np.float32)
CENTRED = (PIXELS - 0.5) / 0.5


def fed(name: str, given: np.ndarray) -> np.ndarray | None:
    pool = changed(Pool(((given,), {}), Axes((0,), len(given))), FAULTS[name])
    return None if pool is None else pool.tree[0][0]


def test_channels_are_reversed() -> None:
    np.testing.assert_array_equal(fed("channel-order", PIXELS), PIXELS[:, [2, 1, 0]])
    assert fed("channel-order", PIXELS[:, :1]) is None


def test_pixels_are_read_in_the_other_layout() -> None:
    bytes_read = PIXELS.transpose(0, 2, 3, 1).tobytes()
    np.testing.assert_array_equal(fed("layout", PIXELS), np.frombuffer(bytes_read, np.float32).reshape(PIXELS.shape))
    assert fed("layout", PIXELS[:, :1]) is None


def test_normalization_is_missing_only_where_it_was_there() -> None:
    np.testing.assert_allclose(fed("normalization-missing:0.5-and-0.5", CENTRED), PIXELS, atol=1e-6)
    assert fed("normalization-missing:0.5-and-0.5", PIXELS) is None


def test_scale_is_taken_before_normalization() -> None:
    np.testing.assert_allclose(fed("scaled-twice:0.5-and-0.5", CENTRED), (PIXELS / 255 - 0.5) / 0.5, atol=1e-6)
    assert fed("scaled-twice", CENTRED) is None
    np.testing.assert_allclose(fed("not-scaled", PIXELS), PIXELS * 255, rtol=1e-6)


def test_numbers_that_are_no_images_are_left_alone() -> None:
    table = np.random.default_rng(1).normal(size=(3, 7)).astype(np.float32)
    assert all(fed(name, table) is None for name in FAULTS)
    assert fed("channel-order", np.zeros((2, 3, 4, 4), np.int64)) is None
