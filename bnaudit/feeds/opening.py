"""Opens the feed of an experiment: from the user's inputs, an artifact's own sample, or seeded noise."""

from __future__ import annotations

import numpy as np

from bnaudit.description import Carrier
from bnaudit.errors import UsageError
from bnaudit.feeds import Feed
from bnaudit.feeds.arranged import Arranged
from bnaudit.feeds.arrangement import Rows, choose, rows_for
from bnaudit.feeds.axes import found
from bnaudit.feeds.given import open_given
from bnaudit.feeds.guesses import Guess, batch_name
from bnaudit.feeds.pools import Pool, distinct
from bnaudit.feeds.synthetic import generated, shown
from bnaudit.feeds.trees import with_arrays
from bnaudit.feeds.trying import first_that_runs
from bnaudit.feeds.values import made_of
from bnaudit.run_options import RunOptions
from bnaudit.session import NotPossibleError, Session

_WITH_INPUTS = 16
_WITHOUT = 8
_SHAPELESS = (Carrier.MODULE, Carrier.SCRIPT)
"""What does not declare its inputs."""
_FEWEST = 4
"""Rows of a batch, however few samples are given: two anchors and two companions."""
_MOST_ROWS = 1_000_000
"""Of a batch. More prove nothing more, and every row is looked at."""


def open_feed(session: Session, options: RunOptions) -> Feed:
    """The feed that the options ask for; everything in it follows from the inputs and `options.seed`.

    Raises UsageError and UnreadableError for inputs that are not there, cannot be read, or are not what the model
    takes, and NotPossibleError when the model runs on no synthetic inputs.
    """
    for name, number in (("--batch-size", options.batch_size), ("--anchors", options.anchors)):
        if number is not None and number < 1:
            raise UsageError(f"{name} {number} leaves nothing to feed", remedy="give 1 or more")
    _check_rows(session, options)
    if options.inputs is not None:
        return _real(session, options)
    if session.sample is not None and not options.dims:
        return _of_sample(session, options)
    return _synthetic(session, options)


def _check_rows(session: Session, options: RunOptions) -> None:
    if (session.fixed_batch or 0) > _MOST_ROWS:
        what = f"the graph fixes its batch at {session.fixed_batch} samples"
        raise NotPossibleError(what, remedy=f"export it for {_MOST_ROWS} or fewer")
    if (options.batch_size or 0) > _MOST_ROWS:
        what = f"--batch-size {options.batch_size} is more than a batch can hold"
        raise UsageError(what, remedy=f"give {_MOST_ROWS} or fewer")


def _rows(session: Session, options: RunOptions, default: int) -> Rows:
    size = session.fixed_batch or options.batch_size or _limited(session, options, default)
    return rows_for(size, options.anchors)


def _limited(session: Session, options: RunOptions, default: int) -> int:
    """The default batch size, or the one given as a dimension, within what the artifact allows."""
    names = {name for signature in session.signatures[:1] for declared in signature if (name := batch_name(declared))}
    for name in sorted(names & {*options.dims, *session.dims}):
        smallest, largest = session.dims.get(name, (1, None))
        default = max(smallest, min(options.dims.get(name, default), largest or default))
    return default


def _wanted(rows: Rows) -> int:
    return len(rows.distinct) + 2 * len(rows.companions)


def _remarks(session: Session, options: RunOptions, rows: Rows) -> tuple[str, ...]:
    said = []
    if session.fixed_batch is not None and options.batch_size not in (None, session.fixed_batch):
        said.append(f"the artifact fixes its batch at {session.fixed_batch}: --batch-size has no effect")
    if options.anchors > len(rows.anchors) and options.anchors != RunOptions().anchors:
        said.append(f"a batch of {rows.size} has room for {len(rows.anchors)} of {options.anchors} anchors")
    return tuple(said)


def _real(session: Session, options: RunOptions) -> Feed:
    most = _rows(session, options, _WITH_INPUTS)
    given = open_given(session, options, _wanted(most))
    generator = np.random.default_rng([options.seed, 2])
    single = given.pool.size == 1
    rows = _rows(session, options, _WITHOUT if single else min(_WITH_INPUTS, max(_FEWEST, given.pool.size)))
    different = distinct(given.pool)
    order = [different[index] for index in generator.permutation(len(different))]
    pool, said = given.pool, [*given.remarks, *_remarks(session, options, rows)]
    made = len(order) == 1 and rows.size > 1
    if made:
        pool = _with_made(pool.take(order), _wanted(rows), generator)
        order = distinct(pool)
        said.append(f"{given.name}: one sample is given, the others are made from it (scaled, shifted, with noise)")
    choice = choose(rows, order, generator)
    if choice.repeated and rows.companions:
        said.append(f"{given.name}: {len(order)} different samples are given, some companions are drawn again")
    counted = f"{choice.samples} of {given.total} samples" if given.total else f"{choice.samples} samples"
    of = "1 sample and others made from it" if made else counted
    return Arranged(
        pool,
        rows,
        choice,
        source=f"{given.name}, {of}",
        synthetic=made,
        seed=options.seed,
        fixed=session.fixed_batch,
        lengths=None if made else given.lengths,
        remarks=tuple(said),
    )


def _with_made(pool: Pool, wanted: int, generator: np.random.Generator) -> Pool:
    missing = wanted - pool.size
    return pool.followed_by(made_of(pool, missing, generator)) if missing > 0 else pool


def _of_sample(session: Session, options: RunOptions) -> Feed:
    """From the inputs that the artifact carries; what they lack is made from them."""
    assert session.sample is not None
    tree = with_arrays((tuple(session.sample.args), dict(session.sample.kwargs)), "the sample inputs")
    signature = session.signatures[0] if session.signatures else ()
    given = Pool(tree, found(tree, signature, options.axis, "the sample inputs", session.fixed_batch))
    rows = _rows(session, options, _WITHOUT)
    generator = np.random.default_rng([options.seed, 3])
    pool = _with_made(given.take(distinct(given)), _wanted(rows), generator)
    return _arranged(session, options, pool, rows, f"made from the program's sample inputs (seed {options.seed})", ())


def _synthetic(session: Session, options: RunOptions) -> Feed:
    guess = first_that_runs(session, options)
    rows = _rows(session, options, _WITHOUT)
    pool = generated(guess, _wanted(rows), session.fixed_batch, np.random.default_rng([options.seed, 4]))
    _check_axis(options.axis, pool, shown(guess, pool.take([0] * rows.size)))
    said = [f"synthetic inputs: {shown(guess, pool.take([0] * rows.size))}"]
    if guess.assumed:
        sizes = ", ".join(f"{name}={guess.sizes[name]}" for name in guess.assumed)
        said.append(f"{sizes} assumed; give --dim {guess.assumed[0]}=…")
    source = f"synthetic (seed {options.seed}): no inputs were given"
    layout = options.axis is None and session.carrier in _SHAPELESS and _has_length(guess)
    return _arranged(session, options, pool, rows, source, tuple(said), layout)


def _has_length(guess: Guess) -> bool:
    return any("length" in (declared.shape or ()) for declared in guess.signature)


def _check_axis(axis: int | None, pool: Pool, shapes: str) -> None:
    """A batch axis that was asked for and that no input has would be left out in silence."""
    if axis is not None and axis not in pool.axes.axes:
        what = f"--batch-axis {axis} is no axis of the inputs that can count samples"
        raise UsageError(what, where=shapes, remedy="leave it out, or give --inputs")


def _arranged(
    session: Session,
    options: RunOptions,
    pool: Pool,
    rows: Rows,
    source: str,
    remarks: tuple[str, ...],
    guessed_layout: bool = False,
) -> Feed:
    choice = choose(rows, distinct(pool), np.random.default_rng([options.seed, 5]))
    return Arranged(
        pool,
        rows,
        choice,
        source=source,
        synthetic=True,
        seed=options.seed,
        fixed=session.fixed_batch,
        remarks=(*remarks, *_remarks(session, options, rows)),
        guessed_layout=guessed_layout,
    )
