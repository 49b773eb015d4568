"""Which of the model's inputs a value depends on, by their values and not only by their shapes."""

from __future__ import annotations

from bnaudit.errors import CapExceededError
from bnaudit.reading.onnx.scope import Value

_SHAPE_ONLY = {"Shape", "Size", "EyeLike"}
_RANDOM = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli"}
_NOTHING: frozenset[str] = frozenset()
_CHANCE = frozenset(("",))
_MOST_NAMES = 20_000_000
"""Names in all the sets together: what keeps a graph of very many inputs within memory."""


class Dependence:
    """Walks back from values; every value of a graph is visited once, however often one asks."""

    def __init__(self) -> None:
        self._known: dict[Value, frozenset[str]] = {}
        self._names = 0

    def roots(self, value: Value) -> frozenset[str]:
        """Names of the declared inputs whose values reach this one; "" stands for a random generator.

        Shape and Size end the walk, and so does an initializer that also stands in the graph's inputs.
        """
        known = self._known
        if value.tensor is not None or value in known:
            return known.get(value, _NOTHING)
        pending: dict[Value, list[Value]] = {}
        stack = [value]
        while stack:
            current = stack[-1]
            if current in known:
                stack.pop()
            elif current in pending:
                known[current] = self._union([known.get(before, _NOTHING) for before in pending.pop(current)])
            elif current.is_model_input:
                known[current] = frozenset((current.name,))
            elif current.site is not None and current.site.operator in _RANDOM:
                known[current] = _CHANCE
            else:
                pending[current] = _sources(current)
                stack += [before for before in pending[current] if before not in known and before not in pending]
        return known[value]

    def uses_inputs(self, value: Value) -> bool:
        """Whether the values of a declared input reach it."""
        return bool(self.roots(value) - _CHANCE)

    def is_constant(self, value: Value) -> bool:
        """Whether it is the same in every run, whatever values the inputs have."""
        return not self.roots(value)

    def _union(self, sets: list[frozenset[str]]) -> frozenset[str]:
        largest = max(sets, key=len, default=_NOTHING)
        if all(entry is largest or entry <= largest for entry in sets):
            return largest
        joined = largest.union(*sets)
        self._names += len(joined)
        if self._names > _MOST_NAMES:
            raise CapExceededError("too many inputs that depend on one another", cap="graph_nodes")
        return joined


def _sources(value: Value) -> list[Value]:
    """The values that it is computed from."""
    site = value.site
    if site is None:
        caller = value.scope.caller
        return [] if value.tensor is not None or caller is None else caller.inputs
    if site.operator in _SHAPE_ONLY:
        return []
    if site.operator == "CastLike":
        return site.inputs[:1]
    results = [body.value(name) for body in site.bodies.values() for name in body.body.outputs]
    return site.inputs + [result for result in results if result is not None]
