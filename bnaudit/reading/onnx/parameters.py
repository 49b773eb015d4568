"""Parameters of norm layers: read exactly where they are stored, worked out where the graph computes them."""

from __future__ import annotations

from bnaudit.description import Gap, StoredTensor
from bnaudit.errors import CapExceededError, UnreadableError
from bnaudit.reading.onnx.constants import Constants, UnevaluableError
from bnaudit.reading.onnx.consumers import MOVING, before
from bnaudit.reading.onnx.dependence import Dependence
from bnaudit.reading.onnx.scope import Value
from bnaudit.reading.onnx.tensor import OnnxTensor, SparseTensor, widened
from bnaudit.reading.tensors.tensor_refs import stored


class Parameters:
    """Makes a StoredTensor of a value, each once, and keeps why one could not be read."""

    def __init__(self, dependence: Dependence, constants: Constants) -> None:
        self._dependence = dependence
        self._constants = constants
        self._known: dict[tuple[Value, bool], StoredTensor | None] = {}
        self._unread: dict[str, list[str]] = {}

    def stored(self, value: Value | None, *, flat: bool = False) -> StoredTensor | None:
        """The parameter; None when there is none, or when it is no constant.

        `flat`: a parameter that was shaped to be broadcast, (C, 1, 1), comes as (C,).
        """
        if value is None or not self._dependence.is_constant(value):
            return None
        key = (value, flat)
        if key not in self._known:
            self._known[key] = self._read(value, flat)
        return self._kept(value, self._known[key])

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """One for each reason, however many parameters it concerns."""
        return tuple(
            Gap(
                where=names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more",
                why=why,
                hides_norms=False,
            )
            for why, names in self._unread.items()
        )

    def _kept(self, value: Value, tensor: StoredTensor | None) -> StoredTensor | None:
        """The tensor without its values when the layers have too many together; one may stand in very many layers."""
        if tensor is None or tensor.values is None:
            return tensor
        try:
            value.scope.model.source.wire.source.keep(tensor.values.size)
        except CapExceededError as error:
            return self._missing(value, str(error))
        return tensor

    def _read(self, value: Value, flat: bool) -> StoredTensor:
        tensor = stored_tensor(value)
        if tensor is not None:
            found, why = stored(value.name, tensor)
            if why:
                self._unread.setdefault(why, []).append(value.name)
        else:
            found = self._evaluated(value)
        return _flattened(found) if flat else found

    def _evaluated(self, value: Value) -> StoredTensor:
        try:
            constant = self._constants.evaluate(value)
            array = widened(constant.array, constant.dtype).copy()
        except (UnevaluableError, UnreadableError) as error:
            return self._repeated(value) or self._missing(value, str(error))
        array.setflags(write=False)
        return StoredTensor(name=base_name(value), dtype=constant.dtype, shape=array.shape, values=array)

    def _repeated(self, value: Value) -> StoredTensor | None:
        """What is repeated as often as the batch is large, which no file says: the parameter before it is repeated."""
        base = before(value, ("Tile", "Identity"), steps=100)
        if base is None or base is value.origin() or (base.site is not None and base.site.operator == "Tile"):
            return None
        return self.stored(base)

    def _missing(self, value: Value, why: str) -> StoredTensor:
        self._unread.setdefault(why, []).append(value.name)
        info = value.info
        sizes = info.shape if info is not None and info.shape is not None else ()
        shape = tuple(size for size in sizes if isinstance(size, int))
        dtype = info.dtype if info is not None else "unknown"
        return StoredTensor(name=value.name, dtype=dtype, shape=shape, values=None, absence=why, unread=True)


def stored_tensor(value: Value) -> OnnxTensor | SparseTensor | None:
    """The initializer or Constant node that a value is, through nodes that only hand it on; else None."""
    origin = value.origin()
    if origin.tensor is not None:
        return origin.tensor
    site = origin.site
    if site is None or site.operator != "Constant":
        return None
    found = [site.attribute(name) for name in ("value", "sparse_value")]
    return next((attribute.tensor or attribute.sparse for attribute in found if attribute is not None), None)


def base_name(value: Value) -> str:
    """The name of the parameter whose numbers these are, its own when they were computed."""
    base = before(value, MOVING)
    return base.name if base is not None and stored_tensor(base) is not None else value.name


def _flattened(tensor: StoredTensor) -> StoredTensor:
    if tensor.values is None or sum(size != 1 for size in tensor.shape) > 1:
        return tensor
    flat = tensor.values.reshape(-1)
    return StoredTensor(
        name=tensor.name,
        dtype=tensor.dtype,
        shape=flat.shape,
        values=flat,
        absence=tensor.absence,
        unread=tensor.unread,
        requires_grad=tensor.requires_grad,
    )
