"""Which normalization calls of TorchScript code are one layer, and what the layer is called.

Calls with the tensors of one norm module are that module. Anything else is named after the method it stands in
(`encoder.forward.batch_norm`); such calls are one layer when they use the same tensors of a module, or when they stand
in different arms of one condition (tensors alone prove nothing in frozen code, where equal ones are stored once).
"""

from __future__ import annotations

from collections.abc import Iterable

from bnaudit.description import NormKind
from bnaudit.reading.modules.norm_classes import STATISTICAL, kind_of_class
from bnaudit.reading.torchscript.code import CodeLibrary
from bnaudit.reading.torchscript.frames import exclusive
from bnaudit.reading.torchscript.objects import ScriptObject
from bnaudit.reading.torchscript.sites import Site

SLOTS = ("running_mean", "running_var", "weight", "bias")
_ROLES = (*SLOTS, "num_batches_tracked", "gamma", "beta", "scale")
_SETTINGS = frozenset({"eps", "num_features", "track_running_stats", "normalized_shape", "num_groups"})


class NormGroup:
    """One norm layer: its name, the module that owns it (`is_module`) or whose method calls it, and its calls."""

    __slots__ = ("is_module", "kind", "name", "operator", "owner", "sites")

    def __init__(
        self, name: str, owner: ScriptObject | None, kind: NormKind | None, sites: list[Site], *, is_module: bool
    ) -> None:
        self.name = name
        self.owner = owner
        self.kind = kind
        """What the module's class says."""
        self.sites = sites
        self.is_module = is_module
        self.operator = f"torch.{sites[0].call.operator}" if sites else ""

    def agrees(self, site: Site) -> bool:
        """Whether a call uses no other tensors than the group's, slot by slot."""
        return all(
            None in pair or pair[0] == pair[1]
            for pair in zip(tensor_names(self.sites[0]), tensor_names(site), strict=True)
        )

    def repeats(self, site: Site) -> bool:
        """Whether a call in a method is this layer again."""
        first, call = self.sites[0].call, site.call
        same = (first.operator, first.owner, first.method) == (call.operator, call.owner, call.method)
        if not same or tensor_names(self.sites[0]) != tensor_names(site):
            return False
        owned = any(found is not None and found.owner is not None for found in map(site.stored, SLOTS))
        return owned or all(exclusive(known.call.branches, call.branches) for known in self.sites)


def tensor_names(site: Site) -> tuple[str | None, ...]:
    """The names of the stored tensors that a call uses, by slot."""
    return tuple(found.name if (found := site.stored(slot)) is not None else None for slot in SLOTS)


def module_kind(target: ScriptObject, library: CodeLibrary) -> NormKind | None:
    """The kind of norm that a module is by its class name and attributes, None: none."""
    spoken = kind_of_class(target.class_name)
    if target.tensor("running_mean") is not None and target.tensor("running_var") is not None:
        return spoken if spoken in STATISTICAL else NormKind.UNKNOWN
    if spoken is None or any(isinstance(value, ScriptObject) for value in target.attributes.values()):
        return None
    code = library.class_code(target.type_name)
    settings = set(target.attributes) | (set(code.constants) if code is not None else set())
    has_tensors = any(target.tensor(role) is not None for role in _ROLES)
    is_one = has_tensors or settings & _SETTINGS or target.class_name.startswith("torch.nn.modules.")
    return spoken if is_one else None


def norm_groups(objects: Iterable[ScriptObject], sites: Iterable[Site], library: CodeLibrary) -> list[NormGroup]:
    """The norm layers in the order in which the code reaches them, then the modules that it does not reach."""
    grouping = _Grouping(library)
    for site in sites:
        if site.call.signature.role == "norm":
            grouping.add(site)
    for target in objects:
        grouping.add_module(target)
    return grouping.groups


class _Grouping:
    def __init__(self, library: CodeLibrary) -> None:
        self.groups: list[NormGroup] = []
        self._library = library
        self._modules: dict[int, NormGroup] = {}
        self._kinds: dict[int, NormKind | None] = {}
        self._in_methods: dict[tuple[str, str, str], list[NormGroup]] = {}
        self._names: set[str] = set()

    def add(self, site: Site) -> None:
        owner = self._module_of(site)
        if owner is None:
            self._add_call(site)
        elif id(owner) not in self._modules:
            self._open(NormGroup(owner.path, owner, self._kind(owner), [site], is_module=True))
        elif self._modules[id(owner)].agrees(site):
            self._modules[id(owner)].sites.append(site)
        else:
            self._add_call(site)

    def add_module(self, target: ScriptObject) -> None:
        kind = self._kind(target)
        if kind is not None and id(target) not in self._modules:
            self._open(NormGroup(target.path, target, kind, [], is_module=True))

    def _open(self, group: NormGroup) -> None:
        self.groups.append(group)
        self._names.add(group.name)
        if group.is_module:
            self._modules[id(group.owner)] = group

    def _add_call(self, site: Site) -> None:
        call = site.call
        path = call.owner.name_of(call.method) if call.owner is not None else call.method
        known = self._in_methods.setdefault((path, call.operator, "|".join(map(str, tensor_names(site)))), [])
        again = next((group for group in known[-8:] if group.repeats(site)), None)
        if again is not None:
            again.sites.append(site)
            return
        name = self._unused(f"{path}.{call.operator.rpartition('.')[2]}")
        group = NormGroup(name, call.owner, None, [site], is_module=False)
        known.append(group)
        self._open(group)

    def _unused(self, base: str) -> str:
        name, number = base, 0
        while name in self._names:
            number += 1
            name = f"{base}_{number}"
        return name

    def _module_of(self, site: Site) -> ScriptObject | None:
        """The module whose layer a call is: the owner of its tensors, or the one whose method it stands in."""
        owners = [found.owner for slot in SLOTS if (found := site.stored(slot)) is not None]
        owner = next((found for found in owners if found is not None), None)
        if owner is not None and (self._kind(owner) is not None or _only_normalizes(owner, site)):
            return owner
        caller = site.call.owner
        return caller if owner is None and caller is not None and self._kind(caller) is not None else None

    def _kind(self, target: ScriptObject) -> NormKind | None:
        if id(target) not in self._kinds:
            self._kinds[id(target)] = module_kind(target, self._library)
        return self._kinds[id(target)]


def _only_normalizes(owner: ScriptObject, site: Site) -> bool:
    """Whether a module holds nothing but the tensors of this call, whatever its class is called."""
    if not owner.path or any(isinstance(value, ScriptObject) for value in owner.attributes.values()):
        return False
    used = {found.ref.identity for slot in SLOTS if (found := site.stored(slot)) is not None}
    held = [ref for name in owner.attributes if (ref := owner.tensor(name)) is not None and len(ref.shape) > 0]
    return all(ref.identity in used for ref in held)
