"""A comparison as an object of the JSON report; the schema of it is made by `python tests/run_schema.py` too."""

from __future__ import annotations

from enum import Enum
from typing import Any

from bnaudit.comparison import Comparison
from bnaudit.description import Description, NormLayer, Part
from bnaudit.json_numbers import number
from bnaudit.records import Record
from bnaudit.terminal.comparison_conclusion import conclusion


def comparison_object(comparison: Comparison) -> dict[str, Any]:
    """All of it, the conclusion first; layers and parts by their names."""
    return {"conclusion": list(conclusion(comparison)), "compared": comparison.compared, **_fields(comparison)}


def brief_object(comparison: Comparison) -> dict[str, Any]:
    """With what an artifact was compared, and the result, for a line of JSON Lines."""
    return {
        "conclusion": list(conclusion(comparison)),
        "baseline": _value(comparison.baseline),
        "baseline_part": comparison.baseline_part.name,
        "subject_part": comparison.subject_part.name,
    }


def _fields(record: Record) -> dict[str, Any]:
    return {field: _value(getattr(record, field)) for field in record._fields}


def _value(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (NormLayer, Part)):
        return value.name
    if isinstance(value, Description):
        artifact = value.artifact
        return {"path": artifact.path, "format": artifact.format, "size": artifact.size, "producer": artifact.producer}
    if isinstance(value, Record):
        return _fields(value)
    if isinstance(value, tuple):
        return [_value(item) for item in value]
    if value is None or isinstance(value, (str, bool, int, float)):
        return number(value)
    raise TypeError(f"a {type(value).__name__} is no value of a JSON report")
