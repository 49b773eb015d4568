"""What getattr would fetch: whose attribute it is and what it is called, without fetching anything."""

from __future__ import annotations

from bnaudit.reading.pickles.stand_ins import Call, Fetched, Global, LazyBytes, PickleDict

COMPUTED = "?"
"""Stands for an attribute name that the pickle computes, and for an owner without a name."""
_LONGEST_NAME = 200
_TYPES = frozenset(("builtins.type", "__builtin__.type"))
_PROTOCOL = frozenset(f"__{name}__" for name in ("call", "contains", "getitem", "iter", "len", "next"))
"""What an object built in the pickle does itself: a stored `vocabulary.__getitem__` leads nowhere else."""


def is_attribute_access(callee: Global) -> bool:
    """Whether it is getattr, under whatever module's name."""
    return callee.name == "getattr" or callee.name.endswith(".getattr")


def is_foreign(value: object) -> bool:
    """Whether a value exists outside the pickle: a global, what was fetched from one, the class of an object."""
    if isinstance(value, Fetched):
        return value.foreign
    if isinstance(value, Call):
        return isinstance(value.callee, Global) and value.callee.full_name in _TYPES and len(value.args) == 1
    return isinstance(value, Global)


def fetched(callee: Global, args: tuple[object, ...]) -> Fetched | None:
    """What stands for `getattr(owner, name[, default])`; None: arguments that getattr refuses."""
    if len(args) < 2:
        return None
    owner, attribute = args[:2]
    known = isinstance(attribute, str)
    name = attribute if isinstance(attribute, str) else COMPUTED
    leads_out = name.startswith("__") and name.endswith("__") and name not in _PROTOCOL
    full_name = f"{_name(owner)}.{name}"
    if len(full_name) > _LONGEST_NAME:
        full_name = f"….{full_name[-_LONGEST_NAME:]}"
    return Fetched(callee, args, full_name, is_foreign(owner) or leads_out or not known)


def _name(owner: object) -> str:
    """The dotted name of a global or an attribute; for an object, that of its class or of what made it."""
    if isinstance(owner, (Global, Fetched)):
        return owner.full_name
    if isinstance(owner, Call):
        return owner.callee.full_name if isinstance(owner.callee, (Global, Fetched)) else COMPUTED
    if isinstance(owner, PickleDict):
        return "builtins.dict"
    if isinstance(owner, LazyBytes):
        return "builtins.str" if owner.text else "builtins.bytes"
    plain = isinstance(owner, (str, bytes, int, float, list, tuple))
    return f"builtins.{type(owner).__name__}" if plain else COMPUTED
