"""From the columns of a file to observed scores, and to what was logged beside them."""

from __future__ import annotations

import hashlib
from math import log10
from typing import TYPE_CHECKING, Any

from bnaudit.diagnosis import Observed, ScoreKind
from bnaudit.observed import RequestLog
from bnaudit.observed.moments import seconds_of
from bnaudit.observed.roles import Roles, roles
from bnaudit.observed.scores import Scores, found_scores
from bnaudit.observed.tables import Table
from bnaudit.observed.written import is_missing, parsed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LARGEST_ROW = 2**53


def arranged(table: Table, kind: ScoreKind | None) -> RequestLog:
    """The table as a log. Raises UnreadableError for what cannot be one; UsageError for a wrong kind."""
    known = roles(table.columns) if table.has_names else Roles(others=tuple(table.columns))
    scores = found_scores(table, known, kind)
    kept = scores.kept
    keys = _keys(table, known, scores)
    numbers = _row_numbers(table, known.key, keys)
    requests = _identities(table, known.request)
    times, remark = seconds_of(table, known.time)
    observed = Observed(
        values=scores.values[kept],
        kind=scores.kind,
        rows=_rows(table, keys if known.key else None, numbers)[kept],
        columns=scores.columns,
        requests=None if requests is None else requests[kept],
        step=scores.step,
        source=_source(table, scores),
        remarks=tuple(each for each in (*scores.remarks, remark) if each),
    )
    return RequestLog(
        observed=observed,
        keys=None if keys is None else tuple(key for key, keep in zip(keys, kept.tolist(), strict=True) if keep),
        numbered=known.key is None or numbers is not None,
        batch_sizes=_sizes(table, known.size, kept),
        times=None if times is None else times[kept],
    )


def _keys(table: Table, known: Roles, scores: Scores) -> list[str] | None:
    """Which input each row is of, as a text; a fingerprint of the content where that is all that is logged."""
    if known.key is not None:
        cells = _cells(table.columns[known.key])
        for row, cell in enumerate(cells):
            if is_missing(cell) or isinstance(cell, (list, bool)):
                what = f"column {known.key!r} does not say which input this is"
                raise table.refusal(what, row, "write the number or the name of the input in every row")
        return [_key_text(cell) for cell in cells]
    content = [name for name in known.content if name not in scores.names]
    if not content:
        return None
    columns = [_cells(table.columns[name]) for name in content]
    return [
        hashlib.sha256(repr(row).encode("utf-8", "surrogatepass")).hexdigest()[:12]
        for row in zip(*columns, strict=True)
    ]


def _cells(column: Any) -> list[Any]:
    return column if isinstance(column, list) else column.tolist()


def _key_text(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < _LARGEST_ROW:
        return str(int(cell))
    return str(cell).strip()


def _row_numbers(table: Table, column: str | None, keys: list[str] | None) -> list[int] | None:
    """The keys as row numbers of the inputs; None: they are names, or a fingerprint."""
    if column is None or keys is None:
        return None
    for row, key in enumerate(keys):
        if key.startswith("-") and key[1:].isdecimal():
            raise table.refusal(f"the input is numbered {key}", row, "count the inputs from 0")
    if not all(key.isascii() and key.isdecimal() and len(key) < 16 for key in keys):
        return None
    return [int(key) for key in keys]


def _rows(table: Table, keys: list[str] | None, numbers: list[int] | None) -> NDArray[np.int64]:
    import numpy as np

    if numbers is not None:
        return np.array(numbers, np.int64)
    if keys is None:
        return np.arange(table.rows, dtype=np.int64)
    first = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    return np.array([first[key] for key in keys], np.int64)


def _identities(table: Table, name: str | None) -> NDArray[np.int64] | None:
    """A number for each different value; a row without one stands alone."""
    import numpy as np

    if name is None:
        return None
    first: dict[object, int] = {}
    found = []
    for row, cell in enumerate(_cells(table.columns[name])):
        if isinstance(cell, list):
            raise table.refusal(f"column {name!r} holds a list", row, "write one name or number of the request")
        identity = ("row", row) if is_missing(cell) else _key_text(cell)
        found.append(first.setdefault(identity, len(first)))
    return np.array(found, np.int64)


def _sizes(table: Table, name: str | None, kept: NDArray[np.bool_]) -> NDArray[np.int64] | None:
    import numpy as np

    if name is None:
        return None
    sizes = []
    for row, cell in enumerate(_cells(table.columns[name])):
        size = parsed(cell, name, table, row)
        if size == size and (size < 1 or not float(size).is_integer() or size >= _LARGEST_ROW):
            raise table.refusal(f"a batch size of {size:g} cannot be", row, "write how many samples the forward had")
        sizes.append(0 if size != size else int(size))
    return np.array(sizes, np.int64)[kept]


def _source(table: Table, scores: Scores) -> str:
    """`scores.csv, 120 rows of 10 logits, 3 decimals`."""
    rows = f"{table.rows} row{'s' if table.rows != 1 else ''}"
    if scores.kind is ScoreKind.LABELS:
        return f"{table.name}, {rows} of labels"
    width = scores.values.shape[1]
    what = "scores" if scores.kind is None else scores.kind.value
    if width == 1:
        what = what.removesuffix("s").replace("probabilitie", "probability")
    return f"{table.name}, {rows} of {width} {what}{_fineness(scores.step)}"


def _fineness(step: float | None) -> str:
    if step is None:
        return ""
    decimals = -log10(step)
    if abs(decimals - round(decimals)) < 1e-9 and decimals > -0.5:
        return f", {round(decimals)} decimal{'s' if round(decimals) != 1 else ''}"
    return f", rounded to about {step:.2g}"
