"""Settings of a scripted module: attributes in data.pkl, or `Final` constants in the code."""

from __future__ import annotations

from bnaudit.reading.torchscript.code import CodeLibrary
from bnaudit.reading.torchscript.objects import ScriptObject


def setting(owner: ScriptObject | None, name: str, library: CodeLibrary) -> tuple[bool, object]:
    """Whether a module has a setting, and its value."""
    if owner is None:
        return False, None
    if name in owner.attributes:
        return True, owner.attributes[name]
    code = library.class_code(owner.type_name)
    return (True, code.constants[name]) if code is not None and name in code.constants else (False, None)


def flag(owner: ScriptObject | None, name: str, library: CodeLibrary) -> bool | None:
    """A setting that is True or False."""
    value = setting(owner, name, library)[1]
    return value if isinstance(value, bool) else None


def whole(owner: ScriptObject | None, name: str, library: CodeLibrary) -> int | None:
    """A setting that is an integer."""
    value = setting(owner, name, library)[1]
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(owner: ScriptObject | None, name: str, library: CodeLibrary) -> float | None:
    """A setting that is a number."""
    value = setting(owner, name, library)[1]
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
