"""Where batches come from: files, the user's callables, loaders, datasets, iterables and plain arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bnaudit.errors import UnreadableError, UsageError
from bnaudit.feeds.collating import Dataset, dataset_of
from bnaudit.feeds.files import read
from bnaudit.feeds.trees import holds_arrays, is_array
from bnaudit.user_code import is_spec, load_callable, raised

_MOST_BATCHES = 10_000
"""Batches that are asked for before an iterator is taken to hold no samples."""


class Source(NamedTuple):
    """Batches, each a tree that may hold arrays, or a dataset to draw samples from."""

    name: str
    """In words: `digits.npz`, `data.py:batches`, `the given arrays`."""
    batches: Iterator[object]
    dataset: Dataset | None = None
    from_file: bool = False


def open_source(inputs: object) -> Source:
    """The source that the user named or handed over.

    Raises UsageError for what cannot be a source, UnreadableError when a file cannot be read or the user's code raises.
    """
    if isinstance(inputs, (str, Path)):
        text = str(inputs)
        if is_spec(text) and not Path(text).exists():
            return _source(_called(load_callable(text), text), text)
        path = Path(text).expanduser()
        return Source(path.name, iter(_batches(read(path), path.name)), from_file=True)
    if callable(inputs) and not is_array(inputs) and not _iterable(inputs):
        name = getattr(inputs, "__name__", type(inputs).__name__)
        return _source(_called(inputs, name), name)
    return _source(inputs, "the given inputs")


def _called(found: object, name: str) -> object:
    if not callable(found) or is_array(found) or (_iterable(found) and not isinstance(found, type)):
        return found
    try:
        return found()
    except (Exception, SystemExit) as error:
        if isinstance(error, TypeError) and error.__traceback__ is not None and error.__traceback__.tb_next is None:
            # raised by the call itself, and by nothing in it
            remedy = "give a callable that needs no arguments"
            raise UsageError(f"{name} cannot be called: {error}", remedy=remedy) from error
        raise raised(f"calling {name}", error) from error


def _iterable(value: object) -> bool:
    return hasattr(value, "__iter__") or hasattr(value, "__getitem__")


def _source(value: object, name: str) -> Source:
    dataset = dataset_of(value, name)
    if dataset is not None:
        return Source(name, iter(()), dataset)
    return Source(name, _guarded(_batches(value, name), name))


def _batches(value: object, name: str) -> Iterable[object]:
    """A list is a list of batches; an array, a tuple or a dict is one batch that holds all samples."""
    if isinstance(value, list):
        if not value:
            raise UnreadableError("the inputs hold no batch", where=name, remedy="give at least one sample")
        return value if holds_arrays(value) else [np.asarray(value)]
    if is_array(value) or isinstance(value, (tuple, Mapping)):
        return [value]
    if hasattr(value, "__iter__"):
        return value
    raise UsageError(
        f"inputs cannot be a {type(value).__name__}",
        where=name,
        remedy="give arrays, tensors, or something that yields batches of them",
    )


def _guarded(batches: Iterable[object], name: str) -> Iterator[object]:
    """The batches; what the user's code raises on the way is told as one sentence."""
    iterator = _stepped(lambda: iter(batches), name)
    for _ in range(_MOST_BATCHES):
        batch = _stepped(lambda: next(iterator, _END), name)
        if batch is _END:
            return
        yield batch


def _stepped(step: Callable[[], Any], name: str) -> Any:
    try:
        return step()
    except (Exception, SystemExit) as error:
        raise raised(f"reading batches of {name}", error) from error


_END = object()
