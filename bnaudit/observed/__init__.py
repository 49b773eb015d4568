"""What production returned, read from the files that people keep it in: .npz, .npy, .csv, .jsonl and .json.

Looking executes nothing: no pickle, no object array. Every refusal is one sentence with the line or row.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bnaudit.diagnosis import Observed, ScoreKind
from bnaudit.errors import UsageError
from bnaudit.records import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class RequestLog(Record, eq=False):
    """Observed scores with what was logged beside them. Rows are observations, in the order of the file."""

    observed: Observed
    """Its `rows` count the different inputs from 0 where the keys are no row numbers of the inputs."""
    keys: tuple[str, ...] | None = None
    """(rows,): which input it was, as it is written, or a fingerprint of its logged content; None: not logged."""
    numbered: bool = True
    """The keys are row numbers, fingerprints, or not there: observations are in the order of the inputs then."""
    batch_sizes: NDArray[np.int64] | None = None
    """(rows,): samples of the forward, 0 where it was not logged."""
    times: NDArray[np.float64] | None = None
    """(rows,): seconds, NaN where it was not logged; None: not logged."""


def read_log(path: str | Path, kind: ScoreKind | None = None) -> RequestLog:
    """Scores and what was logged beside them.

    Raises UsageError for a file that is not there or of another kind, UnreadableError for one that cannot be read.
    """
    from bnaudit.observed.arranging import arranged
    from bnaudit.observed.files import table

    return arranged(table(Path(path).expanduser()), kind)


def read_observed(path: str | Path, kind: ScoreKind | None = None) -> Observed:
    """Scores with the given input of each. Raises as `read_log`, and UsageError for keys that are names."""
    return for_inputs(read_log(path, kind)).observed


def for_inputs(log: RequestLog) -> RequestLog:
    """The log itself. Raises UsageError when its keys do not say which row of the given inputs is meant."""
    if log.keys is None or log.numbered:
        return log
    what = f"the inputs are named {log.keys[0]!r} and the like, which says no row of --inputs"
    remedy = "write row numbers of the inputs, counted from 0, in a column `input`"
    raise UsageError(what, where=log.observed.source, remedy=remedy)


def check_rows(observed: Observed, inputs: int) -> None:
    """Raises UnreadableError for an observation of an input that is not given."""
    from bnaudit.errors import UnreadableError

    beyond = (observed.rows >= inputs).nonzero()[0]
    if beyond.size:
        row = int(beyond[0])
        what = f"observation {row} is of input {int(observed.rows[row])}, and only {inputs} inputs are given"
        remedy = "count the inputs from 0, or give all of them"
        raise UnreadableError(what, where=observed.source, remedy=remedy)
