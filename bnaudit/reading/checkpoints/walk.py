"""Finds what a pickled checkpoint holds: dicts of tensors, pickled modules, optimizers, step counts.

The walk follows every container, and the attributes of objects of foreign classes, once each: pickles can be cyclic
and as deep as they are long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bnaudit.description import Gap
from bnaudit.reading.checkpoints.optimizer_state import holds_state, is_optimizer, names_optimizer
from bnaudit.reading.checkpoints.tally import OBJECT, TENSOR, Tally
from bnaudit.reading.modules.objects import as_module
from bnaudit.reading.modules.tensors import ModuleTensors
from bnaudit.reading.pickles.stand_ins import Call, PickleDict
from bnaudit.reading.tensors.tensor_refs import TensorRef
from bnaudit.reading.tensors.torch_tensors import TorchTensors

Path = tuple[str, ...]

_DEEPEST = 100
"""Containers nested deeper than any checkpoint; a pickle can nest millions."""
_LONGEST_KEY = 200
_MOST_NAMING = 16 << 20
"""Characters of all paths together."""
_MOST_REPEATED = 100
_MOST_SEARCHED = 100
_PLAIN = (int, float, bool, str, bytes, type(None))
_CONTAINERS = (PickleDict, Call, list, tuple)


class _Place:
    """Where a container is. Linked, so that a place costs the same at every depth."""

    __slots__ = ("depth", "key", "parent")

    def __init__(self, parent: _Place | None, key: str) -> None:
        self.parent = parent
        self.key = key
        self.depth: int = parent.depth + 1 if parent is not None else 0

    @property
    def path(self) -> Path:
        """The keys from the root to here."""
        keys = []
        place = self
        while place.parent is not None:
            keys.append(place.key)
            place = place.parent
        return tuple(reversed(keys))


class TensorDict:
    """A dict that holds tensors directly: a state dict, one layer of a nested one, or something else with tensors."""

    __slots__ = ("entries", "path", "position", "versions")

    def __init__(
        self, position: int, path: Path, versions: dict[str, int] | None, entries: list[tuple[str, TensorRef]]
    ) -> None:
        self.position = position
        self.path = path
        self.versions = versions
        """Class versions of `_metadata` by layer name; None: it has no `_metadata`."""
        self.entries = entries


class Found:
    """What the walk has found. The integers are positions in the order of the file."""

    __slots__ = ("dicts", "gaps", "loose", "modules", "optimizers", "scalars", "twice")

    def __init__(self) -> None:
        self.dicts: list[TensorDict] = []
        self.modules: list[tuple[int, Path, Call]] = []
        self.optimizers: list[object] = []
        self.loose = 0
        """Tensors that stand in no dict."""
        self.twice: list[tuple[Path, Path]] = []
        """Dicts and modules that are one object under two paths: (second, first)."""
        self.scalars: dict[str, object] = {}
        """The first plain value under each key that says something about the whole checkpoint."""
        self.gaps: list[Gap] = []


_TELLING = frozenset(("global_step", "global_steps", "pytorch-lightning_version", "ds_version"))


def walk(root: object, tensors: TorchTensors, tally: Tally | None = None) -> Found:
    """Everything under `root`, the value of a pickle. Nothing is read but the pickle itself.

    Raises CapExceededError when there is more than the tally allows.
    """
    return _Walk(tensors, tally if tally is not None else Tally()).run(root)


class _Walk:
    __slots__ = ("_found", "_naming", "_owners", "_reader", "_searched", "_seen", "_stack", "_tally", "_tensors")

    def __init__(self, tensors: TorchTensors, tally: Tally) -> None:
        self._tally = tally
        self._tensors = tensors
        self._reader = ModuleTensors(tensors)
        self._found = Found()
        self._seen: set[int] = set()
        self._owners: dict[int, Path] = {}
        self._stack: list[Iterator[tuple[_Place, object]]] = []
        self._naming = 0
        self._searched = 0

    def run(self, root: object) -> Found:
        self._stack.append(iter([(_Place(None, ""), root)]))
        while self._stack:
            item = next(self._stack[-1], None)
            if item is None:
                self._stack.pop()
            else:
                self._visit(*item)
        return self._found

    def _visit(self, place: _Place, value: object) -> None:
        self._tally.objects(OBJECT if isinstance(value, Call) else 1)
        if id(value) in self._seen:
            if id(value) in self._owners and len(self._found.twice) < _MOST_REPEATED:
                self._found.twice.append((place.path, self._owners[id(value)]))
            return
        self._seen.add(id(value))
        if isinstance(value, Call) and self._is_leaf(place, value):
            return
        if place.depth >= _DEEPEST:
            self._gap(place, f"nested more than {_DEEPEST} deep")
            return
        pairs = pairs_of(value)
        if is_optimizer(value, pairs):
            self._found.optimizers.append(value)
            return
        if pairs is not None:
            self._visit_pairs(place, value, pairs)
        if isinstance(value, (list, tuple)):
            self._push(place, enumerate(value))
        if isinstance(value, Call):
            self._push_attributes(place, value)

    def _is_leaf(self, place: _Place, value: Call) -> bool:
        if self._reader.ref(value) is not None:
            self._found.loose += 1
            return True
        if as_module(value) is not None:
            self._owners[id(value)] = place.path
            self._found.modules.append((len(self._seen), place.path, value))
            return True
        name = value.callee_name
        if name.startswith("torch.") and "._rebuild_" in name:
            self._gap(place, f"a tensor that {name} would rebuild is not read")
            return True
        return False

    def _visit_pairs(self, place: _Place, value: object, pairs: PickleDict) -> None:
        entries: list[tuple[str, TensorRef]] = []
        keys: list[object] = []
        inner: list[object] = []
        for key, item in pairs.pairs():
            if type(item) in _PLAIN:
                if isinstance(key, str) and key in _TELLING:
                    self._found.scalars.setdefault(key, item)
                continue
            ref = self._reader.ref(item) if isinstance(item, Call) else None
            if ref is not None:
                self._tally.objects(TENSOR)
                entries.append((_text(key), ref))
            elif names_optimizer(_text(key)) and self._is_optimizer(item):
                self._found.optimizers.append(item)
            elif key != "_metadata":
                keys.append(key)
                inner.append(item)
        if entries and self._affords(place, entries):
            held = TensorDict(len(self._seen), place.path, _versions(value, pairs), entries)
            self._owners[id(value)] = held.path
            self._found.dicts.append(held)
        self._push(place, zip(keys, inner, strict=True))

    def _is_optimizer(self, value: object) -> bool:
        """Whether what is called an optimizer holds its state; only the first ones are searched."""
        if id(value) in self._seen or self._searched >= _MOST_SEARCHED:
            return False
        self._searched += 1
        found = holds_state(value, self._tensors)
        if found:
            self._seen.add(id(value))
        return found

    def _affords(self, place: _Place, entries: list[tuple[str, TensorRef]]) -> bool:
        """Count the characters of the names to be; False, and a gap once, when all together are too many."""
        within = self._naming <= _MOST_NAMING
        self._naming += sum(map(len, place.path)) * len(entries) + sum(len(key) for key, _ in entries)
        if within and self._naming > _MOST_NAMING:
            self._gap(place, "the names of its tensors are too long to be listed")
        return self._naming <= _MOST_NAMING

    def _push_attributes(self, place: _Place, value: Call) -> None:
        states = value.state if isinstance(value.state, tuple) else (value.state,)
        held = (*states, value.args, value.appended)
        self._stack.append((place, part) for part in held if isinstance(part, _CONTAINERS) and part)

    def _push(self, place: _Place, items: Iterable[tuple[object, object]]) -> None:
        self._stack.append(
            (_Place(place, _text(key)[:_LONGEST_KEY]), item)
            for key, item in items
            if isinstance(item, _CONTAINERS) and item
        )

    def _gap(self, place: _Place, why: str) -> None:
        self._found.gaps.append(Gap(where=".".join(place.path), why=why))


def pairs_of(value: object) -> PickleDict | None:
    """The pairs of a dict or of an object of any class that was filled like one."""
    if isinstance(value, PickleDict):
        return value
    return value.items if isinstance(value, Call) else None


def _text(key: object) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bytes):
        return key.decode("utf-8", "backslashreplace")
    return str(key) if isinstance(key, (int, float)) else "?"


def _versions(value: object, pairs: PickleDict) -> dict[str, int] | None:
    """`_metadata` of a state dict: an attribute of the OrderedDict, in some files an item."""
    state = value.state if isinstance(value, Call) else None
    metadata = state.get("_metadata") if isinstance(state, PickleDict) else None
    layers = pairs_of(metadata if metadata is not None else pairs.get("_metadata"))
    if layers is None:
        return None
    versions = {}
    for layer, local in layers.pairs():
        version = local.get("version") if isinstance(local, PickleDict) else None
        if isinstance(layer, str) and isinstance(version, int) and not isinstance(version, bool):
            versions[layer] = version
    return versions
