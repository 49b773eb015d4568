"""What a module takes, guessed from its forward's parameters and its first layers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

from bnaudit.description import GraphInput, Part
from bnaudit.records import replace
from bnaudit.torch_session.tensors import dtype_name, floating_dtype
from bnaudit.torch_session.wrappers import unwrapped

Shape = tuple[int | str | None, ...]

_MOST = 6
_SPACE = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}
_IDS = re.compile(r"(^|_)(ids?|tokens?|indices|index)$")
_MASK = re.compile(r"mask")
_COUNTS = re.compile(r"^(lengths?|lens?|timesteps?|t|steps?)$")


def guesses(model: nn.Module) -> tuple[tuple[GraphInput, ...], ...]:
    """Signatures of a module, likeliest first; none when nothing in it tells."""
    inner = unwrapped(model)
    names = _required(inner.forward)
    floating = floating_dtype(inner.modules())
    dtype = dtype_name(floating) if floating is not None else "float32"
    found = [_signature(names, first, dtype) for first in _candidates(inner)]
    return tuple(dict.fromkeys(found))[:_MOST]


def script_guesses(model: nn.Module, part: Part) -> tuple[tuple[GraphInput, ...], ...]:
    """Signatures of a TorchScript module: its parameters as declared, shapes from the first layers that fit."""
    schema = getattr(getattr(model, "forward", None), "schema", None)
    if schema is None:
        return (part.inputs,) if part.inputs else ()
    known = {declared.name: declared for declared in part.inputs}
    scalars = {"int": "int64", "float": "float32", "bool": "bool"}
    names: list[tuple[str, str]] = []
    for argument in schema.arguments[1:]:
        kind = str(argument.type)
        if argument.has_default_value() or (kind != "Tensor" and kind not in scalars):
            continue
        names.append((argument.name, kind))
    found = []
    candidates: list[tuple[Shape | None, bool]] = [*_candidates(model)] or [(None, False)]
    for shape, is_ids in candidates:
        signature = []
        for position, (name, kind) in enumerate(names):
            if kind != "Tensor":
                signature.append(GraphInput(name=name, dtype=scalars[kind], shape=()))
                continue
            declared = known.get(name) or GraphInput(name=name, dtype="unknown", shape=None)
            signature.append(_filled(declared, shape, is_ids, position))
        found.append(tuple(signature))
    return tuple(dict.fromkeys(found))[:_MOST]


def _filled(declared: GraphInput, shape: Shape | None, is_ids: bool, position: int) -> GraphInput:
    fits = shape is not None and (declared.shape is None or len(declared.shape) == len(shape))
    dtype = declared.dtype
    if dtype == "unknown":
        dtype = "int64" if is_ids and position == 0 else "float32"
    return replace(declared, dtype=dtype, shape=shape if fits else declared.shape)


def _required(forward: Callable[..., Any]) -> list[str]:
    """The parameters that a call must give; the first one where all are optional."""
    try:
        parameters = list(inspect.signature(forward).parameters.values())
    except (TypeError, ValueError):  # a forward written in C
        return ["input"]
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    required = [p.name for p in named if p.default is p.empty]
    return required or [p.name for p in named[:1]] or ["input"]


def _signature(names: list[str], first: tuple[Shape, bool], dtype: str) -> tuple[GraphInput, ...]:
    return tuple(_input(name, first, dtype) for name in names)


def _input(name: str, first: tuple[Shape, bool], dtype: str) -> GraphInput:
    shape, is_ids = first
    lowered = name.lower()
    if _MASK.search(lowered):
        return GraphInput(name=name, dtype="int64" if is_ids else "bool", shape=(None, "length"))
    if _COUNTS.match(lowered):
        return GraphInput(name=name, dtype="int64", shape=(None,))
    if is_ids or _IDS.search(lowered):
        return GraphInput(name=name, dtype="int64", shape=(None, "length"))
    return GraphInput(name=name, dtype=dtype, shape=shape)


def _candidates(model: nn.Module) -> list[tuple[Shape, bool]]:
    """Shapes that the first layers take, and whether they are token ids; the first layer's first."""
    found: dict[tuple[Shape, bool], None] = {}
    for module in model.modules():
        for candidate in _taken(module):
            found.setdefault(candidate)
        if len(found) >= _MOST:
            break
    return list(found)


def _taken(module: nn.Module) -> Iterator[tuple[Shape, bool]]:
    """What one layer takes; by its attributes, so that subclasses and scripted layers count."""
    name = getattr(module, "original_name", None) or type(module).__name__
    channels, kernel = _number(module, "in_channels"), getattr(module, "kernel_size", None)
    weight = _sized(module, "weight")
    rank = getattr(weight, "ndim", 0)
    if channels is not None and isinstance(kernel, tuple) and len(kernel) in _SPACE:
        yield (None, channels, *_SPACE[len(kernel)]), False
    elif "Conv" in name and rank - 2 in _SPACE and weight is not None:  # scripted layers keep only their tensors
        yield (None, int(weight.shape[1]), *_SPACE[rank - 2]), False
    elif "Embedding" in name and rank == 2:
        yield (None, "length"), True
    elif name in ("Linear", "NonDynamicallyQuantizableLinear") or _number(module, "in_features") is not None:
        features = _number(module, "in_features") or (
            int(weight.shape[1]) if rank == 2 and weight is not None else None
        )
        if features is not None:
            yield (None, features), False
            yield (None, "length", features), False
    elif name in ("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell") and _number(module, "input_size") is not None:
        features = _number(module, "input_size")
        yield (None, features) if name.endswith("Cell") else (None, "length", features), False
    elif _number(module, "embed_dim") is not None:
        yield (None, "length", _number(module, "embed_dim")), False
    else:
        yield from _of_norm(module, name, weight)


def _of_norm(module: nn.Module, name: str, weight: Any) -> Iterator[tuple[Shape, bool]]:
    features = _number(module, "num_features") or _number(module, "num_channels")
    mean = _sized(module, "running_mean")
    if features is None and getattr(mean, "ndim", 0) == 1:
        features = int(mean.shape[0])
    if features is not None:
        last = name[-2:]
        shapes: dict[str, list[Shape]] = {
            "1d": [(None, features), (None, features, "length")],
            "3d": [(None, features, *_SPACE[3])],
        }
        yield from ((shape, False) for shape in shapes.get(last, [(None, features, *_SPACE[2])]))
        return
    normalized = getattr(module, "normalized_shape", None)
    if isinstance(normalized, tuple) and normalized:
        yield (None, "length", *normalized) if len(normalized) == 1 else (None, *normalized), False


def _sized(module: nn.Module, key: str) -> Any:
    """A tensor of the module, None for one that has no size yet."""
    tensor = getattr(module, key, None)
    return None if tensor is None or nn.parameter.is_lazy(tensor) else tensor


def _number(module: nn.Module, key: str) -> int | None:
    value = getattr(module, key, None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
