"""Samples of a dataset, put together by the user's own collate function, or stacked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bnaudit.errors import UnreadableError
from bnaudit.feeds.trees import is_array, leaves, mapped, with_arrays
from bnaudit.user_code import raised


class Dataset:
    """A map-style dataset: samples by index, and what makes a batch of them."""

    __slots__ = ("_samples", "collate", "name", "total")

    def __init__(self, samples: Any, collate: Callable[[list[Any]], Any] | None, name: str) -> None:
        self._samples = samples
        self.collate = collate
        self.name = name
        self.total = len(samples)

    @property
    def may_pad(self) -> bool:
        """Whether samples of several lengths can become one batch: torch's own collate function only stacks."""
        return self.collate is not None and getattr(self.collate, "__name__", "") != "default_collate"

    def draw(self, wanted: int, generator: np.random.Generator) -> list[Any]:
        """At most `wanted` different samples, ascending. Raises UnreadableError when the dataset raises or is empty."""
        if not self.total:
            raise UnreadableError("the dataset holds no sample", where=self.name, remedy="give at least one")
        chosen = generator.choice(self.total, min(wanted, self.total), replace=False)
        try:
            return [self._samples[index] for index in sorted(int(index) for index in chosen)]
        except (Exception, SystemExit) as error:
            raise raised(f"reading samples of {self.name}", error) from error

    def batch(self, samples: list[Any]) -> Any:
        """The samples as one batch, a tree of arrays. Raises UnreadableError when they do not fit together."""
        try:
            return (self.collate or _stacked)(samples)
        except (Exception, SystemExit) as error:
            doing = "the collate function" if self.collate else "stacking samples"
            raise raised(f"{doing} of {self.name}", error) from error


def dataset_of(value: Any, name: str) -> Dataset | None:
    """The dataset behind a loader that collates samples, or the value itself if it is a dataset; None for others."""
    if is_array(value) or isinstance(value, (Mapping, tuple, list, str, bytes)):
        return None
    collate = getattr(value, "collate_fn", None)
    inner = getattr(value, "dataset", None)
    if callable(collate) and _is_map_style(inner):
        return Dataset(inner, collate, name) if getattr(value, "batch_sampler", None) is not None else None
    return Dataset(value, None, name) if _is_map_style(value) else None


def _is_map_style(value: object) -> bool:
    if not (hasattr(value, "__getitem__") and hasattr(value, "__len__")):
        return False
    try:
        return len(value) >= 0
    except (TypeError, NotImplementedError):
        return False


def _stacked(samples: Sequence[Any]) -> Any:
    """Samples without a batch axis as one batch; numbers become arrays, what is no number is left as it is."""
    trees = [with_arrays(sample, "a sample") for sample in samples]
    columns = iter(zip(*([leaf for _, leaf in leaves(tree)] for tree in trees), strict=True))
    return mapped(trees[0], lambda _: _column(next(columns)))


def _column(values: tuple[Any, ...]) -> Any:
    if isinstance(values[0], np.ndarray):
        return np.stack(values)
    return np.asarray(values) if isinstance(values[0], (bool, int, float)) else values[0]
