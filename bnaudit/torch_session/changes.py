"""A Variation in a live model: what is written where, and the way back.

Everything is looked up before anything is written, and what is put back is exactly what was written: a norm layer's
vectors and flags are a few kilobytes, where comparing a whole ResNet-50 takes 7 ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from bnaudit.description import NormLayer, Part
from bnaudit.reading.modules.mode_classes import mode_of_class
from bnaudit.session import NotPossibleError
from bnaudit.torch_session.module_names import class_name
from bnaudit.variation import Altered, Variation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TENSORS = {
    "mean": ("running_mean",),
    "var": ("running_var",),
    "gamma": ("gamma", "weight"),
    "beta": ("beta", "bias"),
}
"""A fused ConvBn2d has gamma and beta beside the weight of its convolution."""
_ABSENT = {"gamma": 1.0, "beta": 0.0}
"""What a layer without the parameter computes as if it had."""
_WORDS = {"mean": "running mean", "var": "running variance", "gamma": "weight", "beta": "bias"}
_EPSILONS = ("eps", "epsilon", "variance_epsilon")
_BUFFERS = ("running_mean", "running_var", "num_batches_tracked")


class Changes:
    """What a variation writes into a model. `apply` and `undo` may be called again and again.

    fixed: the model's modes are in its graph; what of the variation is a change of code, a copy has got already.
    Raises NotPossibleError when the model has no place for one of the changes; nothing is written then.
    """

    def __init__(self, modules: Mapping[str, nn.Module], part: Part, variation: Variation, *, fixed: bool) -> None:
        self._modules = modules
        self._layers = {layer.name: layer for layer in part.layers}
        self._fixed = fixed
        self._tensors: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._trained: list[nn.Module] = []
        self._epsilons: list[tuple[nn.Module, str, float]] = []
        for name, altered in variation.layers.items():
            self._add(name, altered)
        if variation.drops:
            self._trained += self._dropping(part)
        self._flags = [(module, module.training) for root in self._trained for module in root.modules()]
        kept = [tensor for tensor, _ in self._tensors]
        kept += [tensor for root in self._trained for tensor in _buffers(root)]
        with torch.no_grad():
            self._before = [(tensor, tensor.detach().clone()) for tensor in kept]
        self._old_epsilons = [(module, key, getattr(module, key)) for module, key, _ in self._epsilons]

    def apply(self) -> None:
        """Write it. What train() of a module raises is raised."""
        for tensor, values in self._tensors:
            _write(tensor, values)
        for module, key, value in self._epsilons:
            setattr(module, key, value)
        for module in self._trained:
            module.train()

    def undo(self) -> None:
        """Put back what was there when this was made."""
        for module, training in self._flags:
            if module.training is not training:
                module.training = training
        for module, key, value in self._old_epsilons:
            setattr(module, key, value)
        for tensor, values in reversed(self._before):
            _write(tensor, values)

    def _add(self, name: str, altered: Altered) -> None:
        layer, module = self._layers.get(name), self._modules.get(name)
        if layer is None or module is None:
            raise NotPossibleError(f"the model has no norm layer {name}")
        for field in _TENSORS:
            values = getattr(altered, field)
            if values is not None:
                self._add_tensor(layer, module, field, values)
        if altered.eps is not None:
            self._epsilons.append((module, self._epsilon(layer, module), float(altered.eps)))
        if altered.training:
            self._trained.append(module)

    def _add_tensor(self, layer: NormLayer, module: nn.Module, field: str, values: NDArray[np.float64]) -> None:
        tensor = _tensor(module, _TENSORS[field])
        wanted = torch.as_tensor(values)
        if tensor is None:
            if field not in _ABSENT or not bool((wanted == _ABSENT[field]).all()):
                raise NotPossibleError(f"{layer.name} has no {_WORDS[field]} that could be replaced")
        elif tensor.shape != wanted.shape:
            what = f"the {_WORDS[field]} of {layer.name} has the shape {tuple(tensor.shape)}"
            raise NotPossibleError(f"{what}, not {tuple(wanted.shape)}")
        else:
            self._tensors.append((tensor, wanted.to(tensor)))

    def _epsilon(self, layer: NormLayer, module: nn.Module) -> str:
        """The attribute that holds it."""
        found = next((key for key in _EPSILONS if isinstance(getattr(module, key, None), (int, float))), None)
        if found is None:
            raise NotPossibleError(f"{layer.name} has no epsilon that could be replaced")
        return found

    def _dropping(self, part: Part) -> list[nn.Module]:
        if self._fixed:
            raise NotPossibleError("what is dropped is fixed in the model's graph")
        names = {entry.name for entry in part.mode_dependent}
        modules = [module for name, module in self._modules.items() if name in names or _drops(module)]
        if not modules:
            raise NotPossibleError("the model has no dropout")
        return modules


def _drops(module: nn.Module) -> bool:
    return mode_of_class(class_name(module)) is not None and not any(True for _ in module.children())


def _tensor(module: nn.Module, keys: tuple[str, ...]) -> torch.Tensor | None:
    """The first of these parameters and buffers that the module itself holds; not one that it computes."""
    own: dict[str, Any] = {**dict(module.named_parameters(recurse=False)), **dict(module.named_buffers(recurse=False))}
    return next((own[key] for key in keys if own.get(key) is not None), None)


def _buffers(root: nn.Module) -> Iterator[torch.Tensor]:
    """What a norm updates in training."""
    for module in root.modules():
        yield from (tensor for key, tensor in module.named_buffers(recurse=False) if key in _BUFFERS)


def _write(tensor: torch.Tensor, values: torch.Tensor) -> None:
    with torch.inference_mode(tensor.is_inference()), torch.no_grad():
        tensor.copy_(values)
