"""What rounding alone can do to a folded weight, by the dtypes that it went through."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Rounding(NamedTuple):
    """The coarsest arithmetic on the way."""

    unit: float
    """Unit roundoff: the largest relative error of one rounding."""
    floor: float
    """Below this a value may be flushed to 0, or is rounded in absolute steps."""
    slack: float
    """Roundings in a row that are granted: square root, division and products of a fold, and their order."""
    dtype: str = "float32"

    @property
    def limit(self) -> float:
        """The largest relative error that is still rounding."""
        return self.slack * self.unit


_EXACT = Rounding(2.0**-53, 2.0**-1022, 16.0, "float64")
_BY_DTYPE = {
    "float64": _EXACT,
    "float32": Rounding(2.0**-24, 2.0**-126, 16.0, "float32"),
    "float16": Rounding(2.0**-11, 2.0**-24, 4.0, "float16"),
    "bfloat16": Rounding(2.0**-8, 2.0**-126, 4.0, "bfloat16"),
    "float8_e4m3fn": Rounding(2.0**-4, 2.0**-9, 3.0, "float8_e4m3fn"),
    "float8_e4m3fnuz": Rounding(2.0**-4, 2.0**-10, 3.0, "float8_e4m3fnuz"),
    "float8_e5m2": Rounding(2.0**-3, 2.0**-16, 3.0, "float8_e5m2"),
    "float8_e5m2fnuz": Rounding(2.0**-3, 2.0**-17, 3.0, "float8_e5m2fnuz"),
}
"""IEEE 754-2019 (binary16 to binary64), OCP FP8; slack measured on folds by PyTorch, onnxruntime and simplifiers."""

HALVES = (_BY_DTYPE["bfloat16"], _BY_DTYPE["float16"])
"""The coarser first: what lies on its grid mostly lies on the other, too."""


def rounding(dtypes: Iterable[str]) -> Rounding:
    """That of the coarsest of these dtypes."""
    return max((_BY_DTYPE[dtype] for dtype in dtypes if dtype in _BY_DTYPE), default=_EXACT)
