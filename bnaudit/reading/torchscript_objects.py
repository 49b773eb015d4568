"""The tree of objects in a TorchScript archive's `data.pkl`.

Every object is pickled as its class (`__torch__.…`, with `___torch_mangle_3` where several classes share a name) and
its state: a dict of attributes, or whatever the class's `__getstate__` returned.
"""

from __future__ import annotations

import re
from typing import Protocol

from bnaudit.reading.stand_ins import Call, PickleDict
from bnaudit.reading.tensor_refs import TensorRef

_MANGLE = re.compile(r"\.___torch_mangle_\d+")
_CUSTOM_CLASSES = "__torch__.torch.classes."
_WRAPPERS = "torch.jit._pickle."
_NAMES = 64 << 20
"""Characters of all names together; a chain of objects through memo references could make them grow quadratically."""


class Opaque:
    """A value that is not read: custom classes, devices, sets."""

    __slots__ = ()


OPAQUE = Opaque()


class ScriptObject:
    """One object: a module, or an instance of another scripted class.

    `path` is the first way to it (`layer1.0.bn1`, "" for the root). `state` holds the values of a state without names.
    """

    __slots__ = ("attributes", "path", "state", "type_name")

    def __init__(self, path: str, type_name: str) -> None:
        self.path = path
        self.type_name = type_name
        self.attributes: dict[str, object] = {}
        self.state: list[object] | None = None

    @property
    def class_name(self) -> str:
        """The qualified Python class (`torch.nn.modules.batchnorm.BatchNorm2d`), unmangled."""
        return _MANGLE.sub("", self.type_name).removeprefix("__torch__.")

    @property
    def short_name(self) -> str:
        """The class without its module (`BatchNorm2d`)."""
        return self.type_name.rpartition(".")[2]

    @property
    def is_custom_class(self) -> bool:
        """A C++ class bound to TorchScript (`torch.classes.quantized.LinearPackedParamsBase`)."""
        return self.type_name.startswith(_CUSTOM_CLASSES)

    def tensor(self, name: str) -> TensorRef | None:
        """The tensor that an attribute holds, None when it holds none."""
        value = self.attributes.get(name)
        return value if isinstance(value, TensorRef) else None

    def name_of(self, attribute: str) -> str:
        """The dotted name of an attribute."""
        return f"{self.path}.{attribute}" if self.path else attribute


class Tensors(Protocol):
    """Turns what a pickle says of a tensor into a reference to it."""

    def tensor(self, value: object) -> TensorRef | None: ...


class ObjectTree:
    """The objects under one pickled value, each once, in file order, and all its tensors by name.

    Attributes are ScriptObject, TensorRef, lists of such, plain values, or OPAQUE. `complete` is False when the names
    grew beyond all reason and the rest was left out.
    """

    def __init__(self, root: object, tensors: Tensors) -> None:
        self.objects: list[ScriptObject] = []
        self.tensors: dict[str, TensorRef] = {}
        self.complete = True
        self._named = 0
        self._source = tensors
        self._known: dict[int, object] = {}
        self._pending: list[tuple[ScriptObject, object]] = []
        self._nested: list[tuple[list[object], int, object, str]] = []
        self.root = self._convert(root, "")
        self._finish()

    def _finish(self) -> None:
        """Fill what was met and not yet looked into, without recursion: a pickle nests as deeply as it likes."""
        while self._nested or self._pending:
            if self._nested:
                items, index, raw, path = self._nested.pop()
                items[index] = self._convert(raw, f"{path}[{index}]")
            else:
                self._fill(*self._pending.pop())

    def _fill(self, target: ScriptObject, state: object) -> None:
        if isinstance(state, PickleDict):
            for key, raw in state.pairs():
                if isinstance(key, str):
                    target.attributes[key] = self._convert(raw, target.name_of(key))
        elif isinstance(state, (tuple, list)):
            target.state = self._items(state, target.path)
        elif state is not None:
            target.state = self._items([state], target.path)

    def _convert(self, raw: object, path: str) -> object:
        if raw is None or isinstance(raw, (bool, int, float, str)):
            return raw
        known = self._known.get(id(raw))
        if known is not None:
            return known
        self._named += len(path)
        if self._named > _NAMES:
            self.complete = False
            return OPAQUE
        found = self._make(raw, path)
        self._known[id(raw)] = found
        return found

    def _make(self, raw: object, path: str) -> object:
        if isinstance(raw, Call) and raw.callee_name.startswith("__torch__."):
            made = ScriptObject(path, raw.callee_name)
            self.objects.append(made)
            self._pending.append((made, raw.state))
            return made
        ref = self._source.tensor(raw)
        if ref is not None:
            self.tensors.setdefault(path, ref)
            return ref
        if isinstance(raw, Call) and raw.callee_name.startswith(_WRAPPERS) and raw.args:
            raw = raw.args[0]  # a list with its element type
        if isinstance(raw, (tuple, list)):
            return self._items(raw, path)
        if isinstance(raw, PickleDict):
            return self._items([value for _, value in raw.pairs()], path)
        return OPAQUE

    def _items(self, raw: tuple[object, ...] | list[object], path: str) -> list[object]:
        items: list[object] = [OPAQUE] * len(raw)
        self._nested.extend((items, index, value, path) for index, value in enumerate(raw))
        return items
