"""Finds inputs that a model runs on: each guess is tried once, on two samples."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic

import numpy as np

from bnaudit.feeds.guesses import Guess, guesses, with_axis
from bnaudit.feeds.synthetic import generated, shown
from bnaudit.run_options import RunOptions
from bnaudit.session import Batch, NotPossibleError, RunError, Session, Watch

MOST_TRIES = 32
_SECONDS = 30.0
_SAMPLES = 2
"""Of a trial: some models that take several samples do not take one, and none takes long for two."""


def first_that_runs(session: Session, options: RunOptions) -> Guess:
    """The first guess that the model runs on. These forwards belong to no experiment.

    Raises NotPossibleError, with what the model said to the likeliest guess, when none works.
    """
    most = session.fixed_batch
    tried = guesses(with_axis(session.signatures, options.axis), options.dims, session.dims, MOST_TRIES, most)
    end = monotonic() + min(_SECONDS, (options.budget or np.inf) / 2)
    said: tuple[str, str] | None = None
    for guess in tried:
        pool = generated(guess, most or _SAMPLES, most, np.random.default_rng([options.seed, 0]))
        error = attempt(session, pool.tree, pool.size, pool.axes.first)
        if error is None:
            return guess
        said = said or (str(error), shown(guess, pool))
        if monotonic() > end:
            break
    why, inputs = said or ("there was nothing to try", "")
    raise NotPossibleError(
        f"the model raised on synthetic inputs: {why}", where=inputs, remedy="give real ones with --inputs"
    )


def attempt(session: Session, tree: Iterable[object], size: int, axis: int) -> RunError | None:
    """One forward on the call (args, kwargs), and what it raised."""
    args, kwargs = tree
    batch = Batch(args=args, kwargs=kwargs, size=size, anchors=(0,), axis=axis)  # type: ignore[arg-type]
    try:
        session.run(batch, watch=Watch.CALLS if session.has_production_form else Watch.NOTHING)
    except RunError as error:
        return error
    return None
