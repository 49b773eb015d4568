"""A variation in plain PyTorch: what as_in_production() does to a model that was loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bnaudit.description import NormLayer, Part
from bnaudit.reproduction.quoted import literal
from bnaudit.variation import Altered, Variation

_TENSORS = {"mean": "running_mean", "var": "running_var", "gamma": "weight", "beta": "bias"}


class VariationCode:
    """The lines, and the arrays that they read from production.npz: as few as possible."""

    def __init__(self, variation: Variation, part: Part) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self._layers = {layer.name: layer for layer in part.layers}
        groups: dict[tuple[str, ...], list[str]] = {}
        for name, altered in variation.layers.items():
            groups.setdefault(tuple(self._statements(name, altered)), []).append(name)
        lines = [line for statements, names in groups.items() for line in _loop(names, statements)]
        if variation.dtype:
            lines.append(f"    model.to(torch.{variation.dtype})")
        self._body = lines

    @property
    def lines(self) -> list[str]:
        """The body of the function."""
        found = []
        if any("norms[" in line or "norm." in line for line in self._body):
            found.append("    norms = dict(model.named_modules())")
        if any("before[" in line for line in self._body):
            found.append("    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}")
        if self.arrays:
            found.append('    state = np.load(HERE / "production.npz")')
        return [*found, *self._body] or ["    # nothing in the model itself"]

    def _statements(self, name: str, altered: Altered) -> Iterator[str]:
        if altered.training:
            yield "norm.train()"
        if altered.eps is not None:
            yield f"norm.eps = {literal(altered.eps)}"
        for field, tensor in _TENSORS.items():
            values = getattr(altered, field)
            if values is not None and not _is_own(self._layers.get(name), field, values):
                yield self._assigned(field, tensor, values)

    def _assigned(self, field: str, tensor: str, values: NDArray[np.float64]) -> str:
        if values.size and (values == values.flat[0]).all():
            return f"norm.{tensor}.fill_({literal(float(values.flat[0]))})"
        source = self._stored_as(values)
        if source is not None:
            return f"norm.{tensor}.copy_(before[{literal(source)}])"
        key = f"layer_{len(self.arrays)}_{tensor}"
        self.arrays[key] = values
        return f"norm.{tensor}.copy_(torch.from_numpy(state[{literal(key)}]))"

    def _stored_as(self, values: NDArray[np.float64]) -> str | None:
        """The name of the model's own tensor that has these values, of whatever layer."""
        for name, layer in self._layers.items():
            for field, tensor in _TENSORS.items():
                if _is_own(layer, field, values):
                    return f"{name}.{tensor}" if name else tensor
        return None


def _is_own(layer: NormLayer | None, field: str, values: NDArray[np.float64]) -> bool:
    own = None if layer is None else getattr(layer, field)
    return own is not None and np.array_equal(own, values)


def _loop(names: list[str], statements: tuple[str, ...]) -> Iterator[str]:
    if not statements:
        return
    yield f"    for name in {literal(names)}:"
    yield "        norm = norms[name]"
    yield from (f"        {statement}" for statement in statements)
