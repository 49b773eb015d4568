"""The tree of objects in a TorchScript archive's `data.pkl`.

Every object is pickled as its class (`__torch__.…`, with `___torch_mangle_3` where several classes share a name) and
its state: a dict of attributes, or whatever the class's `__getstate__` returned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from bnaudit.reading.checkpoints.tally import OBJECT, Tally
from bnaudit.reading.pickles.stand_ins import Call, PickleDict
from bnaudit.reading.tensors.tensor_refs import TensorRef

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


_Child = tuple["dict[str, object] | list[object]", "str | int", object, str]
"""Where a value belongs, its raw form, and its name."""


class ObjectTree:
    """The objects under one pickled value, each once, parents before children, and all its tensors by name.

    Attributes are ScriptObject, TensorRef, lists of such, plain values, or OPAQUE. What is reached twice has the name
    under which it is met first. `complete` is False when the names grew beyond all reason and the rest was left out.

    Raises CapExceededError when there are more objects than the tally allows.
    """

    def __init__(self, root: object, tensors: Tensors, tally: Tally | None = None) -> None:
        self._tally = tally if tally is not None else Tally()
        self.objects: list[ScriptObject] = []
        self.tensors: dict[str, TensorRef] = {}
        self.complete = True
        self._named = 0
        self._source = tensors
        self._known: dict[int, object] = {}
        self._open: list[Iterator[_Child]] = []
        self.root = self._convert(root, "")
        self._walk()

    def _walk(self) -> None:
        """Depth first without recursion: a pickle nests as deeply as it likes."""
        while self._open:
            child = next(self._open[-1], None)
            if child is None:
                self._open.pop()
                continue
            container, key, raw, path = child
            container[key] = self._convert(raw, path)  # type: ignore[index]

    def _convert(self, raw: object, path: str) -> object:
        if raw is None or isinstance(raw, (bool, int, float, str)):
            return raw
        known = self._known.get(id(raw))
        if known is not None:
            return known
        self._tally.objects(OBJECT)
        self._named += len(path)
        if self._named > _NAMES:
            self.complete = False
            return OPAQUE
        found = self._make(raw, path)
        self._known[id(raw)] = found
        return found

    def _make(self, raw: object, path: str) -> object:
        if isinstance(raw, Call) and raw.callee_name.startswith("__torch__."):
            return self._object(ScriptObject(path, raw.callee_name), raw.state)
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

    def _object(self, made: ScriptObject, state: object) -> ScriptObject:
        self.objects.append(made)
        if isinstance(state, PickleDict):
            self._open.append(
                (made.attributes, key, raw, made.name_of(key)) for key, raw in state.pairs() if isinstance(key, str)
            )
        elif isinstance(state, (tuple, list)):
            made.state = self._items(state, made.path)
        elif state is not None:
            made.state = self._items([state], made.path)
        return made

    def _items(self, raw: tuple[object, ...] | list[object], path: str) -> list[object]:
        items: list[object] = [OPAQUE] * len(raw)
        self._open.append((items, index, value, f"{path}[{index}]") for index, value in enumerate(raw))
        return items
