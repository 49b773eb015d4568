"""Layers of a TorchScript archive, other than norms, whose output depends on the mode."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bnaudit.description import ModeDependent
from bnaudit.reading.modules.mode_classes import mode_of_class
from bnaudit.reading.torchscript.code import CodeLibrary
from bnaudit.reading.torchscript.objects import ScriptObject
from bnaudit.reading.torchscript.randomness import Randomness, randomness
from bnaudit.reading.torchscript.settings import flag, number, whole
from bnaudit.reading.torchscript.sites import Site

_PROBABILITIES = {
    "dropout": ("p", "drop_prob", "dropout"),
    "stochastic-depth": ("p", "drop_prob", "drop_rate"),
    "attention": ("dropout", "dropout_p", "attn_dropout"),
    "recurrent": ("dropout",),
}


class _Entry(NamedTuple):
    name: str
    kind: str
    class_name: str
    owner: ScriptObject | None


def mode_dependent(
    objects: Iterable[ScriptObject], sites: Iterable[Site], library: CodeLibrary
) -> tuple[ModeDependent, ...]:
    """In the order in which the code reaches them, then modules that it does not reach; none with probability 0."""
    collected = _Collected(library)
    for site in sites:
        collected.add_call(site)
    for target in objects:
        collected.add_module(target)
    return tuple(entry for entry in collected.found.values() if entry.probability != 0)


class _Collected:
    def __init__(self, library: CodeLibrary) -> None:
        self.found: dict[str, ModeDependent] = {}
        self._library = library
        self._modules: set[int] = set()
        self._numbers: dict[str, int] = {}

    def add_call(self, site: Site) -> None:
        """A call in a module of a known kind is that module; any other is named after its method."""
        owner = site.call.owner
        kind = _kind_of_class(owner)
        seen = randomness(site, in_drop_path=kind == "stochastic-depth")
        if seen is None:
            return
        if kind is not None and owner is not None:
            self._modules.add(id(owner))
            self._add(_Entry(owner.path, kind, owner.class_name, owner), seen)
        else:
            name = self._name(site)
            self._add(_Entry(name, site.call.signature.role, f"torch.{site.call.operator}", owner), seen)

    def add_module(self, target: ScriptObject) -> None:
        """A module whose class is known and of which no call was seen."""
        kind = _kind_of_class(target)
        if kind is None or id(target) in self._modules:
            return
        alone = kind == "recurrent" and whole(target, "num_layers", self._library) == 1
        if kind == "rrelu" or (not alone and _probability(target, kind, self._library)):
            self._add(_Entry(target.path, kind, target.class_name, target), Randomness(None, None))

    def _add(self, entry: _Entry, seen: Randomness) -> None:
        known = self.found.get(entry.name)
        if known is not None:
            seen = seen.beside(Randomness(known.probability, known.graph_training))
        probability = seen.probability
        if probability is None and entry.owner is not None and entry.class_name == entry.owner.class_name:
            probability = _probability(entry.owner, entry.kind, self._library)
        self.found[entry.name] = ModeDependent(
            name=entry.name,
            kind=entry.kind,
            class_name=entry.class_name,
            probability=probability,
            training=flag(entry.owner, "training", self._library),
            graph_training=seen.graph_training,
        )

    def _name(self, site: Site) -> str:
        call = site.call
        path = call.owner.name_of(call.method) if call.owner is not None else call.method
        base = f"{path}.{call.operator}"
        count = self._numbers[base] = self._numbers.get(base, -1) + 1
        return f"{base}_{count}" if count else base


def _kind_of_class(owner: ScriptObject | None) -> str | None:
    return None if owner is None else mode_of_class(owner.short_name)


def _probability(owner: ScriptObject, kind: str, library: CodeLibrary) -> float | None:
    names = _PROBABILITIES.get(kind, ())
    return next((p for name in names if (p := number(owner, name, library)) is not None), None)
