"""From NumPy trees to tensors and back: what goes into a model, and what comes out of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import numpy as np
import torch

from bnaudit.session import Output

_CAST = (torch.float32, torch.float64)
"""Dtypes of inputs that follow the model's: batches are kept in these, whatever the model computes in."""
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_DEEPEST = 32

Leaf = Callable[[object], object]


def dtype_name(dtype: torch.dtype) -> str:
    """`torch.bfloat16` -> `bfloat16`."""
    return str(dtype).removeprefix("torch.")


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as integers of the same width, so that NaN equals NaN and 0 is not -0; a view."""
    if tensor.dtype is torch.complex128:
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.view(_INTEGERS[tensor.element_size()])


def floating_dtype(modules: Iterable[torch.nn.Module]) -> torch.dtype | None:
    """The floating dtype that most elements of these modules' own parameters (else buffers) have, None without any."""
    modules = list(modules)
    for kind in ("parameters", "buffers"):
        elements: dict[torch.dtype, int] = {}
        for tensor in (tensor for module in modules for tensor in getattr(module, kind)(recurse=False)):
            if tensor.is_floating_point():
                elements[tensor.dtype] = elements.get(tensor.dtype, 0) + _size(tensor)
        if elements:
            return max(elements, key=lambda dtype: elements[dtype])
    return None


def _size(tensor: torch.Tensor) -> int:
    return 1 if torch.nn.parameter.is_lazy(tensor) else tensor.numel()


def mapped(tree: object, leaf: Leaf) -> object:
    """The tree of tuples, lists and dicts with `leaf` applied to everything else in it."""
    if isinstance(tree, tuple):
        items: list[Any] = [mapped(item, leaf) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    if isinstance(tree, list):
        return [mapped(item, leaf) for item in tree]
    if isinstance(tree, Mapping):
        return {key: mapped(item, leaf) for key, item in tree.items()}
    return leaf(tree)


def to_tensors(tree: object, device: str, floating: torch.dtype | None) -> object:
    """Copies of the tree's arrays as tensors: the model may write into them.

    float32 and float64 arrays get the dtype `floating`; other leaves are passed on.
    """

    def leaf(value: object) -> object:
        if isinstance(value, torch.Tensor):
            tensor = value.detach().clone()
        elif isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
            tensor = torch.from_numpy(np.array(value, dtype=value.dtype.newbyteorder("="), copy=True, order="C"))
        else:
            return value
        if floating is not None and tensor.dtype in _CAST:
            tensor = tensor.to(floating)
        return tensor.to(device)

    return mapped(tree, leaf)


def outputs(value: object) -> tuple[Output, ...]:
    """Every tensor in what a model returned, flattened in order; anything else is left out."""
    return tuple(_output(name, leaf) for name, leaf in leaves(value))


def leaves(value: object, name: str = "", depth: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a tree and their places, written as Python would: `[0]`, `['logits']`, `.hidden`."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        yield name, torch.from_numpy(np.array(value))
    elif depth < _DEEPEST:
        for suffix, item in _items(value):
            yield from leaves(item, name + suffix, depth + 1)


def _items(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):  # transformers' ModelOutput, too
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from ((f".{field}", getattr(value, field)) for field in cast("Any", value)._fields)
    elif isinstance(value, (tuple, list)):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from ((f".{field.name}", getattr(value, field.name)) for field in dataclasses.fields(value))


def _output(name: str, tensor: torch.Tensor) -> Output:
    dtype = dtype_name(tensor.dtype)
    return Output(name=name, values=to_array(tensor), dtype=dtype)


def to_array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """A copy on the host; what NumPy lacks (bfloat16, float8) is widened to float32, exactly."""
    tensor = tensor.detach()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_floating_point() and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
        tensor = tensor.float()
    tensor = tensor.resolve_conj().resolve_neg().cpu().clone(memory_format=torch.contiguous_format)
    return cast("np.ndarray[Any, Any]", tensor.numpy())
