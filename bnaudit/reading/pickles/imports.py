"""What a pickle imports and what it would do with it: the evidence for a pickle that runs code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from bnaudit.description import PickleImport
from bnaudit.errors import BnauditError, CapExceededError
from bnaudit.reading.pickles.attributes import fetched, is_foreign
from bnaudit.reading.pickles.stand_ins import Call, Fetched, Global, LazyBytes, PersistentId, PickleDict

_MOST_IMPORTS = 100_000
_LONGEST_TEXT = 60
_RECORD_BYTES, _NAMING_BYTES = 800, 60
_MOST_ARGUMENTS = 6
_ATTRIBUTE_ACCESS = frozenset(
    f"{module}.{name}" for module in ("builtins", "__builtin__") for name in ("getattr", "setattr", "delattr")
)

_NAMED = frozenset((Global, Fetched))


class _Record:
    """What is known of one name."""

    __slots__ = ("arguments", "called", "fetched", "foreign", "handed_on", "modified", "name")

    def __init__(self, name: str, fetched: bool, foreign: bool) -> None:
        self.name = name
        self.fetched = fetched
        self.foreign = foreign
        self.called = self.modified = self.handed_on = False
        self.arguments: tuple[str, ...] = ()

    def entry(self) -> PickleImport:
        return PickleImport(
            name=self.name,
            called=self.called,
            arguments=self.arguments,
            foreign_target=self.foreign,
            modified=self.modified,
            fetched=self.fetched,
            handed_on=self.handed_on,
        )


class ImportLog:
    """Collects the globals of one or more pickles, and the attributes that they fetch, in the order of their naming.

    Give one to `machine.run` to have the imports even of a pickle that breaks off.
    """

    __slots__ = ("_builtins", "_globals", "_records", "uncharged")

    def __init__(self) -> None:
        self._builtins = {name: Global("builtins", name) for name in ("set", "frozenset")}
        self._globals: dict[tuple[str, str], Global] = {}
        self._records: dict[Global | tuple[str, bool], _Record] = {}
        self.uncharged = 0
        """Bytes of memory that no meter has counted yet."""

    def named(self, module: str, name: str) -> Global:
        """The one stand-in of a name."""
        self.uncharged += _NAMING_BYTES
        found = self._globals.get((module, name))
        if found is None:
            found = self._globals[module, name] = Global(module, name)
            self._add(found, _Record(found.full_name, fetched=False, foreign=False))
        return found

    def builtin(self, name: str) -> Global:
        """`builtins.set` or `builtins.frozenset` for the opcodes that make one: no import."""
        return self._builtins[name]

    def called(self, callee: object, args: tuple[object, ...]) -> None:
        """Record that unpickling would call `callee(*args)`; the first call's arguments are kept."""
        self.handed_on(args)
        record = self._records.get(callee) if isinstance(callee, Global) else self._record(callee)
        if record is None:
            return
        if not record.called:
            record.called = True
            self.uncharged += _RECORD_BYTES
            record.arguments = tuple(render(argument) for argument in args[:_MOST_ARGUMENTS])
        if record.name in _ATTRIBUTE_ACCESS and args and is_foreign(args[0]):
            record.foreign = True

    def handed_on(self, values: Iterable[object]) -> None:
        """Record that these values are given to something that may call them."""
        for value in values:
            if value.__class__ in _NAMED:
                record = self._record(value)
                if record is not None:
                    record.handed_on = True

    def fetched(self, callee: Global, args: tuple[object, ...]) -> Fetched | None:
        """Record that unpickling would fetch an attribute, and what stands for it; None: getattr refuses these."""
        made = fetched(callee, args)
        if made is not None:
            self.uncharged += _NAMING_BYTES + 4 * len(made.full_name)
            key = made.full_name, made.foreign
            if key not in self._records:
                self._add(key, _Record(made.full_name, fetched=True, foreign=made.foreign))
            if made.foreign:
                self._records[callee].foreign = True
        return made

    def modified(self, target: object) -> bool:
        """Record that unpickling would change `target`; False, and no record, when it is built in the pickle."""
        if not is_foreign(target):
            return False
        changed = (
            target if isinstance(target, (Global, Fetched)) else target.callee if isinstance(target, Call) else None
        )
        record = self._record(changed)
        if record is not None:
            record.modified = True
        return True

    def imports(self) -> tuple[PickleImport, ...]:
        """The record so far, one per name."""
        return tuple(record.entry() for record in self._records.values())

    @contextmanager
    def told_in_errors(self) -> Iterator[None]:
        """Let an error that ends the reading name a dangerous call that was met before: unpickling comes that far."""
        try:
            yield
        except BnauditError as error:
            danger = self._danger()
            if danger:
                error.add(f"loading it would also {danger}")
            raise

    def _danger(self) -> str:
        from bnaudit.pickle_names import effect_of

        for record in self._records.values():
            if record.modified:
                return f"change {_printable(record.name)}"
            if (record.called or record.foreign) and effect_of(record.name) is not None:
                return f"{'call' if record.called else 'reach'} {_printable(record.name)}"
        return ""

    def _record(self, value: object) -> _Record | None:
        if isinstance(value, Global):
            return self._records.get(value)
        return self._records.get((value.full_name, value.foreign)) if isinstance(value, Fetched) else None

    def _add(self, key: Global | tuple[str, bool], record: _Record) -> None:
        if len(self._records) >= _MOST_IMPORTS:
            raise CapExceededError(f"more than {_MOST_IMPORTS} imports", where="pickle", cap="pickle_memory")
        self._records[key] = record
        self.uncharged += _RECORD_BYTES + 8 * len(record.name)


def _printable(name: str) -> str:
    return (name if name.isprintable() else ascii(name)[1:-1])[: 2 * _LONGEST_TEXT]


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
