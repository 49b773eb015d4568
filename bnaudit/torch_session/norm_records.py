"""The normalization operators of one forward: what they normalized over and with."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import torch

from bnaudit.description import NormKind
from bnaudit.session import Held, NormCall, Place
from bnaudit.torch_session.module_names import LayerNames, address
from bnaudit.torch_session.moments import Scratch, as_float64, batch_moments, merged, sample_moments, variance_of
from bnaudit.torch_session.norm_readings import Reading, read, stored
from bnaudit.torch_session.operators import Operator

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

_RUNNING = ("running_mean", "running_var")
_TRAINING = "aten.native_batch_norm"


class NormRecords:
    """Runs and records them, and holds statistics where that is asked for."""

    def __init__(
        self, names: LayerNames, size: int, *, moments: bool, hold: tuple[Held, ...], shortens: bool = False
    ) -> None:
        """shortens: the batch's statistics are made of the samples' moments, not computed a second time."""
        self._names = names
        self._shortens = shortens
        self._size = max(1, size)
        self._moments = moments
        self._hold = {held.index: held for held in hold}
        self._repeats: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}
        self._scratch = Scratch()
        self._kept: list[dict[str, Any]] = []

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def calls(self) -> tuple[NormCall, ...]:
        """In the order in which they ran; built when the forward is over, since between large kernels it is dear."""
        return tuple(_call(values) for values in self._kept)

    def repeated(self, tensor: torch.Tensor, result: torch.Tensor) -> None:
        """Remember whose copies these are."""
        here = address(tensor)
        if self._names.layer_at(here) is not None:
            self._repeats[id(result)] = (weakref.ref(result), here)

    def read(self, known: Operator, values: Mapping[str, Any], layer_kind: NormKind | None) -> Reading:
        """`layer_kind`: of the innermost module."""
        assert known.norm is not None
        activation = values["input"]
        is_parameter = isinstance(activation, torch.Tensor) and self._names.is_state(activation)
        return read(known.norm, values, size=self._size, layer_kind=layer_kind, is_parameter=is_parameter)

    def run(
        self,
        known: Operator,
        function: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        reading: Reading,
        place: Place,
    ) -> tuple[Any, Any]:
        """What is returned, and what the operator returned."""
        mean, var = stored(reading)
        held = self._hold.get(len(self)) if reading.kind.is_batch and reading.uses_batch else None
        moments = self._sample_moments(reading)
        if held is not None:
            result = function(*_on_copies(known, args), **kwargs)
            returned = _normalized(reading, held, result)
        elif moments is not None and self._shortens and known.name == _TRAINING and _is_single(reading):
            result = returned = _from_moments(reading, *merged(*moments))
        else:
            result = returned = function(*args, **kwargs)
        batch = self._batch_moments(reading, result, moments)
        self._kept.append(
            {
                "index": len(self),
                "place": place,
                "layer": self._layer(reading, place),
                "kind": reading.kind,
                "uses_batch": reading.uses_batch,
                "mixes_samples": reading.extent.mixes if reading.uses_batch else False,
                "values_per_statistic": reading.extent.per_statistic,
                "values_per_sample": reading.extent.per_sample,
                "channels": reading.extent.channels,
                "eps": reading.eps,
                "momentum": reading.momentum,
                "updates": reading.updates,
                "stored_mean": mean,
                "stored_var": var,
                "batch_mean": batch[0],
                "batch_var": batch[1],
                "sample_mean": moments[0] if moments is not None else None,
                "sample_var": moments[1] if moments is not None else None,
            }
        )
        return returned, result

    def record_fused(self, source: torch.Tensor, weight: torch.Tensor, eps: float, place: Place) -> None:
        """A layer norm inside a fused operator."""
        layer = self._names.layer_at(address(weight))
        self._append_simple(NormKind.LAYER, layer, place, weight.numel(), weight.numel(), eps=eps)

    def record_module(self, module: torch.nn.Module, kind: NormKind, result: torch.Tensor, place: Place) -> None:
        """A norm module that only multiplies and adds: RMS norm on the CPU, a frozen batch norm."""
        named = self._names.module(module)
        layer = named.name if named is not None and not named.hidden else None
        if kind is NormKind.RMS:
            shape = getattr(module, "normalized_shape", result.shape[-1:])
            each = prod(shape) if isinstance(shape, (tuple, list)) else result.shape[-1]
            self._append_simple(kind, layer, place, each, each)
            return
        channels = result.shape[1] if result.dim() > 1 else 1
        each = result.numel() // max(channels, 1)
        mean, var = (_vector(getattr(module, name, None)) for name in _RUNNING)
        self._append_simple(
            kind,
            layer,
            place,
            channels,
            each,
            uses_batch=False,
            values_per_sample=max(1, each // self._size),
            stored_mean=mean,
            stored_var=var,
        )

    def _append_simple(
        self, kind: NormKind, layer: str | None, place: Place, channels: int, each: int, **others: Any
    ) -> None:
        values = {
            "index": len(self),
            "place": place,
            "layer": layer,
            "kind": kind,
            "uses_batch": True,
            "mixes_samples": False,
            "values_per_statistic": each,
            "values_per_sample": each,
            "channels": channels,
            **others,
        }
        self._kept.append(values)

    def _layer(self, reading: Reading, place: Place) -> str | None:
        """By the tensors, which alone say it in TorchScript and functional calls, else by the innermost module."""
        for tensor in (reading.running_mean, reading.weight):
            found = self._names.layer_at(self._address(tensor)) if tensor is not None else None
            if found is not None:
                return found
        return place.module if not place.hidden and self._names.is_norm(place.module, place.class_name) else None

    def _address(self, tensor: torch.Tensor) -> int:
        repeat = self._repeats.get(id(tensor))
        return repeat[1] if repeat is not None and repeat[0]() is tensor else address(tensor)

    def _sample_moments(self, reading: Reading) -> tuple[Vector, Vector] | None:
        plain = reading.activation.layout is torch.strided and not reading.activation.is_quantized
        if not (self._moments and reading.kind.is_batch and plain) or reading.extent.mixes is False:
            return None
        return sample_moments(reading.activation, self._size, self._scratch)

    def _batch_moments(
        self, reading: Reading, result: Any, moments: tuple[Vector, Vector] | None
    ) -> tuple[Vector | None, Vector | None]:
        if not (reading.uses_batch and reading.kind.is_batch) or reading.activation.is_meta:
            return None, None
        if moments is not None:
            return merged(*moments)
        saved = reading.given if reading.given is not None else _saved(reading, result)
        if saved is None:
            return batch_moments(reading.activation)
        mean, inverse = saved
        return as_float64(mean), variance_of(as_float64(inverse), reading.eps or 0.0)


def _call(values: Mapping[str, Any]) -> NormCall:
    """The record of what was kept: stored statistics as vectors of float64."""
    copies = {
        name: values[name] for name in ("stored_mean", "stored_var") if isinstance(values.get(name), torch.Tensor)
    }
    return NormCall(**{**values, **{name: as_float64(copy) for name, copy in copies.items()}})


def _vector(value: object) -> Vector | None:
    return as_float64(value) if isinstance(value, torch.Tensor) and not value.is_meta else None


def _saved(reading: Reading, result: Any) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Mean and 1 / √(variance + ε), where the operator returns them in full precision."""
    if isinstance(result, tuple) and len(result) >= 3:
        mean, inverse = result[1], result[2]
        wide = (torch.float32, torch.float64)
        if mean.dtype in wide and inverse.dtype in wide and mean.numel() == reading.activation.shape[1]:
            return mean, inverse
    return None


def _on_copies(known: Operator, args: Sequence[Any]) -> list[Any]:
    """The arguments with copies of the running statistics, which the kernel would update."""
    copied = list(args)
    for position, name in enumerate(known.arguments[: len(args)]):
        if name in _RUNNING and isinstance(copied[position], torch.Tensor):
            copied[position] = copied[position].clone()
    return copied


def _is_single(reading: Reading) -> bool:
    """Whether it is batch norm by the batch, in single precision on the CPU, with more than one value."""
    activation = reading.activation
    plain = activation.dtype is torch.float32 and activation.device.type == "cpu"
    return plain and reading.uses_batch and reading.kind.is_batch and reading.extent.per_statistic > 1


def _from_moments(reading: Reading, mean: Vector, var: Vector) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What the training kernel returns and updates, by the eval kernel, which takes a fifth of the time.

    y = (x − mean) / √(var + ε) · weight + bias; running ← (1 − momentum) · running + momentum · batch, the variance
    unbiased (torch.nn.BatchNorm2d). Equal to the training kernel's but for rounding.
    """
    result: torch.Tensor = _normalized(reading, Held(index=0, mean=mean, var=var), None)
    inverse = (var + (reading.eps or 0.0)) ** -0.5
    if reading.updates and reading.momentum is not None:
        count = reading.extent.per_statistic
        for running, values in ((reading.running_mean, mean), (reading.running_var, var * (count / (count - 1)))):
            if running is not None:
                running.mul_(1.0 - reading.momentum).add_(torch.tensor(values).to(running), alpha=reading.momentum)
    return result, torch.tensor(mean, dtype=torch.float32), torch.tensor(inverse, dtype=torch.float32)


def _normalized(reading: Reading, held: Held, result: Any) -> Any:
    """The operator's result with the output normalized by given statistics instead of the batch's."""
    activation = reading.activation
    like = reading.running_mean if reading.running_mean is not None else reading.weight
    dtype = like.dtype if like is not None else activation.dtype
    mean, var = (torch.tensor(values, dtype=dtype, device=activation.device) for values in (held.mean, held.var))
    bias = reading.bias
    output = torch.native_batch_norm(
        activation, reading.weight, bias, mean, var, False, 0.0, reading.eps if reading.eps is not None else 0.0
    )[0]
    return (output, *result[1:]) if isinstance(result, tuple) else output
