"""Which layer of the folded side is which: by name, by order among layers of one shape, by the weights' directions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from bnaudit.comparison import LinearLayer
from bnaudit.errors import UnreadableError
from bnaudit.folding.permutation import row_signatures
from bnaudit.folding.rows import Form, by_output, forms, grouped, sizes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_NEAR = 1e-2
"""Median distance of two layers' signatures; unrelated ones are about 1 apart."""

Names = Sequence[tuple[LinearLayer, tuple[str, ...]]]
"""Layers with the names that each may have on the other side."""


class Counterparts:
    """Answers for the layers of one side."""

    def __init__(self, own: Names, others: Sequence[LinearLayer], other_names: Sequence[str]) -> None:
        self._named: dict[int, LinearLayer] = {}
        self._found: dict[int, LinearLayer] = {}
        self._others = others
        self._signatures: dict[tuple[int, int, bool], Array | None] = {}
        by_name = dict(zip(other_names, others, strict=True))
        for layer, names in own:
            other = next((by_name[name] for name in names if name in by_name), None)
            if other is not None and alike(layer, other):
                self._named[id(layer)] = other
        self._found.update(self._named)
        self._found.update(self._in_order([layer for layer, _ in own]))

    def of(self, own: LinearLayer) -> LinearLayer | None:
        """By name, else by order; it may be another one all the same."""
        return self._found.get(id(own))

    def by_name(self, own: LinearLayer) -> bool:
        """Whether the answer has the same name."""
        return self._found.get(id(own)) is self._named.get(id(own)) and id(own) in self._named

    def alike(self, own: LinearLayer, channels: int) -> LinearLayer | None:
        """The one layer whose rows point where this one's do; None when none or several do. Raises UnreadableError."""
        import numpy as np

        near = []
        for other in self._others:
            for form in forms(own, other, channels) if alike(own, other) else ():
                one, two = self._signature(own, form), self._signature(other, form)
                if one is None or two is None or one.shape != two.shape:
                    continue
                live = one.any(axis=1) & two.any(axis=1)
                if live.any() and float(np.median(abs(one - two)[live].max(axis=1))) < _NEAR:
                    near.append(other)
        unique = list({id(other): other for other in near}.values())
        return unique[0] if len(unique) == 1 else None

    def _in_order(self, own: Sequence[LinearLayer]) -> Iterator[tuple[int, LinearLayer]]:
        """Layers of one shape that are left on both sides, when there are as many on both."""
        taken = {id(other) for other in self._named.values()}
        ours: dict[tuple[object, ...], list[LinearLayer]] = defaultdict(list)
        theirs: dict[tuple[object, ...], list[LinearLayer]] = defaultdict(list)
        for layer in own:
            if id(layer) not in self._named:
                ours[sizes(layer)].append(layer)
        for layer in self._others:
            if id(layer) not in taken:
                theirs[sizes(layer)].append(layer)
        for shape, layers in ours.items():
            if len(layers) == len(theirs.get(shape, ())):
                yield from ((id(one), other) for one, other in zip(layers, theirs[shape], strict=True))

    def _signature(self, layer: LinearLayer, form: Form) -> Array | None:
        key = (id(layer), form.groups, form.transposed)
        if key not in self._signatures:
            try:
                self._signatures[key] = row_signatures(by_output(grouped(layer, form)))
            except UnreadableError:
                self._signatures[key] = None
        return self._signatures[key]


def alike(own: LinearLayer, other: LinearLayer) -> bool:
    """Whether two layers may be the same one: sizes and kind agree, as far as they are said."""
    kinds = own.operator is None or other.operator is None or own.operator == other.operator
    return kinds and sizes(own) == sizes(other)
