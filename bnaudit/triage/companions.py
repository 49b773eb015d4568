"""What stood beside each input in production's batches, as the user logged it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bnaudit.errors import UnreadableError
from bnaudit.feeds.in_order import open_in_order
from bnaudit.feeds.pools import Pool
from bnaudit.feeds.sources import open_source
from bnaudit.feeds.trees import Array, leaves, with_arrays
from bnaudit.records import replace
from bnaudit.run_options import RunOptions
from bnaudit.session import Session


class Companions(NamedTuple):
    """Inputs of the same call: the same ones for every input, or some for each."""

    pool: Pool
    each: int | None
    """How many follow each input, one input's after the other's; None: all of them follow every input."""

    def of(self, row: int) -> Pool:
        """Those of one input."""
        if self.each is None:
            return self.pool
        return self.pool.take(range(row * self.each, (row + 1) * self.each))


def open_companions(session: Session, options: RunOptions, given: object, inputs: Pool) -> Companions:
    """given: whatever `options.inputs` may be; samples, or one array (inputs, companions of each, …sample).

    Raises as `open_in_order`, and UnreadableError for companions of another shape than the inputs.
    """
    split = _split(given, inputs)
    if split is not None:
        array, each = split
        return Companions(inputs.with_arrays([array]), each)
    pool = open_in_order(session, replace(options, inputs=given)).pool
    if pool.shape() != inputs.shape():
        what = "the companions do not have the shape of the inputs"
        raise UnreadableError(what, where=str(given)[:80], remedy="give samples as the model takes them")
    return Companions(pool, None)


def _split(given: object, inputs: Pool) -> tuple[Array, int] | None:
    """Companions of each input, one after the other, and how many each has; None: they are not given for each."""
    own = list(inputs.arrays())
    if len(own) != 1 or own[0][1] != 0:
        return None
    source = open_source(given)
    tree = next(iter(source.batches), None)
    arrays = [leaf for _, leaf in leaves(with_arrays(tree, source.name))] if tree is not None else []
    array, sample = arrays[0] if arrays else None, own[0][0]
    if not isinstance(array, np.ndarray) or len(arrays) != 1 or array.ndim != sample.ndim + 1:
        return None
    if array.shape[0] != inputs.size or array.shape[2:] != sample.shape[1:]:
        what = f"companions of shape {array.shape} cannot stand beside {inputs.size} inputs of {sample.shape[1:]}"
        raise UnreadableError(what, where=source.name, remedy="give (inputs, companions of each, …) or samples")
    return array.reshape(-1, *array.shape[2:]).astype(sample.dtype), array.shape[1]
