"""From the stand-ins of a torch pickle to tensors: what `torch._utils` would rebuild (PyTorch 0.4 to 2.13)."""

from __future__ import annotations

from collections.abc import Callable

from bnaudit.errors import MalformedError, UnreadableError
from bnaudit.reading.pickles.stand_ins import Call, Global, PickleDict
from bnaudit.reading.pickles.state import EmbeddedFile
from bnaudit.reading.tensors.numpy_arrays import numpy_tensor
from bnaudit.reading.tensors.strided_tensor import (
    AbsentTensor,
    Layout,
    StoragePart,
    Storages,
    StridedTensor,
    UnreadableTensor,
    is_extent,
    storage_part,
)
from bnaudit.reading.tensors.tensor_refs import TensorRef
from bnaudit.reading.tensors.zip_storages import ZipStorages

__all__ = ["Storages", "TorchTensors", "ZipStorages"]

_MOST_WRAPPINGS = 16
"""A parameter of a subclass of a device tensor is 3 deep."""
_MOST_AXES = 64
"""torch's own limit."""

_VARIABLES = frozenset(("torch.nn.parameter.Parameter", "torch.autograd.variable.Variable"))

Args = tuple[object, ...]


class TorchTensors:
    """Recognises the tensors among the stand-ins of one file."""

    __slots__ = ("_big_endian", "_storages")

    def __init__(self, storages: Storages, *, big_endian: bool = False) -> None:
        self._storages = storages
        self._big_endian = big_endian

    def tensor(self, value: object) -> TensorRef | None:
        """The tensor that a stand-in stands for, None when it stands for something else.

        NumPy arrays and scalars are tensors too. A tensor that is there and cannot be read is a ref whose `load`
        raises UnreadableError; nothing is read here.
        """
        return self._tensor(value, 0)

    def _tensor(self, value: object, depth: int) -> TensorRef | None:
        if not isinstance(value, Call) or not isinstance(value.callee, Global):
            return None
        callee = value.callee
        rebuild = _REBUILDERS.get(callee.name)
        if rebuild is None or not (callee.module.startswith("torch") or rebuild is TorchTensors._subclass):
            return self._variable(value, depth) if callee.full_name in _VARIABLES else numpy_tensor(value)
        if depth > _MOST_WRAPPINGS:
            return UnreadableTensor(MalformedError("a tensor wrapped in too many others"))
        return rebuild(self, value.args, depth + 1)

    def _plain(self, args: Args, depth: int) -> TensorRef:
        """(storage, offset, size, stride[, requires_grad, hooks[, metadata]])"""
        negated = len(args) > 6 and isinstance(args[6], PickleDict) and args[6].get("neg") is True
        return self._strided(args, None, negated)

    def _with_dtype(self, args: Args, depth: int) -> TensorRef:
        """(storage, offset, size, stride, requires_grad, hooks, dtype[, metadata])"""
        negated = len(args) > 7 and isinstance(args[7], PickleDict) and args[7].get("neg") is True
        return self._strided(args, _dtype(args, 6), negated)

    def _strided(self, args: Args, dtype: str | None, negated: bool) -> TensorRef:
        part, storages = _storage(args, self._storages)
        shape, strides, offset = _sizes(args, 2), _sizes(args, 3), args[1] if len(args) > 1 else None
        if part is None or shape is None or strides is None or not is_extent(offset):
            return UnreadableTensor(_why(args), shape=shape or ())
        return StridedTensor(
            storages,
            part,
            dtype or part.dtype,
            Layout(offset, shape, strides),
            requires_grad=_flag(args, 4),
            big_endian=self._big_endian and dtype is None,  # torch swaps typed storages only
            negated=negated,
        )

    def _parameter(self, args: Args, depth: int) -> TensorRef:
        """(data, requires_grad, hooks[, state])"""
        ref = self._inner(args[0] if args else None, depth)
        ref.requires_grad = _flag(args, 1)
        ref.is_parameter = True
        return ref

    def _variable(self, value: Call, depth: int) -> TensorRef:
        """Parameter(data) or Variable(data) with the state (requires_grad, volatile, hooks): before PyTorch 0.4."""
        if depth > _MOST_WRAPPINGS:
            return UnreadableTensor(MalformedError("a tensor wrapped in too many others"))
        ref = self._inner(value.args[0] if value.args else None, depth + 1)
        ref.requires_grad = _flag(value.state, 0) if isinstance(value.state, tuple) else None
        ref.is_parameter = value.callee_name.endswith("Parameter")
        return ref

    def _subclass(self, args: Args, depth: int) -> TensorRef:
        """(rebuild function, type, its arguments, state)"""
        inner = args[2] if len(args) > 2 else None
        if not isinstance(inner, tuple):
            return UnreadableTensor(MalformedError("a tensor subclass without arguments"))
        ref = self._inner(Call(args[0], inner), depth)
        if isinstance(args[1], Global) and args[1].name == "Parameter":
            ref.is_parameter = True
        return ref

    def _inner(self, value: object, depth: int) -> TensorRef:
        return self._tensor(value, depth) or UnreadableTensor(
            UnreadableError("a tensor of a class that is not read", remedy="save it as a plain torch.Tensor")
        )

    def _meta(self, args: Args, depth: int) -> TensorRef:
        """(dtype, size, stride, requires_grad)"""
        return AbsentTensor(
            _dtype(args, 0),
            _sizes(args, 1) or (),
            requires_grad=_flag(args, 3),
            is_parameter=False,
            absence="it is on the meta device, which holds no values",
        )

    def _device(self, args: Args, depth: int) -> TensorRef:
        """(data, dtype, device, requires_grad)"""
        ref = self._inner(args[0] if args else None, depth)
        ref.requires_grad = _flag(args, 3)
        ref.is_parameter = False
        return ref

    def _uninitialized(self, args: Args, depth: int) -> TensorRef:
        """(requires_grad,): a parameter or buffer of a lazy module"""
        return AbsentTensor(
            "uninitialized",
            (),
            requires_grad=_flag(args, 0),
            absence="its lazy layer has not seen an input yet",
        )

    def _quantized(self, args: Args, depth: int) -> TensorRef:
        """(storage, offset, size, stride, quantizer, requires_grad, hooks)"""
        part, _ = _storage(args, self._storages)
        dtype = part.dtype if part else "unknown"
        return _unread("a quantized tensor", dtype, _sizes(args, 2), _flag(args, 5))

    def _sparse(self, args: Args, depth: int) -> TensorRef:
        """(layout, (indices, values, size[, coalesced]))"""
        data = args[1] if len(args) > 1 else None
        shape = next((s for s in map(_as_sizes, data) if s is not None), None) if isinstance(data, tuple) else None
        return _unread("a sparse tensor", "unknown", shape, None)

    def _nested(self, args: Args, depth: int) -> TensorRef:
        """(buffer, sizes, strides, offsets)"""
        return _unread("a nested tensor", "unknown", None, None)

    def _wrapper(self, args: Args, depth: int) -> TensorRef:
        """(class, dtype, size, stride, offset, layout, device, requires_grad)"""
        return _unread("a tensor of a wrapper class", _dtype(args, 1), _sizes(args, 2), _flag(args, 7))


_REBUILDERS: dict[str, Callable[[TorchTensors, Args, int], TensorRef]] = {
    "_rebuild_tensor": TorchTensors._plain,
    "_rebuild_tensor_v2": TorchTensors._plain,
    "_rebuild_tensor_v3": TorchTensors._with_dtype,
    "_rebuild_parameter": TorchTensors._parameter,
    "_rebuild_parameter_with_state": TorchTensors._parameter,
    "_rebuild_from_type": TorchTensors._subclass,
    "_rebuild_from_type_v2": TorchTensors._subclass,
    "_rebuild_meta_tensor_no_storage": TorchTensors._meta,
    "_rebuild_device_tensor_from_numpy": TorchTensors._device,
    "_rebuild_device_tensor_from_cpu_tensor": TorchTensors._device,
    "_rebuild_xla_tensor": TorchTensors._device,
    "_rebuild_qtensor": TorchTensors._quantized,
    "_rebuild_sparse_tensor": TorchTensors._sparse,
    "_rebuild_sparse_csr_tensor": TorchTensors._sparse,
    "_rebuild_nested_tensor": TorchTensors._nested,
    "_rebuild_wrapper_subclass": TorchTensors._wrapper,
    "UninitializedParameter": TorchTensors._uninitialized,
    "UninitializedBuffer": TorchTensors._uninitialized,
}
# Not of the instances: a reader that held its own methods would live, with the archive, until garbage is collected.


def _unread(what: str, dtype: str, shape: tuple[int, ...] | None, requires_grad: bool | None) -> TensorRef:
    why = UnreadableError(f"{what} is not read", remedy="save norm layers as plain dense tensors")
    return UnreadableTensor(why, dtype, shape or (), requires_grad)


def _why(args: Args) -> UnreadableError:
    """Why rebuild arguments are no tensor: the embedded file that holds the storage says it best."""
    if args and isinstance(args[0], EmbeddedFile) and args[0].error is not None:
        return args[0].error
    return MalformedError("a tensor whose storage, sizes or strides are not what torch writes")


def _storage(args: Args, storages: Storages) -> tuple[StoragePart | None, Storages]:
    """The storage that a rebuild function is given first, and where its bytes are."""
    value = args[0] if args else None
    if isinstance(value, EmbeddedFile):
        if value.storages is not None:
            return storage_part(value.root), value.storages
        return None, storages
    return storage_part(value), storages


def _sizes(args: Args, position: int) -> tuple[int, ...] | None:
    return _as_sizes(args[position]) if position < len(args) else None


def _as_sizes(value: object) -> tuple[int, ...] | None:
    """Sizes or strides: a tuple of integers, bare or in a torch.Size; None when it is none or absurd."""
    if isinstance(value, Call) and value.callee_name == "torch.Size" and len(value.args) == 1:
        value = value.args[0]
    if not isinstance(value, (tuple, list)) or len(value) > _MOST_AXES:
        return None
    for size in value:
        if not is_extent(size):
            return None
    return tuple(value)


def _flag(args: Args, position: int) -> bool | None:
    value = args[position] if position < len(args) else None
    return value if isinstance(value, bool) else None


def _dtype(args: Args, position: int) -> str:
    value = args[position] if position < len(args) else None
    return value.name if isinstance(value, Global) and value.module == "torch" else "unknown"
