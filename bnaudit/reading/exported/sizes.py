"""Sizes and dtypes of tensors in exported programs; a size is an integer, or an expression over symbols."""

from __future__ import annotations

import re
from typing import NamedTuple

from bnaudit.reading.json_text import object_at, text_at

_SYMBOL = re.compile(r"Symbol\('([^']*)'[^()]*\)")
_LONGEST_EXPRESSION = 1_000
_INTEGER = re.compile(r"Integer\((-?\d+)\)")


_SCALAR_TYPES = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float16",
    7: "float32",
    8: "float64",
    9: "complex32",
    10: "complex64",
    11: "complex128",
    12: "bool",
    13: "bfloat16",
    28: "uint16",
    29: "float8_e4m3fn",
    30: "float8_e5m2",
    31: "float8_e4m3fnuz",
    32: "float8_e5m2fnuz",
    33: "float8_e8m0fnu",
    34: "uint32",
    35: "uint64",
}
"""ScalarType of torch/_export/serde/schema.py."""


class Size(NamedTuple):
    """One dimension. `value` is an int, the text of an expression, or None when the graph does not say."""

    value: int | str | None
    hint: int | None
    """The size at export time."""

    @property
    def is_symbolic(self) -> bool:
        """Whether it may differ from call to call."""
        return not isinstance(self.value, int)


def size_of(raw: object) -> Size:
    """A SymInt of the schema: `{"as_int": 3}`, or `{"as_expr": {"expr_str": …, "hint": {"as_int": 4}}}`."""
    plain = raw.get("as_int") if isinstance(raw, dict) else None
    if isinstance(plain, int) and not isinstance(plain, bool):
        return Size(plain, plain)
    expression = object_at(raw, "as_expr")
    hint = object_at(expression, "hint").get("as_int")
    return Size(readable(text_at(expression, "expr_str")) or None, hint if isinstance(hint, int) else None)


def readable(expression: str) -> str:
    """An expression for a person: `Mul(Integer(4), Symbol('s77', positive=True))` becomes `Mul(4, s77)`."""
    if len(expression) > _LONGEST_EXPRESSION:
        return expression[:_LONGEST_EXPRESSION] + "…"
    return _INTEGER.sub(r"\1", _SYMBOL.sub(r"\1", expression))


def dtype_name(number: object) -> str:
    """PyTorch's name of a ScalarType of the schema, `unknown` for a number that it does not have."""
    return _SCALAR_TYPES.get(number, "unknown") if isinstance(number, int) else "unknown"
