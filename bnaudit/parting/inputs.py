"""The inputs of both sides, row for row: the user's in their order, or made ones that both take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bnaudit.feeds.axes import found
from bnaudit.feeds.guesses import batch_name
from bnaudit.feeds.in_order import open_in_order
from bnaudit.feeds.pools import Pool
from bnaudit.feeds.synthetic import generated, shown
from bnaudit.feeds.trees import with_arrays
from bnaudit.feeds.trying import first_that_runs
from bnaudit.feeds.values import made_of
from bnaudit.records import replace
from bnaudit.run_options import RunOptions
from bnaudit.session import Batch, Session

MOST_ROWS = 64
"""Of a batch, where nobody asks for another size."""
_MOST_BYTES = 16 << 20
"""Of a batch's inputs, likewise."""
_MADE = 16
"""Samples that are made where none are given."""


class Inputs(NamedTuple):
    """Samples, and how to speak of them."""

    name: str
    pool: Pool
    synthetic: bool
    remarks: tuple[str, ...] = ()


def repeatable(options: RunOptions) -> RunOptions:
    """The options with inputs that can be read twice: an iterator is exhausted by the first model."""
    if isinstance(options.inputs, Iterator):
        return replace(options, inputs=list(options.inputs))
    return options


def open_inputs(session: Session, options: RunOptions) -> Inputs:
    """The user's samples as this model takes them, or made ones.

    Raises as `open_in_order`, and NotPossibleError when the model runs on nothing that is made.
    """
    if options.inputs is not None:
        given = open_in_order(session, options)
        return Inputs(f"{given.name}, {given.pool.size} samples", given.pool, False, given.remarks)
    if session.sample is not None and not options.dims:
        return _of_sample(session, options)
    guess = first_that_runs(session, options)
    pool = generated(guess, _MADE, session.fixed_batch, np.random.default_rng([options.seed, 4]))
    said = f"synthetic inputs: {shown(guess, pool)}"
    return Inputs(f"synthetic (seed {options.seed}): no inputs were given", pool, True, (said,))


def _of_sample(session: Session, options: RunOptions) -> Inputs:
    assert session.sample is not None
    tree = with_arrays((tuple(session.sample.args), dict(session.sample.kwargs)), "the sample inputs")
    signature = session.signatures[0] if session.signatures else ()
    pool = Pool(tree, found(tree, signature, options.axis, "the sample inputs", session.fixed_batch))
    missing = _MADE - pool.size
    if missing > 0:
        pool = pool.followed_by(made_of(pool, missing, np.random.default_rng([options.seed, 3])))
    return Inputs(f"made from the program's sample inputs (seed {options.seed})", pool, True)


def batch_size(session: Session, pool: Pool, options: RunOptions) -> int:
    """Rows of one forward: as the artifact fixes them, as asked for, else as many as are no burden."""
    if session.fixed_batch is not None:
        return session.fixed_batch
    if options.batch_size is not None:
        return options.batch_size
    each = sum(array.nbytes for array, _ in pool.arrays()) / max(pool.size, 1)
    size = max(1, min(MOST_ROWS, pool.size, int(_MOST_BYTES / max(each, 1))))
    return min([size, *(most for _, most in _limits(session) if most is not None)])


def fewest(session: Session) -> int:
    """Rows below which a forward is filled up: programs are often exported for two or more."""
    return session.fixed_batch or max((least for least, _ in _limits(session)), default=1)


def _limits(session: Session) -> list[tuple[int, int | None]]:
    names = {name for signature in session.signatures[:1] for declared in signature if (name := batch_name(declared))}
    return [session.dims[name] for name in sorted(names & {*session.dims})]


def batches(pool: Pool, size: int, least: int) -> Iterator[tuple[Batch, int]]:
    """The samples in order, `size` at a time, and how many of the rows count: a batch below `least` rows is filled
    with copies of its last sample."""
    for begin in range(0, pool.size, size):
        rows = list(range(begin, min(begin + size, pool.size)))
        yield pool.take(rows + [rows[-1]] * (least - len(rows))).batch(), len(rows)
