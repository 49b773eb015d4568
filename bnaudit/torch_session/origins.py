"""Where activations lost the order of samples that their shapes promise: by a reduction, or by a reshape."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence

import torch

from bnaudit.session import Place
from bnaudit.torch_session.layouts import WHOLE, Layout
from bnaudit.torch_session.operators import Operator
from bnaudit.torch_session.row_layouts import Placed, RowLayouts


class Origins:
    """Of the tensors of one forward: the operator that made one without rows from rows, or that laid the samples
    along another axis than the one that has their number. What is computed from such tensors alone inherits it, but
    that a reduction says more than the view that it works on."""

    def __init__(self, layouts: RowLayouts) -> None:
        self._layouts = layouts
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], Place]] = {}
        self._views: set[Place] = set()

    def of(self, inputs: Sequence[torch.Tensor], placed: Sequence[Placed]) -> tuple[Place | None, Place | None]:
        """Of an operator's inputs before it runs: the first origin of those without rows, and of those with rows."""
        pairs = list(zip(inputs, placed, strict=True))
        without = (self._origin(tensor) for tensor, where in pairs if where.layout is None)
        rearranged = (self._origin(tensor) for tensor, where in pairs if where.layout is not None)
        return next(filter(None, without), None), next(filter(None, rearranged), None)

    def learn(
        self,
        known: Operator,
        inputs: Sequence[torch.Tensor],
        placed: Sequence[Placed],
        outputs: Iterable[torch.Tensor],
        place: Place,
    ) -> None:
        """`placed`: the inputs before the operator at `place` ran."""
        gathered, arranged = self.of(inputs, placed)
        if known.is_view:
            self._views.add(place)
        rows = any(where.layout is not None for where in placed) or (known.reduces and gathered in self._views)
        for output in outputs:
            layout = None if output.is_nested else self._layouts.of(output)
            if layout is None:
                origin = place if rows else gathered
            else:
                origin = (arranged or place) if self._is_elsewhere(layout, output) else None
            if origin is not None:
                self._known[id(output)] = (weakref.ref(output), origin)

    def _is_elsewhere(self, layout: Layout, tensor: torch.Tensor) -> bool:
        if layout.dim == WHOLE or layout.samples == 1:
            return False
        expected = self._layouts.guess(tensor.shape)
        return expected is not None and expected.dim != layout.dim

    def _origin(self, tensor: torch.Tensor) -> Place | None:
        entry = self._known.get(id(tensor))
        return entry[1] if entry is not None and entry[0]() is tensor else None
