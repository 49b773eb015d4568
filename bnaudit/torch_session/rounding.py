"""A model computed in half precision, operator by operator.

Weights and inputs are rounded to float16 or bfloat16, every operator computes in the model's own precision on rounded
values, and its result is rounded: what tensor cores do, which multiply halves and add in float32. PyTorch 2.13's own
float16 convolutions take 22 times a float32 forward of a ResNet-50 on a CPU without AVX512-FP16. Not seen are places
where the model's code asks for float32 itself: they are rounded like the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from bnaudit.session import NotPossibleError

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
_FLAGS = ("training", "use_input_stats")
_RUNNING = ("running_mean", "running_var")


def rounding(dtype: str, is_state: Callable[[torch.Tensor], bool]) -> Rounding | None:
    """None for "". Raises NotPossibleError for a precision that is not known."""
    if not dtype:
        return None
    if dtype not in DTYPES:
        raise NotPossibleError(f"{dtype} is none of the precisions that can be tried ({', '.join(DTYPES)})")
    return Rounding(DTYPES[dtype], is_state)


class Rounding(TorchDispatchMode):
    """While it is entered, all operators compute on values of `dtype`.

    is_state: whether a tensor is a parameter or buffer, which is rounded where it is read and never written.
    """

    def __init__(self, dtype: torch.dtype, is_state: Callable[[torch.Tensor], bool]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtype = dtype
        self._is_state = is_state

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        schema = func._schema
        if _is_view(schema.returns):
            return func(*args, **named)
        kept = _written(schema.arguments, args, named)
        args = tuple(value if name in kept else self._read(value) for name, value in _named(schema.arguments, args))
        named = {name: value if name in kept else self._read(value) for name, value in named.items()}
        return self.rounded(func(*args, **named))

    def rounded(self, tree: Any) -> Any:
        """A tree's floating tensors, rounded in place."""
        return tree_map_only(torch.Tensor, self._round, tree)

    def _read(self, value: Any) -> Any:
        return tree_map_only(torch.Tensor, self._state_read, value)

    def _state_read(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._concerns(tensor) and self._is_state(tensor):
            return tensor.detach().to(self.dtype).to(tensor.dtype)
        return tensor

    def _round(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._concerns(tensor) and not self._is_state(tensor):
            tensor.copy_(tensor.to(self.dtype))
        return tensor

    def _concerns(self, tensor: torch.Tensor) -> bool:
        return tensor.is_floating_point() and tensor.dtype is not self.dtype and not tensor.is_meta


def _is_view(returns: Sequence[Any]) -> bool:
    """Whether it returns what it was given, seen otherwise: rounded already."""
    return any(one.alias_info is not None and not one.alias_info.is_write for one in returns)


def _named(arguments: Sequence[Any], args: Sequence[Any]) -> list[tuple[str, Any]]:
    return [(argument.name, value) for argument, value in zip(arguments, args, strict=False)]


def _written(arguments: Sequence[Any], args: Sequence[Any], named: Mapping[str, Any]) -> frozenset[str]:
    """Names of the arguments that the operator writes: norms in training form do not say so in their schemas."""
    values = {**dict(_named(arguments, args)), **named}
    said = [argument.name for argument in arguments if argument.alias_info is not None and argument.alias_info.is_write]
    trains = any(values.get(flag) is True for flag in _FLAGS)
    return frozenset([*said, *(_RUNNING if trains else ())])
