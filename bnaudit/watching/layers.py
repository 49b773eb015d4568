"""The layers of a model that keep running statistics, and which calls reach them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import nn

_PLAIN = (torch.Tensor, nn.Parameter)
_SPREADING = ("DistributedDataParallel", "FullyShardedDataParallel")
"""They copy the first process's buffers into the others before the model runs: what they write is no update."""


class WatchedLayer:
    """A module with a running mean and variance, and what the watch has seen of it."""

    __slots__ = ("block", "frozen_moves", "has_trained", "module", "name", "updates", "usual_move", "usual_spread")

    def __init__(self, name: str, module: nn.Module, block: nn.Module | None) -> None:
        self.name = name
        self.module = module
        self.block = block
        """The module that directly holds it."""
        self.has_trained = self.trains
        """Since the watch began. What is frozen in turns, as in the training of a GAN, is not frozen."""
        self.frozen_moves = 0
        """Updates since it trained last."""
        self.updates = 0
        self.usual_move = 0.0
        self.usual_spread = 0.0

    @property
    def trains(self) -> bool:
        """Whether its weight or bias requires gradients; of a layer without both, whether the block around it trains.

        A block without parameters does not say, so that the layer counts as training (BN501).
        """
        own = [p.requires_grad for p in self.module.parameters(recurse=False)]
        if own or self.block is None:
            return any(own) or not own
        around = [p.requires_grad for p in self.block.parameters()]
        return any(around) or not around

    def statistics(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Running mean and variance, (channels,); None while there are none whose values can be read and compared."""
        buffers = buffers_of(self.module)
        mean, var = buffers.get("running_mean"), buffers.get("running_var")
        if type(mean) not in _PLAIN or type(var) not in _PLAIN or mean is None or var is None:
            return None  # tracking is off, a lazy layer before its first forward, or a tensor of another kind
        alike = mean.numel() == var.numel() > 0 and mean.dtype == var.dtype and mean.device == var.device
        readable = mean.is_floating_point() and not mean.is_meta and mean.layout is torch.strided
        return (mean, var) if alike and readable else None

    def counter(self) -> int | None:
        """num_batches_tracked; None without one."""
        counter = buffers_of(self.module).get("num_batches_tracked")
        if type(counter) not in _PLAIN or counter is None or counter.is_meta or counter.numel() != 1:
            return None
        return int(counter)


class Layout(NamedTuple):
    """The watched layers of a model, found in one pass over its modules."""

    layers: tuple[WatchedLayer, ...]
    """In the order of `named_modules()`; a module that occurs twice is listed once."""
    reached: dict[int, tuple[nn.Module, tuple[WatchedLayer, ...]]]
    """id → a module whose call runs these layers: containers, wrappers, the layers themselves."""
    unseen: bool
    """Some calls go past PyTorch's module hooks: `module.compile()`, or torch.compile around a distributed wrapper."""


def layout_of(model: nn.Module, known: Layout | None = None) -> Layout:
    """Look for the layers. What is known of a layer is kept."""
    before = {id(layer.module): layer for layer in known.layers} if known is not None else {}
    blocks = {id(child): module for module in model.modules() for child in module._modules.values()}
    layers: dict[int, WatchedLayer] = {}
    reached: dict[int, tuple[nn.Module, list[WatchedLayer]]] = {}
    for path, module in _paths(model):
        if not keeps_statistics(module) and not is_lazy(module):
            continue
        name = path[-1][0]
        layer = before.get(id(module)) or WatchedLayer(name, module, blocks.get(id(module)))
        layer.name = name
        layers[id(module)] = layer
        for _, holder in path:
            reached.setdefault(id(holder), (holder, []))[1].append(layer)
    opening = {key: (holder, tuple(inside)) for key, (holder, inside) in reached.items() if not _spreads(holder)}
    compiled = any(is_compiled_in_place(holder) for holder, _ in reached.values())
    return Layout(tuple(layers.values()), opening, compiled or len(opening) < _expected(reached))


def _expected(reached: dict[int, tuple[nn.Module, list[WatchedLayer]]]) -> int:
    """How many of the modules open a forward when nothing is compiled around a distributed wrapper."""
    return sum(type(holder).__name__ not in _SPREADING for holder, _ in reached.values())


def buffers_of(module: nn.Module) -> dict[str, torch.Tensor | None]:
    """Its own buffers; those of TorchScript are in no dict."""
    buffers = module._buffers
    return buffers if isinstance(buffers, dict) else dict(module.named_buffers(recurse=False))


def keeps_statistics(module: nn.Module) -> bool:
    """Whether a module has both running statistics under PyTorch's names."""
    buffers = buffers_of(module)
    return buffers.get("running_mean") is not None and buffers.get("running_var") is not None


def is_lazy(module: nn.Module) -> bool:
    """A norm that gets its statistics in the first forward."""
    return isinstance(module, nn.modules.batchnorm._LazyNormBase)


def is_compiled_in_place(module: nn.Module) -> bool:
    """Whether `module.compile()` was called, whose calls pass PyTorch's hooks by."""
    return getattr(module, "_compiled_call_impl", None) is not None


def inner_of_wrapper(module: nn.Module) -> nn.Module | None:
    """The model in a wrapper that was put around it later: by torch.compile or DataParallel."""
    if type(module).__name__ == "OptimizedModule":
        return module._modules.get("_orig_mod")
    return module._modules.get("module") if isinstance(module, nn.DataParallel) else None


def _spreads(module: nn.Module) -> bool:
    inner = inner_of_wrapper(module)
    return type(module).__name__ in _SPREADING or (inner is not None and _spreads(inner))


def _paths(root: nn.Module) -> Iterator[tuple[list[tuple[str, nn.Module]], nn.Module]]:
    """Every module once, with the modules that hold it from the root down to itself and their names."""
    seen: set[int] = set()
    waiting: list[list[tuple[str, nn.Module]]] = [[("", root)]]
    while waiting:
        path = waiting.pop()
        name, module = path[-1]
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield path, module
        children = [(key, child) for key, child in module._modules.items() if child is not None]
        waiting.extend([*path, (f"{name}.{key}" if name else key, child)] for key, child in reversed(children))
