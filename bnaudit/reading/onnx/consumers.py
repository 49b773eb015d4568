"""Who uses a value: the walk forward, as `Site.inputs` is the walk back."""

from __future__ import annotations

from collections.abc import Iterable

from bnaudit.reading.onnx.scope import Site, Value

PASSING = frozenset(("Identity", "Cast", "CastLike"))
"""They hand a value on, at most in another type."""
QUANTIZING = PASSING | {"QuantizeLinear", "DequantizeLinear"}
"""They hand a value on, at most on another grid."""
MOVING = PASSING | {"Reshape", "Unsqueeze", "Squeeze", "Flatten", "Expand", "Tile", "Transpose"}
"""They hand the same numbers on in another shape."""


class Consumers:
    """Built when it is first asked: most graphs never need it."""

    def __init__(self, sites: Iterable[Site]) -> None:
        self._sites = sites
        self._by_value: dict[Value, list[Site]] | None = None

    def of(self, value: Value | None) -> list[Site]:
        """The sites that compute with a value; those that only look at its shape or type do not count."""
        if self._by_value is None:
            self._by_value = {}
            for site in self._sites:
                used = site.inputs[:1] if site.operator == "CastLike" else site.inputs
                for each in used if site.operator not in ("Shape", "Size") else ():
                    self._by_value.setdefault(each, []).append(site)
        return self._by_value.get(value, []) if value is not None else []

    def only(self, value: Value | None) -> Site | None:
        """The one site that computes with it, None when there are several or none."""
        found = self.of(value)
        return found[0] if len(found) == 1 else None


def other_operand(site: Site, value: Value) -> Value | None:
    """The operand of a node with two that is not `value`."""
    first, second = site.input(0), site.input(1)
    return second if first is value else first


def before(value: Value | None, operators: Iterable[str], steps: int = 12) -> Value | None:
    """Walk back over nodes of these types, along their first input."""
    for _ in range(steps):
        if value is None or value.site is None or value.site.operator not in operators:
            break
        value = value.site.input(0)
    return value
