"""Values as plain nested tuples, so that two descriptions can be compared with `==`, NaN and arrays included."""

from __future__ import annotations

from typing import Any

import numpy as np

from bnaudit.records import Record


def plain(value: Any, without: tuple[str, ...] = ()) -> Any:
    """Records as (field, value) pairs, arrays as their bytes; fields named in `without` are left out."""
    if isinstance(value, Record):
        names = (name for name in value._fields if name not in without)
        return (type(value).__name__, *((name, plain(getattr(value, name), without)) for name in names))
    if isinstance(value, tuple):
        return tuple(plain(item, without) for item in value)
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return repr(value) if isinstance(value, float) else value
