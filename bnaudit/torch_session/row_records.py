"""Fingerprints of what every operator got and returned, sample by sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from bnaudit.session import OperatorCall, Pinned, Place
from bnaudit.torch_session.fingerprints import Fingerprints, combined
from bnaudit.torch_session.module_names import LayerNames
from bnaudit.torch_session.operators import Operator
from bnaudit.torch_session.origins import Origins
from bnaudit.torch_session.pinning import pinned
from bnaudit.torch_session.row_layouts import RowLayouts, tensors_in

Run = Callable[[], tuple[Any, Any, "int | None"]]


class RowRecords:
    """The operator calls of one forward. Parameters, buffers and looks into them are no input of a sample."""

    def __init__(
        self, names: LayerNames, size: int, anchors: tuple[int, ...], axis: int, pin: Iterable[Pinned] = ()
    ) -> None:
        self._names = names
        self._layouts = RowLayouts(max(1, size), axis)
        self._prints = Fingerprints(anchors)
        self._origins = Origins(self._layouts)
        self._pin = {each.index: each for each in pin}
        self.calls: list[OperatorCall] = []
        self.pinned: list[Pinned] = []

    def run(self, known: Operator, args: Sequence[Any], kwargs: Mapping[str, Any], place: Place, call: Run) -> Any:
        """Run one operator by `call` and record it."""
        inputs = [tensor for tensor in tensors_in((*args, *kwargs.values())) if not self._names.is_state(tensor)]
        placed = [self._layouts.placed(tensor) for tensor in inputs]
        if known.is_view or not inputs:
            returned = call()[0]
            self._layouts.learn(known, known.read(args, kwargs), placed, returned)
            self._origins.learn(known, inputs, placed, tensors_in(returned), place)
            self._tear(inputs, returned, place)
            return returned
        rows_in, others_in = self._prints_of(inputs)
        numbers = [hash(value) for value in _plain_values((*args, *kwargs.values()))]
        values = known.read(args, kwargs)
        gathered, arranged = self._origins.of(inputs, placed)
        returned, plain, norm = call()
        self._prints.forget(tensors_in([values.get(name) for name in known.written]))
        self._layouts.learn(known, values, placed, returned)
        if plain is not returned:
            self._layouts.learn(known, values, placed, plain)
        outputs = self._outputs(known, values, plain, norm)
        self._origins.learn(known, inputs, placed, outputs, place)
        rows_out, others_out = self._prints_of(outputs)
        if (pin := self._pin.get(len(self.calls))) is not None and norm is None:
            self.pinned.extend(pinned(pin, [(each, self._layouts.of(each)) for each in outputs], self._prints))
            self._prints.forget(outputs)  # below autograd no version is raised
        self.calls.append(
            OperatorCall(
                index=len(self.calls),
                place=place,
                rows_in=rows_in,
                others_in=combined([*others_in, *numbers]),
                rows_out=rows_out,
                others_out=combined(others_out) if others_out else None,
                norm=norm,
                gathered=gathered,
                arranged=arranged,
            )
        )
        return returned

    def _tear(self, inputs: list[torch.Tensor], result: Any, place: Place) -> None:
        """Record a view that no longer has the samples in one piece although its shape says that it has."""
        promised = self._layouts.promised(result) if isinstance(result, torch.Tensor) else None
        if promised is None or self._layouts.of(result) is not None:
            return
        rows_in, others_in = self._prints_of(inputs)
        if rows_in is not None:
            self.calls.append(
                OperatorCall(
                    index=len(self.calls),
                    place=place,
                    rows_in=rows_in,
                    others_in=combined(others_in),
                    rows_out=self._prints.rows(result, promised),
                    others_out=None,
                )
            )

    def _outputs(self, known: Operator, values: Mapping[str, Any], result: Any, norm: int | None) -> list[torch.Tensor]:
        """What it returned and what it wrote to; of a norm the output alone, not the statistics that it saves."""
        if norm is not None and isinstance(result, tuple):
            return [result[0]]
        written = tensors_in([values.get(name) for name in known.written])
        found = {id(tensor): tensor for tensor in (*tensors_in(result), *written)}
        return [tensor for tensor in found.values() if not self._names.is_state(tensor)]

    def _prints_of(self, tensors: Iterable[torch.Tensor]) -> tuple[tuple[int, ...] | None, list[int]]:
        rows: list[tuple[int, ...]] = []
        others: list[int] = []
        for tensor in tensors:
            layout = None if tensor.is_nested else self._layouts.of(tensor)
            if layout is None:
                others.append(self._prints.whole(tensor))
            else:
                rows.append(self._prints.rows(tensor, layout))
        if not rows:
            return None, others
        if len(rows) == 1:
            return rows[0], others
        return tuple(combined(anchor) for anchor in zip(*rows, strict=True)), others


def _plain_values(tree: object) -> Iterable[object]:
    """Numbers among the arguments: one that was read out of an activation is an input, too."""
    if isinstance(tree, (bool, int, float, complex)):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            yield from _plain_values(item)
