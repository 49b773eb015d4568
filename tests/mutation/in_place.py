"""The code of a mutant in a module that was imported already."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType


def put_into(module: ModuleType, code: CodeType) -> None:
    """Run the code in the module's namespace, and in the functions that others may have taken from it before.

    Its classes stay the same objects, with the new methods.
    """
    before = dict(vars(module))
    exec(code, vars(module))
    for name, old in before.items():
        new = vars(module).get(name)
        if isinstance(old, type) and isinstance(new, type) and old.__module__ == module.__name__:
            for one, other in zip(_functions(old), _functions(new), strict=True):
                _replace(one, other)
            setattr(module, name, old)
            continue
        for one, other in zip(_functions(old), _functions(new), strict=True):
            if one.__module__ == module.__name__:
                _replace(one, other)


def _functions(value: object) -> list[FunctionType]:
    """The functions of a module in a value: itself, one that is wrapped, those of a class, that of a rule or probe."""
    return list(_found(value))


def _found(value: object) -> Iterator[FunctionType]:
    wrapped = getattr(value, "__wrapped__", None)
    if isinstance(wrapped, FunctionType):
        clear = getattr(value, "cache_clear", None)
        if clear is not None:
            clear()
        yield wrapped
    elif isinstance(value, FunctionType):
        yield value
    elif isinstance(value, type):
        for _, member in sorted(vars(value).items()):
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if isinstance(function, FunctionType):
                yield function
    else:
        for field in ("check", "measure"):
            function = getattr(value, field, None)
            if isinstance(function, FunctionType):
                yield function


def _replace(old: FunctionType, new: FunctionType) -> None:
    if old is not new and old.__code__.co_freevars == new.__code__.co_freevars:
        old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__
