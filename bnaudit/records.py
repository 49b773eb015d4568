"""Records: frozen, keyword-only, slotted values, like dataclasses of that kind.

`dataclasses` writes and compiles six methods for every class, half a millisecond each: ten milliseconds at every
start of the command line, a tenth of the time that an audit takes. A Record's methods are written once, here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_):
        return lambda cls: cls


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=True)
class _RecordType(type):
    """Turns annotations into slots, and what is assigned to them into defaults."""

    _places: tuple[tuple[str, Callable[[Any, Any], None]], ...]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, eq: bool = True) -> _RecordType:
        fields = tuple(
            field for field, kind in namespace.get("__annotations__", {}).items() if "ClassVar" not in str(kind)
        )
        namespace["__slots__"] = fields
        namespace["_defaults"] = {field: namespace.pop(field) for field in fields if field in namespace}
        namespace["_fields"] = fields
        if eq:
            namespace["__eq__"] = _equal
            namespace["__hash__"] = _hash
        made = super().__new__(mcs, name, bases, namespace)
        # What a slot's descriptor sets needs no look-up by name, and does not ask `__setattr__`, which refuses.
        made._places = tuple((field, vars(made)[field].__set__) for field in fields)
        return made


class Record(metaclass=_RecordType, eq=False):
    """A value with named fields. `class Gap(Record)` compares by value, `class Part(Record, eq=False)` by identity.

    Defaults are shared by all instances and must be immutable. Raises TypeError for a missing or unknown field,
    AttributeError when a field is set.
    """

    _fields: ClassVar[tuple[str, ...]]
    _defaults: ClassVar[Mapping[str, Any]]
    _places: ClassVar[tuple[tuple[str, Callable[[Any, Any], None]], ...]]

    def __init__(self, **values: Any) -> None:
        given = {**self._defaults, **values}
        try:
            for field, put in self._places:
                put(self, given[field])
        except KeyError:
            raise TypeError(f"{type(self).__name__} needs {field}") from None
        if len(given) > len(self._places):
            unknown = [name for name in values if name not in self._fields]
            raise TypeError(f"{type(self).__name__} has no {', '.join(unknown)}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted")

    def __repr__(self) -> str:
        shown = ", ".join(f"{field}={getattr(self, field)!r}" for field in self._fields)
        return f"{type(self).__name__}({shown})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), {field: getattr(self, field) for field in self._fields})


_R = TypeVar("_R", bound=Record)


def replace(record: _R, **changes: Any) -> _R:
    """A copy of the record with some fields changed. Raises TypeError for an unknown field."""
    return type(record)(**{**{field: getattr(record, field) for field in record._fields}, **changes})


def _restored(kind: type[_R], values: Mapping[str, Any]) -> _R:
    return kind(**values)


def _equal(self: Record, other: object) -> bool:
    return type(other) is type(self) and all(getattr(self, field) == getattr(other, field) for field in self._fields)


def _hash(self: Record) -> int:
    return hash((type(self), *(getattr(self, field) for field in self._fields)))
