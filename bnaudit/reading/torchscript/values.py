"""What is known of a value while TorchScript code is followed without being run."""

from __future__ import annotations

from bnaudit.reading.tensors.tensor_refs import TensorRef
from bnaudit.reading.torchscript.objects import ScriptObject

Plain = bool | int | float | str | None


class Known:
    """A plain value."""

    __slots__ = ("value",)

    def __init__(self, value: Plain) -> None:
        self.value = value


class StoredValue:
    """A tensor of the archive: an attribute of an object, or `CONSTANTS.cN` (then there is no owner)."""

    __slots__ = ("attribute", "name", "owner", "ref")

    def __init__(self, name: str, ref: TensorRef, owner: ScriptObject | None, attribute: str) -> None:
        self.name = name
        self.ref = ref
        self.owner = owner
        self.attribute = attribute


class Items:
    """A list or tuple of known length."""

    __slots__ = ("values",)

    def __init__(self, values: list[Value]) -> None:
        self.values = values


class Named:
    """A name of the code that is no variable: `torch.batch_norm`, `__torch__.torch.nn.functional.dropout`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class OneOf:
    """One of several objects: a ModuleList indexed by something that depends on the input."""

    __slots__ = ("objects",)

    def __init__(self, objects: list[ScriptObject]) -> None:
        self.objects = objects


class Computed:
    """A value that depends on what the model is given."""

    __slots__ = ("one_sample",)

    def __init__(self, one_sample: bool) -> None:
        self.one_sample = one_sample
        """A view made its first size 1: statistics over it do not mix samples."""


Value = Known | StoredValue | Items | Named | OneOf | Computed | ScriptObject

UNKNOWN = Computed(one_sample=False)
ONE_SAMPLE = Computed(one_sample=True)


def join(first: Value, second: Value, depth: int = 2) -> Value:
    """What is known of a value that is one or the other. Lists in lists in lists are not compared."""
    if first is second:
        return first
    if isinstance(first, Known) and isinstance(second, Known):
        same = type(first.value) is type(second.value) and first.value == second.value
        return first if same else UNKNOWN
    if isinstance(first, StoredValue) and isinstance(second, StoredValue):
        return first if first.name == second.name else UNKNOWN
    if isinstance(first, Items) and isinstance(second, Items) and len(first.values) == len(second.values) and depth:
        return Items([join(*pair, depth - 1) for pair in zip(first.values, second.values, strict=True)])
    if isinstance(first, Named) and isinstance(second, Named) and first.name == second.name:
        return first
    return UNKNOWN


def truth(value: Value) -> bool | None:
    """Whether a condition holds; None: it depends."""
    return bool(value.value) if isinstance(value, Known) else None


def is_none(value: Value) -> bool | None:
    """Whether a value is None; None: it depends."""
    if isinstance(value, Known):
        return value.value is None
    return None if isinstance(value, Computed) else False


def constant_value(value: object) -> Value:
    """A literal of the code as a value."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return Known(value)
    if isinstance(value, (tuple, list)):
        return Items([constant_value(item) for item in value])
    return UNKNOWN


def stored_value(owner: ScriptObject | None, name: str, value: object) -> Value:
    """What data.pkl or constants.pkl holds, as a value; `name` is the attribute, or the name of the constant."""
    if isinstance(value, ScriptObject):
        return value
    if isinstance(value, TensorRef):
        return StoredValue(owner.name_of(name) if owner is not None else name, value, owner, name)
    if isinstance(value, list):
        return Items([stored_value(owner, f"{name}[{index}]", item) for index, item in enumerate(value)])
    return constant_value(value)
