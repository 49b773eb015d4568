"""What is concluded of one fold, before it is told which layers it is of."""

from __future__ import annotations

from typing import NamedTuple

from bnaudit.comparison import FoldCause


class Verdict(NamedTuple):
    """The fields of Fold of the same names."""

    cause: FoldCause
    detail: str
    gain_residual: float | None = None
    shift_residual: float | None = None
    limit: float | None = None
    eps: float | None = None
    eps_error: float | None = None
    channels: tuple[int, ...] = ()
