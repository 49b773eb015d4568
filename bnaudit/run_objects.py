"""What a run showed as objects of the JSON report: each measurement with its type's name and its fields.

The schema lists every type and field; `python tests/run_schema.py` writes that part of it anew.
"""

from __future__ import annotations

import re
from enum import Enum

from bnaudit.description import Part
from bnaudit.json_numbers import number
from bnaudit.measurement import Measured, Measurement
from bnaudit.records import Record
from bnaudit.session import StateChange


def run_object(measured: Measured) -> dict[str, object]:
    """The run and all its measurements, in the order in which they were made."""
    return _fields(measured)


def type_name(kind: type[Record]) -> str:
    """`PoisonedBatch` → `poisoned-batch`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()


def _fields(record: Record) -> dict[str, object]:
    named: dict[str, object] = {"type": type_name(type(record))} if isinstance(record, Measurement) else {}
    for field in record._fields:
        named[field] = _value(getattr(record, field))
    if isinstance(record, StateChange):
        named["digest"] = f"{record.digest & (2**64 - 1):016x}"  # more digits than a number of JSON keeps
    return named


def _value(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Part):
        return _modes(value)
    if isinstance(value, Record):
        return _fields(value)
    if isinstance(value, tuple):
        return [_value(item) for item in value]
    if value is None or isinstance(value, (str, bool, int, float)):
        return number(value)
    raise TypeError(f"a {type(value).__name__} is no value of a JSON report")


def _modes(part: Part) -> dict[str, object]:
    """Of the model after train(): which layers are in which mode."""
    flags = {layer.name: layer.training for layer in part.layers}
    flags.update({other.name: other.training for other in part.mode_dependent})
    return {
        "training": sorted(name for name, training in flags.items() if training),
        "eval": sorted(name for name, training in flags.items() if training is False),
    }
