"""Everything that the recognizers of norm layers ask about one graph, in one place."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from bnaudit.description import StoredTensor
from bnaudit.reading.onnx.batch_axis import BatchAxes
from bnaudit.reading.onnx.constants import Constants
from bnaudit.reading.onnx.consumers import QUANTIZING, Consumers, before
from bnaudit.reading.onnx.dependence import Dependence
from bnaudit.reading.onnx.names import LayerNames
from bnaudit.reading.onnx.parameters import Parameters, stored_tensor
from bnaudit.reading.onnx.scope import Scope, Site, Value


class Analysis:
    """One graph under audit: its sites in execution order and the answers about them."""

    def __init__(self, main: Scope) -> None:
        self.main = main
        self.sites: list[Site] = []
        for site in walk(main):
            main.model.source.charge()
            self.sites.append(site)
        self.dependence = Dependence()
        self.constants = Constants(self.dependence)
        self.axes = BatchAxes(self.dependence, self.constants)
        self.consumers = Consumers(self.sites)
        self.parameters = Parameters(self.dependence, self.constants)
        self.names = LayerNames()

    def is_constant(self, value: Value | None) -> bool:
        """Whether the value is there and the same in every run."""
        return value is not None and self.dependence.is_constant(value)

    def rank(self, value: Value) -> int | None:
        """The number of axes, where the file declares it."""
        info = value.info
        return len(info.shape) if info is not None and info.shape is not None else None

    def size(self, value: Value | None, axis: int) -> int | None:
        """A fixed size that the file declares, or that the weight of the convolution before fixes."""
        if value is None:
            return None
        info = value.info
        if info is not None and info.shape is not None and -len(info.shape) <= axis < len(info.shape):
            size = info.shape[axis]
            return size if isinstance(size, int) else None
        source = before(value, QUANTIZING)
        site = source.site if source is not None else None
        weight = (
            before(site.input(1), QUANTIZING) if site is not None and site.operator == "Conv" and axis == 1 else None
        )
        tensor = stored_tensor(weight) if weight is not None else None
        return tensor.shape[0] if tensor is not None and tensor.shape else None


def walk(scope: Scope) -> Iterator[Site]:
    """All sites in execution order, through branches, loop bodies and called functions."""
    for site in scope.sites:
        callee = site.callee
        if callee is not None:
            yield from walk(callee)
            continue
        yield site
        for body in site.bodies.values():
            yield from walk(body)


def parameter_names(*tensors: StoredTensor | None) -> list[str]:
    """The stored names of the parameters that are there."""
    return [tensor.name for tensor in tensors if tensor is not None]


def decimal(value: float) -> float:
    """The shortest decimal that is the same 32-bit number: 1e-05, not 9.999999747378752e-06."""
    bits = struct.pack("<f", value)
    for digits in range(6, 10):
        candidate = float(f"{value:.{digits}g}")
        try:
            if struct.pack("<f", candidate) == bits:
                return candidate
        except OverflowError:
            continue
    return value
