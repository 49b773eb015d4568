"""Sessions without a framework: a function of the batch stands for the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from bnaudit.description import Carrier, GraphInput, Part
from bnaudit.records import Record
from bnaudit.session import Batch, Held, Mode, NotPossibleError, Pinned, RunError, Session, Trace, Watch
from bnaudit.variation import Variation

Shape = tuple[int | str | None, ...]


def takes(*shapes: Shape, dtype: str = "float32", names: str = "xyz") -> tuple[GraphInput, ...]:
    """A signature of unnamed floats."""
    return tuple(GraphInput(name=names[i], dtype=dtype, shape=shape) for i, shape in enumerate(shapes))


class FakeSession:
    """A Session that accepts what `accepts` accepts."""

    runner = "a function"
    has_production_form = False
    loaded: Record | None = None
    modes = frozenset({Mode.INFERENCE})
    remarks: tuple[str, ...] = ()

    def __init__(
        self,
        *signatures: tuple[GraphInput, ...],
        carrier: Carrier = Carrier.MODULE,
        accepts: Callable[[Batch], bool] = lambda batch: True,
        sample: Batch | None = None,
        fixed_batch: int | None = None,
        dims: Mapping[str, tuple[int, int | None]] | None = None,
    ) -> None:
        self.signatures, self.carrier, self.accepts = signatures, carrier, accepts
        self.part = Part(name="", carrier=carrier)
        self.sample, self.fixed_batch, self.dims = sample, fixed_batch, dict(dims or {})
        self.tried: list[Batch] = []

    def run(
        self,
        batch: Batch,
        mode: Mode = Mode.INFERENCE,
        watch: Watch = Watch.CALLS,
        *,
        restored: bool = True,
        seed: int | None = None,
        hold: tuple[Held, ...] = (),
        pin: tuple[Pinned, ...] = (),
    ) -> Trace:
        self.tried.append(batch)
        if not self.accepts(batch):
            raise RunError(f"attempt {len(self.tried)} does not fit")
        return Trace(outputs=())

    def trained(self) -> Part | None:
        return None

    def double(self) -> AbstractContextManager[Session]:
        raise NotPossibleError("there is no float64")

    def varied(self, variation: Variation) -> AbstractContextManager[Session]:
        raise NotPossibleError("nothing can be changed here")

    def influence(self, batch: Batch) -> float:
        raise NotPossibleError("there are no gradients")
