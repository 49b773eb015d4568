"""What a graph returns, flattened to arrays: tensors, sequences, and the maps of classical classifiers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bnaudit.session import Output


def flattened(names: Sequence[str], values: Sequence[Any], dtypes: Mapping[str, str]) -> tuple[Output, ...]:
    """One Output for each array, named `name`, `name[0]`, `name['key']`; text and absent optionals are left out."""
    found: list[Output] = []
    for name, value in zip(names, values, strict=True):
        for place, array in _leaves(name, value):
            array.setflags(write=False)
            found.append(Output(name=place, values=array, dtype=dtypes.get(name, str(array.dtype))))
    return tuple(found)


def _leaves(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "fiubc":
            yield place, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(f"{place}[{key!r}]", inner)
    elif isinstance(value, list):
        yield from _listed(place, value)
    elif isinstance(value, (int, float, np.generic)):
        yield place, np.asarray(value)


def _listed(place: str, values: list[Any]) -> Iterator[tuple[str, Any]]:
    """A list of maps with the same keys, one for each sample, becomes one array (samples,) for each key."""
    maps = [value for value in values if isinstance(value, Mapping)]
    if maps and len(maps) == len(values) and all(each.keys() == maps[0].keys() for each in maps):
        for key in maps[0]:
            yield from _leaves(f"{place}[{key!r}]", np.array([each[key] for each in maps]))
        return
    for index, value in enumerate(values):
        yield from _leaves(f"{place}[{index}]", value)
