"""Live modules as the stand-ins that a pickle of them would give, so that one reader describes both.

Nothing is pickled: what a pickle cannot hold (a lambda, an open file) hides nothing.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from bnaudit.reading.pickles.stand_ins import Call, Global, PickleDict
from bnaudit.torch_session.live_tensors import LiveTensor
from bnaudit.torch_session.script_attributes import is_script

_MOST = 300_000
_PLAIN = (int, float, bool, str, bytes, type(None))
_SEQUENCES = (set, frozenset)
_DERIVED = ("_graph", "_code")
"""Of a GraphModule: they say what its modules say."""
_SCALAR = Call(Global("numpy._core.multiarray", "scalar"), ())
_SECTIONS = ("_modules", "_parameters", "_buffers")


class StandIns:
    """Makes one stand-in for each object.

    skip: attributes of modules that are no part of a model, such as the trainer that a LightningModule holds.
    """

    def __init__(self, skip: frozenset[str] = frozenset()) -> None:
        self._skip = skip
        self._made: dict[int, object] = {}
        self._alive: list[object] = []
        self._waiting: list[Callable[[], None]] = []

    def of(self, root: nn.Module) -> Call:
        """The stand-in of a module with everything under it."""
        made = self._stand_in(root)
        while self._waiting:
            self._waiting.pop()()
        assert isinstance(made, Call)
        return made

    def _stand_in(self, value: Any) -> object:
        if type(value) in _PLAIN:
            return value
        if isinstance(value, np.generic):
            return _SCALAR
        if id(value) not in self._made:
            if len(self._made) > _MOST:
                return None
            self._alive.append(value)
            self._made[id(value)] = self._new(value)
        return self._made[id(value)]

    def _new(self, value: Any) -> object:
        if isinstance(value, torch.Tensor):
            return LiveTensor(value)
        if isinstance(value, nn.Module):
            made = Call(_class(type(value), value), ())
            self._later(self._fill_module, made, value)
            return made
        if isinstance(value, dict):
            entries = PickleDict()
            self._later(self._fill, entries, value)
            return entries
        if isinstance(value, (list, tuple)):
            items: list[object] = []
            self._later(lambda: items.extend(map(self._stand_in, value)))
            return items
        return self._object(value)

    def _object(self, value: Any) -> object:
        kind = type(value)
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)):
            return Global(getattr(value, "__module__", None) or "", getattr(value, "__qualname__", value.__name__))
        if isinstance(value, types.MethodType):
            made = Call(Global("builtins", "getattr"), ())
            self._later(lambda: setattr(made, "args", (self._stand_in(value.__self__), value.__name__)))
            return made
        made = Call(_class(kind), ())
        if kind.__module__.startswith(("numpy", "torch._C", "torch.fx.graph", "torch.fx.node")) or kind is torch.Size:
            return made
        if isinstance(value, functools.partial):
            four = (value.func, value.args, value.keywords, dict(value.__dict__))
            self._later(lambda: setattr(made, "state", tuple(map(self._stand_in, four))))
        elif isinstance(value, _SEQUENCES):
            self._later(lambda: setattr(made, "appended", [self._stand_in(item) for item in value]))
        else:
            self._later(self._fill_object, made, value)
        return made

    def _fill(self, entries: PickleDict, value: Mapping[Any, object]) -> None:
        for key, item in list(value.items()):
            entries[key if type(key) in _PLAIN else self._stand_in(key)] = self._stand_in(item)

    def _fill_object(self, made: Call, value: Any) -> None:
        attributes = dict(getattr(value, "__dict__", None) or {})
        for base in type(value).__mro__:
            slots = base.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name != "__dict__" and hasattr(value, name):
                    attributes.setdefault(name, getattr(value, name))
        if type(value).__name__ in ("deque",):
            made.appended = [self._stand_in(item) for item in value]
        made.state = PickleDict()
        self._fill(made.state, attributes)

    def _fill_module(self, made: Call, module: nn.Module) -> None:
        made.state = PickleDict()
        attributes = _attributes(module)
        self._fill(made.state, {key: value for key, value in attributes.items() if key not in self._skip})

    def _later(self, work: Callable[..., None], *arguments: object) -> None:
        self._waiting.append(functools.partial(work, *arguments))


def _attributes(module: nn.Module) -> dict[str, object]:
    """What a pickle of the module would hold of its `__dict__`."""
    if is_script(module):
        return {
            "training": bool(getattr(module, "training", False)),
            "_parameters": dict(module.named_parameters(recurse=False)),
            "_buffers": dict(module.named_buffers(recurse=False)),
            "_modules": dict(module.named_children()),
        }
    attributes = dict(module.__dict__)
    if type(module).__name__ == "OptimizedModule":
        return {key: attributes.get(key, {}) for key in _SECTIONS}
    if isinstance(module, torch.fx.GraphModule):
        attributes = {key: value for key, value in attributes.items() if key not in _DERIVED}
    parametrized = module._modules.get("parametrizations")
    for name in parametrized._modules if isinstance(parametrized, nn.ModuleDict) else ():
        with torch.no_grad():
            attributes.setdefault(name, getattr(module, name))
    return attributes


def _class(kind: type, module: nn.Module | None = None) -> Global:
    if isinstance(module, torch.fx.GraphModule):
        return Global("torch.fx.graph_module", "GraphModule")
    if module is not None and is_script(module):
        name = str(module._c.qualified_name).removeprefix("__torch__.")  # type: ignore[union-attr]
        pieces = [piece for piece in name.split(".") if not piece.startswith("___torch_mangle")]
        return Global(".".join(pieces[:-1]), pieces[-1])
    return Global(kind.__module__, kind.__qualname__)
