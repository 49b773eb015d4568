"""Where a fault that is a module of its own is put: behind a layer whose answers reach the outputs.

Any net has such layers, whatever its norms are: convolutions, linear layers and norms that its own modules call.
PyTorch's attention and encoder layers read the weights of their parts without calling them, so those are left alone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from fault_matrix.architectures.stochastic import AlwaysDropout
from fault_matrix.carriers import CARRIERS
from fault_matrix.values import Inputs, NoEffectError, Planting, Scope
from run_time.symptoms import ANCHORS, SIZE, apart, base, history, swap
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.instancenorm import _InstanceNorm

_CALLED = (_ConvNd, nn.Linear, _BatchNorm, nn.LayerNorm, nn.GroupNorm)
_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_READ_BY_OTHERS = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)

NOT_DYNAMO = frozenset(CARRIERS) - {"ONNX by dynamo"}
NOT_OLDER_ONNX = frozenset(CARRIERS) - {"ONNX", "ONNX, folded"}
BEYOND_ROUNDING = 3e-5
"""A share of the outputs that is more than 64 steps of float32, below which several rules say no more than a note."""
NOT_SCRIPTED = frozenset(CARRIERS) - {"scripted"}
"""TorchScript has no modules that are made in forward() or held in lists."""


class Behind(nn.Module):
    """A layer, and the faulty module that takes its answer."""

    def __init__(self, inner: nn.Module, fault: nn.Module) -> None:
        super().__init__()
        self.inner, self.fault = inner, fault

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fault(self.inner(x))


class Share(nn.Module):
    """x + share · (f(x) − x) with f on rows (N, F): a mild fault leaves the statistics behind it as they were."""

    def __init__(self, module: nn.Module, share: float) -> None:
        super().__init__()
        self.module, self.share = module, share

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.flatten(1)
        return x + self.share * (self.module(rows) - rows).reshape(x.shape)


def layers(net: nn.Module) -> list[str]:
    """Names of the layers that a module can be put behind."""
    read = [name for name, module in net.named_modules() if isinstance(module, _READ_BY_OTHERS)]
    return [
        name
        for name, module in net.named_modules()
        if isinstance(module, _CALLED) and not any(name.startswith(f"{each}.") for each in read)
    ]


def without_padding(net: nn.Module) -> list[str]:
    """Those of nets without a length axis: statistics over a padded sample are a fault of their own, BN304."""
    return [] if any(isinstance(module, nn.Conv1d) for module in net.modules()) else layers(net)


def scaled_with_inputs(net: nn.Module) -> list[str]:
    """Those of nets in which larger companions stay larger.

    Where each sample is normalized by itself, it is chance whether an anchor or a companion sets a batch-wide range.
    """
    kinds = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, _InstanceNorm)
    return [] if any(isinstance(module, kinds) for module in net.modules()) else layers(net)


def without_draws(net: nn.Module) -> list[str]:
    """Those of nets that draw nothing: for another batch size other numbers are drawn, and sizes are not compared."""
    return [] if any(isinstance(module, AlwaysDropout) for module in net.modules()) else layers(net)


def classifiers(net: nn.Module) -> list[str]:
    """The last of them."""
    return without_draws(net)[-1:]


Symptom = Callable[[nn.Module, Inputs], bool]
"""What running a damaged net directly shows, without a word of bnaudit: whether the fault reaches its outputs."""


def put_behind(planting: Planting, make: Callable[[torch.Size], nn.Module], shows: Symptom, once: bool = False) -> None:
    """A module made for answers of this shape, behind the chosen layers; `located` are the modules put there.

    Where it has no effect behind one chosen layer (its gain is 0, or what follows normalizes the effect away), the
    next is taken where it has. `once`: not behind layers that run several times per forward.
    """
    shapes = _shapes(planting.net, planting.inputs, once)
    if planting.scope is Scope.ALL:
        planting.layers = tuple(name for name in planting.layers if name in shapes and _answers(planting.net, name))
        planting.net = _with(planting.net, planting.layers, shapes, make)
        if not shows(copy.deepcopy(planting.net), planting.inputs):
            raise NoEffectError("behind all layers together the fault has no effect in this net")
    else:
        names = [name for name in layers(planting.net) if name in shapes]
        plant_where_it_shows(planting, names, lambda name: _with(planting.net, (name,), shapes, make), shows)
    planting.located = tuple(f"{name}.fault" for name in planting.layers)


def plant_where_it_shows(
    planting: Planting, names: list[str], damaged: Callable[[str], nn.Module], shows: Symptom
) -> None:
    """The net damaged at the chosen layer, or else at the next of these names where the fault has an effect."""
    start = names.index(planting.layers[0]) if planting.layers[0] in names else 0
    for name in names[start:] + names[:start]:
        net = damaged(name)
        if shows(copy.deepcopy(net), planting.inputs):
            planting.net, planting.layers = net, (name,)
            return
    raise NoEffectError("nowhere in this net has the fault an effect")


def _answers(net: nn.Module, name: str) -> bool:
    """Whether what it answers depends on what it receives: behind a gain of 0 nothing can be damaged."""
    gain = getattr(net.get_submodule(name), "weight", None)
    return gain is None or bool(gain.detach().any())


def _with(
    net: nn.Module, names: Iterable[str], shapes: dict[str, torch.Size], make: Callable[[torch.Size], nn.Module]
) -> nn.Module:
    damaged = copy.deepcopy(net)
    for name in names:
        torch.manual_seed(0)
        module = make(shapes[name]).eval()
        replace(damaged, name, Behind(damaged.get_submodule(name), module))
    return damaged.eval()


def replace(net: nn.Module, name: str, new: nn.Module) -> None:
    """Put it in the place of this module, under every name that it has."""
    old = net.get_submodule(name)
    for holder in list(net.modules()):
        for child, module in list(holder.named_children()):
            if module is old:
                setattr(holder, child, new) if not isinstance(holder, _CONTAINERS) else _put(holder, child, new)


def _put(holder: nn.Module, child: str, new: nn.Module) -> None:
    holder._modules[child] = new


def _shapes(net: nn.Module, inputs: Inputs, once: bool) -> dict[str, torch.Size]:
    """The shape of every layer's answer, where that has all samples in front: an expert has those sent to it.

    `once`: of those alone that run once per forward.
    """
    shapes: dict[str, torch.Size] = {}
    counts: dict[str, int] = {}
    handles = [net.get_submodule(name).register_forward_hook(_noting(shapes, counts, name)) for name in layers(net)]
    run(net, inputs)
    for handle in handles:
        handle.remove()
    return {
        name: shape
        for name, shape in shapes.items()
        if (counts[name] == 1 or not once) and shape[0] and shape[0] % len(inputs[0]) == 0
    }


def _noting(shapes: dict[str, torch.Size], counts: dict[str, int], name: str) -> Callable[..., None]:
    def hook(module: nn.Module, given: Any, answer: torch.Tensor) -> None:
        counts[name] = counts.get(name, 0) + 1
        shapes[name] = answer.shape

    return hook


def always(net: nn.Module, inputs: Inputs) -> bool:
    """For what must not be found anywhere."""
    return True


def runs(net: nn.Module, inputs: Inputs) -> bool:
    """Whether it runs at all: a single value has no variance."""
    try:
        run(net, inputs)
    except ValueError:
        return False
    return True


def moves_anchors(net: nn.Module, inputs: Inputs) -> bool:
    """Whether other companions, or the same × 100, move the first output."""
    return swap("live", net, inputs) > 1e-6 or _with_larger_companions(net, inputs) > 1e-6


def _with_larger_companions(net: nn.Module, inputs: Inputs) -> float:
    larger = tuple(value.clone() for value in base(inputs))
    companions = [row for row in range(SIZE) if row not in ANCHORS]
    for value in larger:
        if value.is_floating_point():
            value[companions] *= 100
    outputs = (run(copy.deepcopy(net), each)[0][list(ANCHORS)].float() for each in (base(inputs), larger))
    return apart(*(each.numpy() for each in outputs))


def differs_in_a_row(net: nn.Module, inputs: Inputs) -> bool:
    """Whether the same batch twice gives other outputs, random generators not reset, by more than 64 roundings."""
    return history("live", net, inputs) > BEYOND_ROUNDING


def run(net: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
    """The tensors that it returns, without gradients, random generators reset."""
    torch.manual_seed(0)
    with torch.no_grad():
        return list(_tensors(net(*inputs)))


def _tensors(answer: Any) -> Iterator[torch.Tensor]:
    if isinstance(answer, torch.Tensor):
        yield answer
    else:
        for each in answer.values() if isinstance(answer, dict) else answer:
            yield from _tensors(each)
