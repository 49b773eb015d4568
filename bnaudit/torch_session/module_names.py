"""The names of a model's modules and tensors, also of modules that nothing registers."""

from __future__ import annotations

import contextlib
import functools
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

import torch
from torch import nn

from bnaudit.description import NormKind
from bnaudit.reading.modules.norm_classes import kind_of_class
from bnaudit.session import MADE_IN_FORWARD

_MOST = 100_000
_DEEPEST = 6


class Named(NamedTuple):
    """A module of the model."""

    name: str
    """Dotted path; `encoder.norms[2]` where no module registers it; "" for the model itself."""
    class_name: str
    hidden: bool
    """Not registered, or made during the forward."""


class LayerNames:
    """Names for what runs, built once for a model: modules by identity, layers by the addresses of their tensors.

    Addresses are what TorchScript and exported programs leave to go by. Build it anew for a copy of the model, or when
    its tensors have got other memory (`double()`).
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._names: dict[int, tuple[nn.Module, Named]] = {}
        self._kinds: dict[int, NormKind | None] = {}
        self._by_name: dict[str, nn.Module] = {}
        self._layers: dict[int, str] = {}
        self._storages: set[int] = set()
        self._dtypes: set[torch.dtype] = set()
        self._register(model, "", hidden=False)
        self._look_for_hidden()
        self.has_graph = any(isinstance(module, torch.fx.GraphModule) for module, _ in self._names.values())
        """Operators are called by generated code, whose nodes know where they come from."""

    @classmethod
    def of(cls, model: object) -> LayerNames:
        """Of an nn.Module, a ScriptModule or a GraphModule. Raises TypeError for anything else."""
        if not isinstance(model, nn.Module):
            raise TypeError(f"{type(model).__name__} is no module")
        return cls(model)

    @property
    def dtypes(self) -> frozenset[torch.dtype]:
        """Floating and complex dtypes of the parameters."""
        return frozenset(self._dtypes)

    def module(self, module: nn.Module) -> Named | None:
        """None for a module that cannot be reached from the model."""
        entry = self._names.get(id(module))
        return entry[1] if entry is not None and entry[0] is module else None

    def innermost(self, stack: list[nn.Module]) -> Named:
        """The name of the last module of a stack; one made in a forward is named by what made it."""
        if not stack:
            return Named("", class_name(self._model), False)
        named = self.module(stack[-1])
        if named is None and self._stale:
            self._look_for_hidden()
            named = self.module(stack[-1])
        return named if named is not None else self._made(stack)

    def kind(self, module: nn.Module) -> NormKind | None:
        """The norm that a module is by its class, None for any other module."""
        found = self._kinds.get(id(module), ...)
        entry = self._names.get(id(module))
        if found is ... or entry is None or entry[0] is not module:
            return _kind(module)
        return found if isinstance(found, NormKind) else None

    def is_norm(self, name: str, class_name: str) -> bool:
        """Whether a registered module of this name is a norm layer; in a graph, which keeps no module without
        tensors, by what its nodes say."""
        if self.has_graph and kind_of_class(class_name) is not None:
            return True
        module = self._by_name.get(name)
        return module is not None and self.kind(module) is not None

    def without_operator(self) -> dict[int, NormKind]:
        """Identities of the norm modules that run no normalization operator of their own: they multiply and add."""
        kinds = (NormKind.RMS, NormKind.FROZEN_BATCH)
        return {key: kind for key, kind in self._kinds.items() if kind in kinds}

    def layer_at(self, address: int) -> str | None:
        """The registered module that holds a tensor at this address."""
        return self._layers.get(address) if address else None

    def is_state(self, tensor: torch.Tensor) -> bool:
        """Whether it is, or looks into, a parameter or buffer."""
        return isinstance(tensor, nn.Parameter) or storage_address(tensor) in self._storages

    def forward_begins(self) -> None:
        """Modules that are met and not known are looked for once more in every forward: the one before may have made
        and kept them."""
        self._stale = True

    def _look_for_hidden(self) -> None:
        known = {id(module) for module, _ in self._names.values()}
        for path, module in _unregistered([(named.name, module) for module, named in self._names.values()], known):
            self._register(module, path, hidden=True)
        self._stale = False

    def _made(self, stack: list[nn.Module]) -> Named:
        known = next((named for module in reversed(stack) if (named := self.module(module)) is not None), None)
        where = known.name or known.class_name if known is not None else class_name(self._model)
        return Named(f"{MADE_IN_FORWARD}{where}>", class_name(stack[-1]), True)

    def _register(self, root: nn.Module, path: str, *, hidden: bool) -> None:
        for name, module in root.named_modules(prefix=path):
            if id(module) in self._names:
                continue
            self._names[id(module)] = (module, Named(name, class_name(module), hidden))
            self._kinds[id(module)] = _kind(module)
            if not hidden:
                self._by_name[name] = module
            for tensor in chain(module.parameters(recurse=False), module.buffers(recurse=False)):
                self._remember(tensor, name, hidden)

    def _remember(self, tensor: torch.Tensor, name: str, hidden: bool) -> None:
        here, storage = address(tensor), storage_address(tensor)
        if storage:
            self._storages.add(storage)
        if here and not hidden:
            self._layers.setdefault(here, name)
        if isinstance(tensor, nn.Parameter) and (tensor.is_floating_point() or tensor.is_complex()):
            self._dtypes.add(tensor.dtype)


def class_name(module: object) -> str:
    """`BatchNorm2d`, for a scripted module that of its source."""
    original = getattr(module, "original_name", None) if isinstance(module, torch.jit.ScriptModule) else None
    return original if isinstance(original, str) else type(module).__name__


def address(tensor: torch.Tensor) -> int:
    """Of its first element; 0 for a tensor without memory of its own."""
    try:
        return tensor.data_ptr()
    except (RuntimeError, NotImplementedError):  # fake, functional, mkldnn and sparse tensors
        return 0


def storage_address(tensor: torch.Tensor) -> int:
    """Of the memory that it looks into; 0 for a tensor without."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0


def _kind(module: nn.Module) -> NormKind | None:
    if isinstance(module, nn.modules.instancenorm._InstanceNorm):
        return NormKind.INSTANCE
    if isinstance(module, nn.SyncBatchNorm):
        return NormKind.SYNC_BATCH
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        return NormKind.BATCH
    found = kind_of_class(class_name(module))
    if found is None:
        return None
    owns = any(isinstance(getattr(module, name, None), torch.Tensor) for name in ("weight", "running_mean"))
    has_parts = next(module.children(), None) is not None
    return found if owns or (found in (NormKind.RMS, NormKind.LAYER) and not has_parts) else None


def _unregistered(registered: list[tuple[str, nn.Module]], known: set[int]) -> Iterator[tuple[str, nn.Module]]:
    """Modules outside `known` that attributes, containers or plain objects lead to, with the way to them."""
    waiting: deque[tuple[str, object, int]] = deque()
    for path, module in registered:
        waiting.extend((path + step, value, 0) for step, value in _attributes(module, bool(path)))
    seen: set[int] = set()
    while waiting and len(seen) < _MOST:
        path, value, depth = waiting.popleft()
        if id(value) in seen or id(value) in known or isinstance(value, _LEAVES) or depth > _DEEPEST:
            continue
        seen.add(id(value))
        if isinstance(value, nn.Module):
            known.update(id(module) for module in value.modules())
            yield path, value
            for name, module in value.named_modules(prefix=path):
                waiting.extend((name + step, item, 0) for step, item in _attributes(module, True))
        else:
            waiting.extend((path + step, item, depth + 1) for step, item in _inside(value))


_LEAVES = (torch.Tensor, str, bytes, int, float, type, type(None), torch.dtype, torch.device)
_OWN = frozenset({"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "training"})


def _attributes(module: nn.Module, dotted: bool) -> Iterator[tuple[str, object]]:
    if isinstance(module, torch.jit.ScriptModule):
        return
    for name, value in list(module.__dict__.items()):
        if name not in _OWN and not (name.startswith("_") and "_hooks" in name):
            yield (f".{name}" if dotted else name), value


def _inside(value: object) -> Iterable[tuple[str, object]]:
    if isinstance(value, (list, tuple, deque, set, frozenset)):
        return [(f"[{index}]", item) for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", item) for key, item in list(value.items())]
    if isinstance(value, functools.partial):
        return [(".func", value.func), (".args", value.args), (".keywords", value.keywords)]
    if isinstance(value, types.MethodType):
        return [(".__self__", value.__self__)]
    if isinstance(value, types.FunctionType):
        return _closed_over(value)
    inner = getattr(value, "__dict__", None)
    if isinstance(inner, dict) and not type(value).__module__.startswith(("torch.", "numpy.", "builtins")):
        return [(f".{name}", item) for name, item in list(inner.items())]
    return []


def _closed_over(function: types.FunctionType) -> list[tuple[str, object]]:
    """What a function holds by its closure and its defaults."""
    found: list[tuple[str, object]] = [(".__defaults__", function.__defaults__)]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with contextlib.suppress(ValueError):  # a name that was not bound yet
            found.append((f".__closure__[{name!r}]", cell.cell_contents))
    return found
