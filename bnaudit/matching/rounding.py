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
_LAST_BITS = 2.0**-22
"""Relative; two steps of float32."""
_SLACK = 1.01
"""For values that were rounded twice on the way, to float32 and then to half."""


def same_values(one: Array, other: Array) -> bool:
    """Bit-equal after both were widened to float64; NaN equals NaN."""
    import numpy as np

    return bool(np.array_equal(one, other, equal_nan=True))


def rounding(one: StoredTensor, other: StoredTensor) -> str:
    """The dtype whose rounding explains what differs, `float16`, `bfloat16` or `float32`; "": none does.

    Told by the dtypes that are stored, and by values of a wider dtype that all lie on the grid of a narrower one.
    """
    ours, theirs = _floating(one), _floating(other)
    if ours is None or theirs is None or ours.shape != theirs.shape:
        return ""
    if not _within(ours, theirs, 2.0 * _ROUNDINGS[-1][1], _ROUNDINGS[1][2]):
        return ""  # further apart than any rounding: most layers that moved
    for dtype, unit, least in _ROUNDINGS:
        for stored, coarse, fine in ((one, ours, theirs), (other, theirs, ours)):
            narrow = (stored.dtype == dtype or _on_grid(coarse, dtype)) and not _on_grid(fine, dtype)
            if narrow and _within(fine, coarse, unit, least):
                return dtype
    # Neither is a copy of the other: both were computed, and the last bits of float32 differ.
    return "float32" if _within(ours, theirs, _LAST_BITS, 2.0**-150) else ""


def _floating(stored: StoredTensor) -> Array | None:
    return cast("Array", stored.values) if stored.values is not None and stored.values.dtype.kind == "f" else None


def _within(fine: Array, coarse: Array, unit: float, least: float) -> bool:
    import numpy as np

    with np.errstate(all="ignore"):
        limit = _SLACK * (unit * np.abs(fine) + least)
        return bool((((fine - coarse) <= limit) & ((coarse - fine) <= limit) | (fine == coarse)).all())


def _on_grid(values: Array, dtype: str) -> bool:
    """Whether all values are exact in `float32`, `float16` or `bfloat16`."""
    import numpy as np

    with np.errstate(all="ignore"):
        single = values.astype(np.float32)
        if dtype == "float16":
            return bool(np.array_equal(values.astype(np.float16), values))
        exact = bool(np.array_equal(single, values))
    return exact and (dtype == "float32" or not (single.view(np.uint32) & 0xFFFF).any())
