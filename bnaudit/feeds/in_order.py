"""All of the user's inputs in the order in which they are given, for what is compared row by row."""

from __future__ import annotations

from bnaudit.errors import UnreadableError
from bnaudit.feeds.given import Given, open_given
from bnaudit.run_options import RunOptions
from bnaudit.session import Session

MOST_SAMPLES = 100_000
"""More are no longer read whole."""


def open_in_order(session: Session, options: RunOptions) -> Given:
    """Every sample of `options.inputs`, row for row; `pool.take(rows).batch()` is a forward's inputs.

    Raises as `open_given`, and UnreadableError for samples of several shapes or more than MOST_SAMPLES of them.
    """
    given = open_given(session, options, MOST_SAMPLES + 1)
    if given.pool.size > MOST_SAMPLES:
        what = f"more than {MOST_SAMPLES} samples are too many to compare one by one"
        raise UnreadableError(what, where=given.name, remedy="give fewer")
    if given.total and given.total != given.pool.size:
        what = f"{given.total} samples are given and only {given.pool.size} have one shape"
        raise UnreadableError(what, where=given.name, remedy="give inputs of one shape")
    return given
