"""Everything that hangs on a model: its modules, registered or not, and whatever their attributes hold."""

from __future__ import annotations

import functools
import logging
import threading
import types
from collections import deque
from collections.abc import Iterable, Iterator, Set
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from bnaudit.torch_session.digests import PLAIN
from bnaudit.torch_session.held_containers import Container, Empty, HeldDict, HeldEmpties, HeldSequence, HeldSet
from bnaudit.torch_session.held_tensors import HeldTensor
from bnaudit.torch_session.held_values import HeldArray, held_bytes, held_generator, held_slot
from bnaudit.torch_session.places import Held
from bnaudit.torch_session.script_attributes import HeldScript, is_script, mentioned_names
from bnaudit.torch_session.wrappers import is_compiled

_MOST = 300_000
"""Objects looked into; a module may hold a whole data set or a trainer."""
_INERT = (
    *PLAIN,
    type,
    types.ModuleType,
    types.BuiltinFunctionType,
    types.CodeType,
    types.GeneratorType,
    logging.Logger,
    type(threading.Lock()),
    type(threading.RLock()),
    np.generic,
    torch.fx.Graph,
    torch.fx.Node,
)
_SIMPLE = frozenset((bool, int, float, str, type(None)))
_BOOKKEEPING = frozenset(key for key, value in vars(nn.Module()).items() if isinstance(value, (dict, set)))
_DERIVED = ("_compiled_call_impl", "_graph")
_SECTIONS = {"_parameters": "parameter", "_buffers": "buffer"}


class Contents(NamedTuple):
    """What was found."""

    tensors: list[HeldTensor]
    containers: list[Container]
    modules: list[tuple[str, nn.Module]]
    """Every module that was met, registered ones first, under how Python would write the way to it."""
    empty: list[Empty]
    """Dicts and sets of PyTorch's own in which there is nothing: most hooks of most modules."""


def contents(root: nn.Module) -> Contents:
    """Copies of all containers under a model, and its tensors (of which nothing is copied yet)."""
    return _Walk(root).run()


class _Walk:
    def __init__(self, root: nn.Module) -> None:
        self._seen: set[int] = set()
        self._alive: list[object] = []
        self._found = Contents([], [], [], [])
        self._waiting: list[tuple[object, Held]] = []
        self._root = root
        self._registered = {id(module) for module in root.modules()}
        self._mentioned: frozenset[str] | None = None

    def run(self) -> Contents:
        """Parameters and buffers first: elsewhere they are only mentioned."""
        registered = list(self._root.named_modules())
        for path, module in registered:
            self._sections(module, path)
        self._waiting += [(module, Held(path, "attribute", _name(module))) for path, module in reversed(registered)]
        while self._waiting:
            self._visit(*self._waiting.pop())
        if self._found.empty:
            self._keep(HeldEmpties(self._found.empty))
        return self._found

    def _visit(self, value: object, held: Held) -> None:
        if isinstance(value, _INERT) or id(value) in self._seen or len(self._seen) > _MOST:
            return
        self._seen.add(id(value))
        self._alive.append(value)  # an id stands for an object only as long as that lives
        if isinstance(value, torch.Tensor):
            self._tensor(value, held)
        elif isinstance(value, nn.Module):
            self._module(value, held)
        elif isinstance(value, (dict, list, tuple, set, frozenset, deque)):
            self._container(value, held)
        elif isinstance(value, np.ndarray):
            if value.dtype.kind != "O":
                self._found.containers.append(HeldArray(value, held))
        elif isinstance(value, bytearray):
            self._found.containers.append(held_bytes(value, held))
        else:
            self._object(value, held)

    def _tensor(self, tensor: torch.Tensor, held: Held) -> None:
        self._found.tensors.append(HeldTensor(tensor, held))
        beside = held._replace(kind="attribute", persistent=False)
        if tensor.is_leaf and tensor.grad is not None:
            self._waiting.append((tensor.grad, beside._replace(path=held.entry(".grad"))))
        attributes = tensor.__dict__
        if attributes:
            self._keep(HeldDict(attributes, beside, attributes=True))
            self._push((item, beside._replace(path=held.entry(f".{key}"))) for key, item in attributes.items())

    def _module(self, module: nn.Module, held: Held) -> None:
        self._found.modules.append((held.path, module))
        owner = _name(module)
        held = held._replace(owner=owner)
        self._sections(module, held.path)
        if is_script(module):
            self._script(module, held)
            return
        attributes = module.__dict__
        self._keep(HeldDict(attributes, held, attributes=True))
        if is_compiled(module):  # what the compiler keeps there is its own
            attributes = {"_modules": attributes["_modules"]}
        for key, value in reversed(attributes.items()):
            if type(value) in _SIMPLE or key in _SECTIONS or key in _DERIVED:
                continue
            if key in _BOOKKEEPING and not value:
                self._found.empty.append((value, held, key))
            elif key == "_modules":
                self._children(value, held)
            else:
                self._waiting.append((value, held._replace(path=held.entry(f".{key}"))))

    def _children(self, children: dict[str, Any], held: Held) -> None:
        if id(children) not in self._seen:
            self._seen.add(id(children))
            self._keep(HeldDict(children, held, attributes=True))
            self._push((child, held._replace(path=held.entry(f".{name}"))) for name, child in children.items())

    def _script(self, module: nn.Module, held: Held) -> None:
        """A scripted module keeps everything in C++, and its children in a wrapper of their own."""
        names: dict[str, Set[str]] = {
            "parameter": {name for name, _ in module.named_parameters(recurse=False)},
            "buffer": {name for name, _ in module.named_buffers(recurse=False)},
        }
        if self._mentioned is None:
            self._mentioned = mentioned_names(self._root)
        children = {name for name, _ in module.named_children()}
        names["attribute"] = self._mentioned - names["parameter"] - names["buffer"] - children
        for kind, chosen in names.items():
            place = held._replace(kind=kind, persistent=kind != "attribute")
            script = HeldScript(module, place, chosen)
            self._keep(script)
            for name, tensor in script.objects():
                self._visit(tensor, place._replace(path=held.entry(f".{name}")))
        self._push((child, held._replace(path=held.entry(f".{name}"))) for name, child in module.named_children())

    def _sections(self, module: nn.Module, path: str) -> None:
        """The dicts of parameters and buffers, and the tensors in them."""
        for section, kind in _SECTIONS.items():
            entries = module.__dict__.get(section)
            if not isinstance(entries, dict) or id(entries) in self._seen:
                continue
            if not entries:
                self._found.empty.append((entries, Held(path, kind, _name(module)), ""))
                continue
            self._seen.add(id(entries))
            left_out = frozenset(getattr(module, "_non_persistent_buffers_set", ()))
            stored = id(module) in self._registered
            held = Held(path, kind, _name(module), stored, left_out)
            self._keep(HeldDict(entries, held, attributes=True))
            for key, tensor in entries.items():
                if tensor is not None:
                    place = Held(held.entry(f".{key}"), kind, held.owner, stored and key not in left_out)
                    self._visit(tensor, place)

    def _container(self, value: Any, held: Held) -> None:
        if isinstance(value, dict):
            self._keep(HeldDict(value, held))
            self._push((key, held) for key in value)
            self._push(
                (item, held._replace(path=held.entry(f"[{key!r}]" if isinstance(key, PLAIN) else "[…]")))
                for key, item in dict.items(value)
                if not isinstance(item, _INERT)
            )
            return
        if isinstance(value, (list, deque)):
            self._keep(HeldSequence(value, held))
        elif isinstance(value, set):
            self._keep(HeldSet(value, held))
        self._push(
            (item, held._replace(path=held.entry(f"[{index}]")))
            for index, item in enumerate(value)
            if not isinstance(item, _INERT)
        )

    def _object(self, value: object, held: Held) -> None:
        """Bound methods, partial functions, generators, and objects of the user's classes."""
        generator = held_generator(value, held)
        if generator is not None:
            self._keep(generator)
            return
        if isinstance(value, types.MethodType):
            self._push([(value.__self__, held._replace(path=held.entry(".__self__")))])
        if isinstance(value, functools.partial):
            self._push((item, held) for item in (value.func, value.args, value.keywords))
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            if attributes or not isinstance(value, types.FunctionType):
                self._keep(HeldDict(attributes, held, attributes=True))
            self._push((item, held._replace(path=held.entry(f".{key}"))) for key, item in attributes.items())
        for name in _slots(type(value)):
            slot = held._replace(path=held.entry(f".{name}"))
            self._keep(held_slot(value, name, slot))
            self._push([(getattr(value, name, None), slot)])

    def _keep(self, container: Container) -> None:
        self._found.containers.append(container)

    def _push(self, items: Iterable[tuple[object, Held]]) -> None:
        self._waiting.extend(reversed([item for item in items if type(item[0]) not in _SIMPLE]))


def _name(module: nn.Module) -> str:
    return getattr(module, "original_name", None) or type(module).__name__


def _slots(kind: type) -> Iterator[str]:
    """The writable slots of Python classes; those of classes written in C cannot be told."""
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                yield (
                    f"_{base.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
                )
