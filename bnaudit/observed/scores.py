"""Which columns are the scores, their numbers, and how they were rounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bnaudit.diagnosis import ScoreKind
from bnaudit.errors import UnreadableError, UsageError
from bnaudit.observed.kinds import kind_of
from bnaudit.observed.roles import Roles, kind_named
from bnaudit.observed.rounding import half_precision, step_of_values
from bnaudit.observed.tables import Table
from bnaudit.observed.written import Digits, is_missing, is_number, parsed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ROUNDED = 1e-3
"""By which a rounded probability may lie outside 0 to 1."""


class Scores(NamedTuple):
    """The scores of a table."""

    values: NDArray[np.generic]
    """float64 (rows, columns), or int64 (rows,) of labels"""
    kind: ScoreKind | None
    kept: NDArray[np.bool_]
    """(rows,): those with anything logged"""
    names: tuple[str, ...]
    """Columns that they were read from."""
    columns: tuple[int, ...] | None
    step: float | None
    remarks: tuple[str, ...]


def found_scores(table: Table, known: Roles, wanted: ScoreKind | None) -> Scores:
    """The scores of a table, of the kind that the user says, or that the values say.

    Raises UnreadableError for what is no number, UsageError for a kind that the values cannot be.
    """
    names, columns = _chosen(table, known, wanted)
    values, step, remarks = _numbers(table, names)
    given = table.columns.get("columns")
    if given is not None and columns is None:
        columns = _listed(given, values.shape[1], table)
    if columns is None and len(names) == len(known.numbered) > 0:
        columns = tuple(number for _, number in known.numbered)
    kind = wanted or kind_of(values, kind_named(names), step, is_label=known.label in names)
    ignored = [name for name in (*known.others, known.label or "") if name and name not in names]
    if ignored:
        shown = ", ".join(repr(name) for name in ignored[:5]) + (" …" if len(ignored) > 5 else "")
        remarks.append(f"not read: column{'s' if len(ignored) > 1 else ''} {shown}")
    if kind is ScoreKind.LABELS:
        return _labels(table, values, names, remarks)
    kept = _kept(values, table, remarks)
    if wanted is ScoreKind.PROBABILITIES:
        _check_probabilities(values[kept], table)
    return Scores(values, kind, kept, names, columns, step, tuple(remarks))


def _chosen(table: Table, known: Roles, wanted: ScoreKind | None) -> tuple[tuple[str, ...], tuple[int, ...] | None]:
    """Names of the score columns, and which outputs they are where their names say so."""
    if wanted is ScoreKind.LABELS and known.label is not None:
        _check_label(table, known.label)
        return (known.label,), None
    if known.numbered:
        _check_numbers(table, known)
        return tuple(name for name, _ in known.numbered), tuple(number for _, number in known.numbered)
    numeric = tuple(name for name in known.others if _is_numeric(table.columns[name]))
    wide = [name for name in numeric if _width(table.columns[name]) > 1]
    if wide:
        return (max(wide, key=lambda name: (kind_named([name]) is not None, -wide.index(name))),), None
    if numeric and (table.has_names or len(numeric) == len(known.others)):
        scores = tuple(name for name in numeric if kind_named([name]) is not None)
        return scores or numeric, None
    if known.label is not None:
        _check_label(table, known.label)
        return (known.label,), None
    if not table.has_names:
        _numbers(table, known.others)  # says which cell is no number
    what = "no column holds scores: there are " + ", ".join(repr(name) for name in list(table.columns)[:8])
    raise UnreadableError(what, where=table.name, remedy="call them logit_0, logit_1 …, or label")


def _check_label(table: Table, name: str) -> None:
    """Names of classes say no output; no list of them is given."""
    for row, cell in enumerate(table.columns[name]):
        if isinstance(cell, str) and not _is_numeric_cell(cell):
            what = f"the labels are names, {cell[:40]!r}, and not class numbers"
            raise table.refusal(what, row, "write the number of the output that each name stands for")


def _check_numbers(table: Table, known: Roles) -> None:
    numbers = [number for _, number in known.numbered]
    repeated = next((number for number in numbers if numbers.count(number) > 1), None)
    if repeated is not None:
        what = f"two columns are output {repeated}"
        raise UnreadableError(what, where=table.name, remedy="give each output one column")


def _is_numeric(column: Any) -> bool:
    if not isinstance(column, list):
        return column.dtype.kind in "fiu"
    return any(not is_missing(cell) for cell in column) and all(_is_numeric_cell(cell) for cell in column)


def _is_numeric_cell(cell: Any) -> bool:
    if isinstance(cell, list):
        return all(_is_numeric_cell(each) for each in cell)
    if isinstance(cell, str):
        return is_missing(cell) or is_number(cell)
    return cell is None or (isinstance(cell, (int, float)) and not isinstance(cell, bool))


def _width(column: Any) -> int:
    if isinstance(column, list):
        return next((len(cell) for cell in column if isinstance(cell, list)), 1)
    width = 1
    for size in column.shape[1:]:
        width *= size
    return width


def _numbers(table: Table, names: tuple[str, ...]) -> tuple[NDArray[np.float64], float | None, list[str]]:
    """(rows, columns), the rounding step, and what is to be said of them."""
    import numpy as np

    blocks, digits, remarks = [], Digits(), list[str]()
    found: list[float | None] = []
    for name in names:
        column = table.columns[name]
        if isinstance(column, list):
            blocks.append(_written(table, name, column, digits))
            continue
        if column.dtype.kind not in "fiu":
            what = f"the array {name!r} holds no numbers but {column.dtype}"
            raise UnreadableError(what, where=table.name, remedy="save numbers")
        found.append(step_of_values(column))
        remarks.extend(half_precision(column))
        blocks.append(column.reshape(table.rows, -1).astype(np.float64))
    values = np.concatenate(blocks, axis=1) if blocks else np.empty((table.rows, 0))
    if not values.shape[1]:
        raise UnreadableError("the scores have no columns", where=table.name, remedy="write at least one score a row")
    step = digits.step() if not found else (max(found, key=lambda s: s or 0.0) if None not in found else None)
    return values, step, list(dict.fromkeys(remarks))


def _written(table: Table, name: str, column: list[Any], digits: Digits) -> NDArray[np.float64]:
    import numpy as np

    width = _width(column)
    rows = []
    for row, cell in enumerate(column):
        cells = cell if isinstance(cell, list) else [cell] if width == 1 or not is_missing(cell) else [None] * width
        if len(cells) != width:
            raise table.refusal(f"{name!r} has {len(cells)} numbers and not {width}", row, "write as many in every row")
        rows.append([parsed(each, name, table, row) for each in cells])
        for each in cells:
            digits.add(each)
    return np.array(rows, np.float64).reshape(len(rows), width)


def _listed(given: Any, width: int, table: Table) -> tuple[int, ...]:
    """The array `columns` of an archive: which outputs the scores are."""
    listed = given if isinstance(given, list) else given.ravel().tolist()
    if len(listed) != width or not all(isinstance(each, int) and each >= 0 for each in listed):
        what = f"`columns` does not say which {width} outputs the scores are"
        raise UnreadableError(what, where=table.name, remedy="save one whole number for each column of the scores")
    return tuple(listed)


def _kept(values: NDArray[np.float64], table: Table, remarks: list[str]) -> NDArray[np.bool_]:
    """Rows with a finite value; infinities count as not logged."""
    import numpy as np

    infinite = np.isinf(values)
    if infinite.any():
        count = int(infinite.sum())
        remarks.append(f"{count} infinite score{'s are' if count > 1 else ' is'} left out")
        values[infinite] = np.nan
    kept: NDArray[np.bool_] = np.asarray(np.isfinite(values).any(axis=1))
    if not kept.any():
        raise UnreadableError("no row has a score", where=table.name, remedy="write at least one number")
    if not kept.all():
        count = int((~kept).sum())
        remarks.append(f"{count} row{'s' if count > 1 else ''} without a score {'are' if count > 1 else 'is'} left out")
    return kept


def _check_probabilities(values: NDArray[np.float64], table: Table) -> None:
    outside = values[(values < -_ROUNDED) | (values > 1 + _ROUNDED)]
    if outside.size:
        what = f"probabilities lie between 0 and 1, and there is {outside[0]:g}"
        raise UsageError(what, where=table.name, remedy="leave out --scores probabilities")


def _labels(table: Table, values: NDArray[np.float64], names: tuple[str, ...], remarks: list[str]) -> Scores:
    import numpy as np

    if values.shape[1] != 1:
        what = f"labels are one number a row, and there are {values.shape[1]} columns"
        raise UsageError(what, where=table.name, remedy="leave out --scores labels, or give the column `label` alone")
    kept = _kept(values, table, remarks)
    for row in kept.nonzero()[0].tolist():
        value = values[row, 0]
        if value != round(value) or not 0 <= value < 2**31:
            what = f"the label {value:g} is no class number"
            raise table.refusal(what, row, "write whole numbers from 0, as argmax gives them")
    labels = np.where(kept, values[:, 0], 0).astype(np.int64)
    return Scores(labels, ScoreKind.LABELS, kept, names, None, None, tuple(remarks))
