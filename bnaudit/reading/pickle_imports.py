"""What a pickle imports and what it would do with it: the evidence for a pickle that runs code."""

from __future__ import annotations

from bnaudit.description import PickleImport
from bnaudit.errors import CapExceededError
from bnaudit.reading.stand_ins import Call, Global, LazyBytes, PersistentId, PickleDict

_MOST_IMPORTS = 100_000
_LONGEST_TEXT = 60
_MOST_ARGUMENTS = 6
_ATTRIBUTE_ACCESS = frozenset(
    f"{module}.{name}" for module in ("builtins", "__builtin__") for name in ("getattr", "setattr", "delattr")
)


class ImportLog:
    """Collects the globals of one or more pickles in the order in which they are named.

    Give one to `pickle_machine.run` to have the imports even of a pickle that breaks off.
    """

    __slots__ = ("_builtins", "_calls", "_foreign", "_globals")

    def __init__(self) -> None:
        self._builtins = {name: Global("builtins", name) for name in ("set", "frozenset")}
        self._globals: dict[tuple[str, str], Global] = {}
        self._calls: dict[Global, tuple[str, ...]] = {}
        self._foreign: set[Global] = set()

    def named(self, module: str, name: str) -> Global:
        """The one stand-in of a name."""
        found = self._globals.get((module, name))
        if found is None:
            if len(self._globals) >= _MOST_IMPORTS:
                raise CapExceededError(f"more than {_MOST_IMPORTS} imports", where="pickle", cap="pickle_opcodes")
            found = self._globals[module, name] = Global(module, name)
        return found

    def builtin(self, name: str) -> Global:
        """`builtins.set` or `builtins.frozenset` for the opcodes that make one: no import."""
        return self._builtins[name]

    def called(self, callee: object, args: tuple[object, ...]) -> None:
        """Record that unpickling would call `callee(*args)`; the first call's arguments are kept."""
        if not isinstance(callee, Global):
            return
        if callee not in self._calls:
            self._calls[callee] = tuple(render(argument) for argument in args[:_MOST_ARGUMENTS])
        if args and isinstance(args[0], Global) and callee.full_name in _ATTRIBUTE_ACCESS:
            self._foreign.add(callee)

    def imports(self) -> tuple[PickleImport, ...]:
        """The record so far, one per name."""
        return tuple(
            PickleImport(
                name=found.full_name,
                called=found in self._calls,
                arguments=self._calls.get(found, ()),
                foreign_target=found in self._foreign,
            )
            for found in self._globals.values()
        )


def render(value: object, depth: int = 2) -> str:
    """A short line for a person: at most two levels and 60 characters of text."""
    if isinstance(value, (str, bytes)):
        text = repr(value[:_LONGEST_TEXT])
        return text if len(value) <= _LONGEST_TEXT else f"{text}…"
    if isinstance(value, Global):
        return value.full_name
    if isinstance(value, Call):
        callee = render(value.callee, depth - 1) if depth > 0 else "…"
        return f"{callee}({_inside(value.args, depth)})"
    if isinstance(value, (tuple, list)):
        return f"({_inside(value, depth)})" if isinstance(value, tuple) else f"[{_inside(value, depth)}]"
    if isinstance(value, PickleDict):
        return "{…}" if len(value) else "{}"
    if isinstance(value, LazyBytes):
        return f"<{value.length} bytes>"
    if isinstance(value, PersistentId):
        return "<persistent id>"
    return repr(value)[: _LONGEST_TEXT + 2] if isinstance(value, (int, float, type(None))) else "<object>"


def _inside(values: tuple[object, ...] | list[object], depth: int) -> str:
    if depth <= 0 and values:
        return "…"
    shown = ", ".join(render(value, depth - 1) for value in values[:_MOST_ARGUMENTS])
    return shown + (", …" if len(values) > _MOST_ARGUMENTS else "")
