"""Whether the block around a norm layer trains: a norm without weight and bias has no flags of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bnaudit.description import NormLayer
from bnaudit.reading.modules.objects import as_module
from bnaudit.reading.modules.tensors import ModuleTensors
from bnaudit.reading.modules.walk import Located
from bnaudit.records import replace


def with_blocks(layers: list[NormLayer], located: Sequence[Located], tensors: ModuleTensors) -> list[NormLayer]:
    """The layers, those without weight and bias with `block_requires_grad`.

    `located` are all modules of the model. Takes time in proportion to their number, however they are nested.
    """
    bare = {layer.name for layer in layers if _is_bare(layer) and layer.name}
    if not bare:
        return layers
    blocks = {entry.path: id(entry.module.call) for entry in located}
    trains = _Training(located, tensors)
    return [
        replace(layer, block_requires_grad=trains.below(blocks.get(layer.name.rpartition(".")[0])))
        if layer.name in bare
        else layer
        for layer in layers
    ]


def _is_bare(layer: NormLayer) -> bool:
    return layer.weight is None and layer.bias is None


class _Training:
    """Which modules have parameters that train, that do not, and of which it is unknown, in or below them."""

    def __init__(self, located: Sequence[Located], tensors: ModuleTensors) -> None:
        own: dict[bool | None, set[int]] = {True: set(), False: set(), None: set()}
        parents: dict[int, list[int]] = {}
        for entry in located:
            holder = id(entry.module.call)
            for flag in _flags(entry, tensors):
                own[flag].add(holder)
            for _, child in entry.module.section("_modules"):
                module = as_module(child)
                if module is not None:
                    parents.setdefault(id(module.call), []).append(holder)
        self._above = {flag: _above(holders, parents) for flag, holders in own.items()}

    def below(self, block: int | None) -> bool | None:
        """Whether a parameter in or below a module trains; None: unknown, or there is none."""
        if block in self._above[True]:
            return True
        return False if block in self._above[False] and block not in self._above[None] else None


def _flags(entry: Located, tensors: ModuleTensors) -> Iterable[bool | None]:
    refs = (tensors.ref(value) for _, value in entry.module.section("_parameters") if value is not None)
    return [ref.requires_grad if ref is not None else None for ref in refs]


def _above(holders: Iterable[int], parents: dict[int, list[int]]) -> set[int]:
    """The holders and all modules around them."""
    found: set[int] = set()
    waiting = list(holders)
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting.extend(parents.get(module, ()))
    return found
