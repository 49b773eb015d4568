"""Live tensors as the reader of pickled modules takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch

from bnaudit.description import StoredTensor
from bnaudit.errors import UnreadableError
from bnaudit.reading.pickles.stand_ins import Call, Global
from bnaudit.reading.tensors.tensor_refs import TensorRef, stored
from bnaudit.torch_session.tensors import dtype_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_REBUILD = Global("torch._utils", "_rebuild_tensor_v2")


class LiveTensor(Call):
    """Stands for a tensor."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(_REBUILD, ())
        self.tensor = tensor


class LiveRef(TensorRef):
    """A live tensor; `load` copies its values."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        lazy = torch.nn.parameter.is_lazy(tensor)
        absence = "it gets its size and values in the first forward" if lazy else ""
        absence = "it is on the meta device" if not lazy and tensor.is_meta else absence
        super().__init__(
            "uninitialized" if lazy else dtype_name(tensor.dtype),
            () if lazy else tuple(tensor.shape),
            requires_grad=tensor.requires_grad,
            is_parameter=isinstance(tensor, torch.nn.Parameter),
            absence=absence,
            identity=None if absence or tensor.layout is not torch.strided else (tensor.data_ptr(), tensor.shape),
        )
        self._tensor = tensor

    def load(self) -> NDArray[np.float64] | NDArray[np.int64]:
        """The values; see TensorRef. Raises UnreadableError for complex and packed ones."""
        tensor = self._tensor.detach()
        if tensor.is_complex() or tensor.is_quantized:
            raise UnreadableError(f"a {dtype_name(tensor.dtype)} tensor in a norm layer")
        tensor = tensor.to_dense() if tensor.layout is not torch.strided else tensor
        wide = tensor.to("cpu", torch.float64 if tensor.is_floating_point() else torch.int64, copy=True)
        return cast("NDArray[np.float64]", wide.contiguous().numpy())


class LiveTensors:
    """Recognises the stand-ins of live tensors."""

    def tensor(self, value: object) -> TensorRef | None:
        """The tensor that a stand-in stands for, None when it stands for something else."""
        return LiveRef(value.tensor) if isinstance(value, LiveTensor) else None


def stored_tensor(name: str, tensor: torch.Tensor) -> StoredTensor:
    """A tensor of a norm layer under its stored name."""
    return stored(name, LiveRef(tensor))[0]
