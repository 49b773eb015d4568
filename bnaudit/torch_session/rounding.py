"""A model computed in half precision, operator by operator.

Weights and inputs are rounded to float16 or bfloat16, every operator computes in the model's own precision on rounded
values, and its result is rounded: what tensor cores do, which multiply halves and add in float32. PyTorch 2.13's own
float16 convolutions take 22 times a float32 forward of a ResNet-50 on a CPU without AVX512-FP16. Not seen are places
where the model's code asks for float32 itself: they are rounded like the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

from bnaudit.session import NotPossibleError

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
_FLAGS = ("training", "use_input_stats")
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_RUNNING = ("running_mean", "running_var")


def rounding(dtype: str, is_state: Callable[[torch.Tensor], bool]) -> Rounding | None:
    """None for "". Raises NotPossibleError for a precision that is not known."""
    if not dtype:
        return None
    if dtype not in DTYPES:
        raise NotPossibleError(f"{dtype} is none of the precisions that can be tried ({', '.join(DTYPES)})")
    return Rounding(DTYPES[dtype], is_state)


class Rounding(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is entered, all operators compute on values of `dtype`.

    is_state: whether a tensor is a parameter or buffer, which is rounded where it is read and never written.
    """

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled under it; the guard against it imports the compiler, most of a second's worth."""
        return False

    def __init__(self, dtype: torch.dtype, is_state: Callable[[torch.Tensor], bool]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtype = dtype
        self._is_state = is_state

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = kwargs or _NOTHING
        if isinstance(func, HigherOrderOperator):
            return func(*map(self._looked_into, args), **named)
        schema = func._schema
        if _is_view(schema.returns):
            return func(*args, **named)
        kept = _written(schema.arguments, args, named)
        given = [
            value if argument.name in kept else self._read(value)
            for argument, value in zip(schema.arguments, args, strict=False)
        ]
        return self.rounded(
            func(*given, **{name: value if name in kept else self._read(value) for name, value in named.items()})
        )

    def rounded(self, value: Any) -> Any:
        """The floating tensors of a tree, rounded in place."""
        if isinstance(value, torch.Tensor):
            if self._concerns(value) and not self._is_state(value):
                value.copy_(value.to(self.dtype))
        elif isinstance(value, Mapping):
            for item in value.values():
                self.rounded(item)
        elif isinstance(value, (tuple, list)):
            for item in value:
                self.rounded(item)
        return value

    def _read(self, value: Any) -> Any:
        """An argument with parameters and buffers rounded."""
        if isinstance(value, torch.Tensor):
            is_wide = self._concerns(value) and self._is_state(value)
            return value.detach().to(self.dtype).to(value.dtype) if is_wide else value
        if isinstance(value, (tuple, list)):
            return type(value)(map(self._read, value))
        return value

    def _concerns(self, tensor: torch.Tensor) -> bool:
        return tensor.is_floating_point() and tensor.dtype is not self.dtype and not tensor.is_meta

    def _looked_into(self, value: Any) -> Any:
        """A function that an operator calls rounds, too."""
        if not callable(value) or isinstance(value, torch.Tensor):
            return value

        @functools.wraps(value)
        def rounding(*args: Any, **kwargs: Any) -> Any:
            with self:
                return value(*args, **kwargs)

        return rounding


def _is_view(returns: Sequence[Any]) -> bool:
    """Whether it returns what it was given, seen otherwise: rounded already."""
    return any(one.alias_info is not None and not one.alias_info.is_write for one in returns)


def _written(arguments: Sequence[Any], args: Sequence[Any], named: Mapping[str, Any]) -> frozenset[str]:
    """Names of the arguments that the operator writes: norms in training form do not say so in their schemas."""
    said = [argument.name for argument in arguments if argument.alias_info is not None and argument.alias_info.is_write]
    given = ((argument.name, value) for argument, value in zip(arguments, args, strict=False))
    trains = any(value is True and name in _FLAGS for name, value in (*given, *named.items()))
    return frozenset([*said, *(_RUNNING if trains else ())])
