"""When each observation was made."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from bnaudit.observed.tables import Table
from bnaudit.observed.written import is_missing, is_number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def seconds_of(table: Table, name: str | None) -> tuple[NDArray[np.float64] | None, str]:
    """(rows,) seconds, NaN where nothing was logged; None and a remark when the column cannot be read as times."""
    import numpy as np

    if name is None:
        return None, ""
    column = table.columns[name]
    if not isinstance(column, list):
        if column.dtype.kind == "M":
            return column.astype("datetime64[us]").astype(np.float64) / 1e6, ""
        column = column.tolist()
    try:
        return np.array([_seconds(cell) for cell in column]), ""
    except (ValueError, TypeError, OverflowError):
        return None, f"the times in column {name!r} could not be read, and the order of the rows is used"


def _seconds(cell: Any) -> float:
    """A number as it is; a date and time of ISO 8601, of no zone as UTC."""
    if is_missing(cell):
        return float("nan")
    if isinstance(cell, (int, float)):
        return float(cell)
    text = str(cell).strip()
    if is_number(text):
        return float(text)
    moment = datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in "Zz" else text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
