"""A tensor that is known and not yet read, whatever container holds it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import prod
from typing import TYPE_CHECKING

from bnaudit.description import StoredTensor
from bnaudit.errors import MalformedError, UnreadableError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


LARGEST = 1 << 48
"""Sizes, strides and offsets from here on do not fit the address space once they count bytes."""
MOST_AXES = 32
"""Of an array in NumPy 1; NumPy 2 has 64."""


def check_extents(shape: tuple[int, ...]) -> None:
    """Raise MalformedError for a shape that NumPy gives no array, not even where one of the sizes is 0."""
    if len(shape) > MOST_AXES or prod([size or 1 for size in shape]) >= LARGEST:
        raise MalformedError(f"a tensor of {len(shape)} absurd sizes")


class TensorRef(ABC):
    """Where a tensor is. Making one costs nothing; `load` reads exactly its values.

    `dtype` is PyTorch's name without `torch.` (`float32`, `bfloat16`, `int64`, `float8_e4m3fn`).
    `absence` says why there are no values at all (meta device); "" when there are some.
    `identity` is equal for two refs that share one storage or object, so that aliases can be seen.
    """

    __slots__ = ("absence", "dtype", "identity", "is_parameter", "requires_grad", "shape")

    def __init__(
        self,
        dtype: str,
        shape: tuple[int, ...],
        *,
        requires_grad: bool | None = None,
        is_parameter: bool | None = None,
        absence: str = "",
        identity: object = None,
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.requires_grad = requires_grad
        self.is_parameter = is_parameter
        self.absence = absence
        self.identity = identity

    @abstractmethod
    def load(self) -> NDArray[np.float64] | NDArray[np.int64]:
        """The values in `shape`: float64 for floating dtypes (exact), int64 for integer and bool ones.

        Raises UnreadableError (a subclass) when the bytes are not there or the dtype is not a plain one.
        """


def stored(name: str, ref: TensorRef) -> tuple[StoredTensor, str]:
    """Read one norm tensor. The second value is the reason it could not be read, "" when it was or has no values."""
    values, why = None, ""
    if not ref.absence:
        try:
            values = ref.load()
            values.setflags(write=False)
        except UnreadableError as error:
            why = str(error)
    tensor = StoredTensor(
        name=name,
        dtype=ref.dtype,
        shape=ref.shape,
        values=values,
        absence=ref.absence or why,
        unread=bool(why),
        requires_grad=ref.requires_grad,
    )
    return tensor, why
