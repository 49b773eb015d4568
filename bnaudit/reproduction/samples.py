"""The samples that a reproduction may draw from, and where each of them stands in the user's data."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from bnaudit.feeds.arranged import Arranged
from bnaudit.feeds.in_order import open_in_order
from bnaudit.feeds.opening import open_feed
from bnaudit.feeds.pools import Pool, distinct
from bnaudit.feeds.values import made_of
from bnaudit.run_options import RunOptions
from bnaudit.session import Session

MOST = 32
"""Different samples that are looked at."""
_FEWEST = 9
"""An anchor, and two sets of companions."""


class Samples(NamedTuple):
    """Different samples, the first ones of what was given."""

    pool: Pool
    labels: tuple[str, ...]
    """Of every row, where it comes from: `row 17 of digits.npz`."""
    real: int
    """How many of them, from the first on, are the user's."""
    source: str
    synthetic: bool
    remarks: tuple[str, ...]


def open_samples(session: Session, options: RunOptions) -> Samples:
    """From the user's inputs in their order, or seeded noise. Raises what opening the inputs raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the user's loader
        if options.inputs is None:
            return _made(session, options)
        given = open_in_order(session, options)
    rows = distinct(given.pool)[:MOST]
    labels = tuple(f"row {row} of {given.name}" for row in rows)
    source = f"{given.name}, {given.pool.size} samples"
    few = Samples(given.pool.take(rows), labels, len(rows), source, False, given.remarks)
    return few if len(rows) >= _FEWEST else _with_made(few, options)


def _with_made(few: Samples, options: RunOptions) -> Samples:
    """Companions made of the given samples (scaled, shifted, with noise), where these are too few."""
    made = made_of(few.pool, _FEWEST - few.pool.size, np.random.default_rng([options.seed, 2]))
    labels = tuple(f"made from {few.labels[at % few.pool.size]}" for at in range(made.size))
    return few._replace(pool=few.pool.followed_by(made), labels=few.labels + labels)


def _made(session: Session, options: RunOptions) -> Samples:
    feed = open_feed(session, options)
    assert isinstance(feed, Arranged)
    pool = feed.pool
    rows = distinct(pool)[:MOST]
    labels = tuple(f"made sample {row} (seed {options.seed})" for row in rows)
    return Samples(pool.take(rows), labels, 0, feed.source, True, feed.remarks)
