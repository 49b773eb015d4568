"""Whether two stored tensors are the same values, or one a rounded copy of the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from bnaudit.description import StoredTensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_ROUNDINGS = (("float32", 2.0**-24, 2.0**-150), ("float16", 2.0**-11, 2.0**-25), ("bfloat16", 2.0**-8, 2.0**-134))
"""(dtype, unit roundoff, half its smallest subnormal): IEEE 754 binary32 and binary16; bfloat16 has 8 bits."""
_SLACK = 1.01
"""For values that were rounded twice on the way, to float32 and then to half."""


def same_values(one: Array, other: Array) -> bool:
    """Bit-equal after both were widened to float64; NaN equals NaN."""
    import numpy as np

    return bool(np.array_equal(one, other, equal_nan=True))


def rounding(one: StoredTensor, other: StoredTensor) -> str:
    """The dtype that one was rounded to from the other: `float16`, `bfloat16`, `float32`; "": that explains nothing.

    Told by the dtypes that are stored, and by values of a wider dtype that all lie on the grid of a narrower one.
    """
    ours, theirs = _floating(one), _floating(other)
    if ours is None or theirs is None or ours.shape != theirs.shape:
        return ""
    for dtype, unit, least in _ROUNDINGS:
        for stored, coarse, fine in ((one, ours, theirs), (other, theirs, ours)):
            narrow = dtype in (stored.dtype, _grid(coarse)) and _grid(fine) != dtype
            if narrow and _within(fine, coarse, unit, least):
                return dtype
    return ""


def _floating(stored: StoredTensor) -> Array | None:
    return cast("Array", stored.values) if stored.values is not None and stored.values.dtype.kind == "f" else None


def _within(fine: Array, coarse: Array, unit: float, least: float) -> bool:
    import numpy as np

    with np.errstate(all="ignore"):
        limit = _SLACK * (unit * np.abs(fine) + least)
        return bool((((fine - coarse) <= limit) & ((coarse - fine) <= limit) | (fine == coarse)).all())


def _grid(values: Array) -> str:
    """The narrowest dtype that all values are exact in, of float16, bfloat16 and float32; "": none."""
    import numpy as np

    with np.errstate(all="ignore"):
        single = values.astype(np.float32)
        if not np.array_equal(single, values):
            return ""
        if np.array_equal(values.astype(np.float16), values):
            return "float16"
    return "float32" if (single.view(np.uint32) & 0xFFFF).any() else "bfloat16"
