"""How an array's values were rounded before they were saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MOST_DECIMALS = 8
_ODDS = 6.0
"""Values that are no rounded ones lie on the grid once in 10 to this."""
_MOST_LOOKED_AT = 100_000


def step_of_values(array: NDArray[Any]) -> float | None:
    """The power of ten that all values are multiples of, to within what their dtype can hold; None: there is none.

    Integers are not rounded: they are what they are.
    """
    import numpy as np

    if array.dtype.kind != "f":
        return None
    precision = float(np.finfo(array.dtype).eps)
    values = array.ravel()[:_MOST_LOOKED_AT].astype(np.float64)
    values = np.unique(np.abs(values[np.isfinite(values) & (values != 0)]))
    for decimals in range(_MOST_DECIMALS + 1):
        scaled = values * 10.0**decimals
        error = scaled * precision + 1e-12
        if _odds(error) < _ODDS:
            return None  # finer grids are looser still
        if (np.abs(scaled - np.rint(scaled)) <= error).all():
            return 10.0**-decimals
    return None


def _odds(error: NDArray[np.float64]) -> float:
    """How improbable it is, in powers of ten, that values not on the grid seem to be."""
    import numpy as np

    return -float(np.log10(np.clip(2 * error, 1e-6, 1.0)).sum()) if error.size else 0.0


def half_precision(array: NDArray[Any]) -> tuple[str, ...]:
    """A remark when every value is one that half precision has, which full precision would hit by chance only."""
    import numpy as np

    if array.dtype == np.float16:
        return ("the scores are float16: give --precision fp16 if the model computed in it",)
    if array.dtype.kind != "f" or step_of_values(array) is not None:
        return ()
    values = array.ravel()[:_MOST_LOOKED_AT].astype(np.float32)
    values = np.unique(values[np.isfinite(values) & (values != 0) & (values != 1)])
    if len(values) < 8:
        return ()
    if not (values.view(np.uint32) & 0xFFFF).any():
        return ("every score is a bfloat16 number: give --precision bf16 if the model computed in it",)
    with np.errstate(over="ignore"):
        if (values.astype(np.float16).astype(np.float32) == values).all():
            return ("every score is a float16 number: give --precision fp16 if the model computed in it",)
    return ()
