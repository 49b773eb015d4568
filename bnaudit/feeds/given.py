"""The user's inputs as a pool of samples of the model's call."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from bnaudit.errors import UnreadableError
from bnaudit.feeds.axes import found
from bnaudit.feeds.calls import Call, calls
from bnaudit.feeds.collating import Dataset
from bnaudit.feeds.fitting import cast, fitted
from bnaudit.feeds.lengths import Lengths
from bnaudit.feeds.pools import Pool, collected
from bnaudit.feeds.seeds import seeded
from bnaudit.feeds.sources import Source, open_source
from bnaudit.feeds.trees import Array, leaves, with_arrays
from bnaudit.feeds.trying import attempt
from bnaudit.run_options import RunOptions
from bnaudit.session import Session


class Given(NamedTuple):
    """Samples of the user's."""

    name: str
    pool: Pool
    total: int
    """Samples that there are, drawn or not; 0: not known."""
    remarks: tuple[str, ...]
    lengths: Lengths | None = None


def open_given(session: Session, options: RunOptions, wanted: int) -> Given:
    """At most `wanted` samples. The global random generators are seeded while the user's code runs, and put back.

    Raises UsageError and UnreadableError, as `open_source`, `calls`, `fitted` and `found` say, and UnreadableError for
    values that are not finite.
    """
    generator = np.random.default_rng([options.seed, 6])
    with seeded(options.seed):
        source = open_source(options.inputs)
        reader = _Reader(session, options, source)
        if source.dataset is not None:
            given = _of_dataset(reader, source.dataset, wanted, generator)
        else:
            pool, remark = collected(reader.pools(source.batches), wanted, generator, source.name)
            pool = reader.cast(pool)
            remarks = (*dict.fromkeys(reader.remarks), *((remark,) if remark else ()))
            total = reader.seen if reader.batches == 1 or pool.size < wanted else 0
            given = Given(source.name, pool, total, remarks)
    _check_finite(given.pool, given.name)
    return given


def _of_dataset(reader: _Reader, dataset: Dataset, wanted: int, generator: np.random.Generator) -> Given:
    samples = dataset.draw(wanted + wanted // 2 if dataset.may_pad else wanted, generator)

    def make(some: list[Any]) -> Pool:
        with seeded(reader.options.seed):
            return reader.cast(reader.pool(dataset.batch(some)))

    lengths = Lengths.of(samples, make) if dataset.may_pad else None
    samples = (samples if lengths is None else lengths.samples)[:wanted]
    pool = make(samples)
    return Given(dataset.name, pool, dataset.total, tuple(dict.fromkeys(reader.remarks)), lengths)


class _Reader:
    """Turns batches into pools; how the model is called is decided once, on the first batch."""

    def __init__(self, session: Session, options: RunOptions, source: Source) -> None:
        self.session, self.options, self.source = session, options, source
        self.call: Call | None = None
        self.remarks: list[str] = []
        self.seen = self.batches = 0

    def pools(self, batches: Iterator[object]) -> Iterator[Pool]:
        for batch in batches:
            pool = self.pool(batch)
            self.seen += pool.size
            self.batches += 1
            yield pool

    def pool(self, batch: object) -> Pool:
        if self.call is None:
            self.call = self._decided(batch)
            self.remarks += self.call.remarks
        return self._as_pool(self.call, batch, self.remarks)

    def cast(self, pool: Pool) -> Pool:
        """With the model's dtypes: only of the samples that were drawn."""
        tree, said = cast(pool.tree, self.session, self.source.name)
        self.remarks += said
        return pool._replace(tree=tree)

    def _as_pool(self, call: Call, batch: object, remarks: list[str]) -> Pool:
        name, signature = self.source.name, self.session.signatures[0] if self.session.signatures else ()
        try:
            arguments = call.arguments(batch)
        except (KeyError, IndexError, TypeError) as error:
            raise UnreadableError(
                f"a batch is built unlike the first one: {error}", where=name, remedy="yield batches of one form"
            ) from error
        tree, said = fitted(with_arrays(arguments, name), self.session, name)
        remarks += said
        return Pool(tree, found(tree, signature, self.options.axis, name, self.session.fixed_batch))

    def _decided(self, batch: object) -> Call:
        """The only way to call the model with the batch, or the first that runs."""
        ways = calls(batch, self.session, self.source.name, self.source.from_file)
        first = next(ways)
        second = next(ways, None)
        if second is None:
            return first
        for call in chain((first, second), ways):
            whole = self._as_pool(call, batch, [])
            some = whole.take([index % whole.size for index in range(self.session.fixed_batch or 2)])
            tree, _ = cast(some.tree, self.session, self.source.name)
            if attempt(self.session, tree, some.size, some.axes.first) is None:
                return call
        return first


def _check_finite(pool: Pool, whence: str) -> None:
    named = [path for path, _ in leaves(pool.tree)]
    for (path, leaf), axis in zip(leaves(pool.tree), pool.axes.axes, strict=True):
        if axis is None or not isinstance(leaf, np.ndarray) or leaf.dtype.kind not in "fc" or _is_finite(leaf):
            continue
        count = int(np.size(leaf) - np.isfinite(leaf).sum())
        which = f"input {path}" if len(named) > 1 else "the input"
        raise UnreadableError(
            f"{which} holds {count} NaN or infinite value{'s' if count > 1 else ''} in {leaf.shape[axis]} samples",
            where=whence,
            remedy="give finite values",
        )


def _is_finite(array: Array) -> bool:
    """Finite, or a mask that is added to scores (0 and −inf)."""
    if np.isfinite(array).all():
        return True
    return bool(np.isneginf(array.real).any() and ((array == 0) | np.isneginf(array.real)).all())
