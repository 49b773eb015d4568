"""Gives the values of every protocol and Python version one form.

Protocol 0 writes `set([…])` as a call with a list, protocol 4 as opcodes; bytes are a call before protocol 3;
Python 2 writes an OrderedDict as a call with a list of pairs, Python 3 fills an empty one. In the normal form a
dict-like Call has its pairs in `items`, a list-like or set-like one its values in `appended`, bytes and bytearrays
are bytes (or LazyBytes), copyreg's constructors are calls of the class itself, and getattr's are what they fetch.
"""

from __future__ import annotations

from bnaudit.errors import MalformedError
from bnaudit.reading.byte_source import MemorySource
from bnaudit.reading.pickles.attributes import is_attribute_access
from bnaudit.reading.pickles.stand_ins import Call, Global, LazyBytes, PickleDict
from bnaudit.reading.pickles.state import (
    DICT_BYTES,
    IDENTITY_BYTES,
    ITEM_BYTES,
    LAZY_BYTES,
    PAIR_BYTES,
    EmbeddedFile,
    PickleState,
    text_bytes,
)

_BUILTINS = ("builtins", "__builtin__")
_MAPPINGS = frozenset(
    [f"{module}.dict" for module in _BUILTINS]
    + [f"collections.{name}" for name in ("OrderedDict", "defaultdict", "Counter")]
)
_SEQUENCES = frozenset(
    [f"{module}.{name}" for module in _BUILTINS for name in ("set", "frozenset", "list", "tuple")]
    + ["collections.deque"]
)
_BYTES = frozenset([f"{module}.{name}" for module in _BUILTINS for name in ("bytes", "bytearray")])
_ENCODE = "_codecs.encode"
_EMBEDDED = "torch.storage._load_from_bytes"
_RECONSTRUCTORS = frozenset(("copyreg._reconstructor", "copy_reg._reconstructor"))
_NEW_OBJECTS = frozenset(("copyreg.__newobj__", "copy_reg.__newobj__"))
_NEW_OBJECTS_EX = frozenset(("copyreg.__newobj_ex__", "copy_reg.__newobj_ex__"))
_SPECIAL = _MAPPINGS | _SEQUENCES | _BYTES | {_ENCODE, _EMBEDDED} | _RECONSTRUCTORS | _NEW_OBJECTS | _NEW_OBJECTS_EX
_FETCH_STEPS = 3
"""Opcodes that take as long as naming an attribute."""
_LATIN1 = ("latin1", "latin-1")


class Latin1Bytes(LazyBytes):
    """Long bytes that a pickle of protocol 0 to 2 writes as the text with those code points."""

    __slots__ = ("_written",)

    def __init__(self, written: LazyBytes) -> None:
        super().__init__(written.source, written.offset, written.length, text=False)
        self._written = written

    def read(self) -> bytes:
        """The bytes. Raises MalformedError when the text is not Latin-1."""
        try:
            return self._written.read().decode("utf-8", "surrogatepass").encode("latin-1")
        except UnicodeError:
            raise MalformedError("bytes of the pickle are not Latin-1 text") from None


def is_special(callee: Global) -> bool:
    """Whether calls of this global have a normal form of their own."""
    return callee.full_name in _SPECIAL or is_attribute_access(callee)


def normal_form(state: PickleState, callee: Global, args: tuple[object, ...]) -> object:
    """What stands for `callee(*args)`: a Call, or plain bytes."""
    name = callee.full_name
    made: object = None
    if name == _ENCODE or name in _BYTES:
        made = _bytes(name, args)
        state.memory += text_bytes(made) if isinstance(made, bytes) else LAZY_BYTES
    elif name == _EMBEDDED:
        made = _embedded(state, callee, args)
    elif is_attribute_access(callee):
        state.charge(_FETCH_STEPS)
        made = state.imports.fetched(callee, args)
    elif name not in _MAPPINGS and name not in _SEQUENCES:
        made = _construct(state, name, args)
    if made is not None:
        return made
    call = Call(callee, args)
    if name in _MAPPINGS:
        _fill(state, call, args[1:] if name == "collections.defaultdict" else args)
    elif name in _SEQUENCES:
        _fill(state, call, args[:1])
    return call


def _bytes(name: str, args: tuple[object, ...]) -> object:
    """`encode(text, "latin1")`, `bytes()`, `bytearray(bytes)`, `bytearray(text, "latin-1")`; None: something else."""
    if not args:
        return b"" if name != _ENCODE else None
    given, encoding = args[0], args[1] if len(args) == 2 else None
    if len(args) == 1 and name != _ENCODE:
        return given if isinstance(given, bytes) or (isinstance(given, LazyBytes) and not given.text) else None
    if encoding not in _LATIN1:
        return None
    if isinstance(given, LazyBytes) and given.text:
        return Latin1Bytes(given)
    try:
        return given.encode("latin-1") if isinstance(given, str) else None
    except UnicodeEncodeError:
        return None


def _embedded(state: PickleState, callee: Global, args: tuple[object, ...]) -> EmbeddedFile | None:
    """A torch file given as bytes; it is read when the pickle is done. None: wrong arguments."""
    given = args[0] if len(args) == 1 else None
    if isinstance(given, bytes):
        given = LazyBytes(MemorySource(given, state.source.name, state.source), 0, len(given), text=False)
    if not isinstance(given, LazyBytes) or given.text:
        return None
    made = EmbeddedFile(callee, given)
    state.embedded.append(made)
    return made


def _construct(state: PickleState, name: str, args: tuple[object, ...]) -> Call | None:
    """The object that copyreg's functions make: a call of the class they are given; None: wrong arguments."""
    if name in _NEW_OBJECTS and args:
        state.imports.called(args[0], args[1:])
        return Call(args[0], args[1:])
    if name in _NEW_OBJECTS_EX and len(args) == 3:
        cls, positional, keywords = args
        if isinstance(positional, tuple) and isinstance(keywords, PickleDict):
            state.imports.called(cls, positional)
            return Call(cls, positional, keywords)
    if name in _RECONSTRUCTORS and len(args) == 3:
        cls, base, value = args
        values = () if isinstance(base, Global) and base.name == "object" else (value,)
        state.imports.called(cls, values)
        made = Call(cls, values)
        _fill(state, made, values)
        return made
    return None


def _fill(state: PickleState, made: Call, args: tuple[object, ...]) -> None:
    """Put the pairs or values that the call is given where later opcodes would put them."""
    if len(args) != 1:
        return
    (given,) = args
    if isinstance(given, PickleDict):
        state.memory += DICT_BYTES + (PAIR_BYTES + IDENTITY_BYTES) * len(given)
        state.charge(len(given))
        _fill_items(made, list(given.pairs()))
    elif isinstance(given, (list, tuple)):
        is_mapping = made.callee_name in _MAPPINGS
        each = PAIR_BYTES + IDENTITY_BYTES if is_mapping else ITEM_BYTES
        state.memory += DICT_BYTES + each * len(given)
        state.charge(len(given))
        if not is_mapping:
            made.appended = list(given)
        elif all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in given):
            _fill_items(made, [(pair[0], pair[1]) for pair in given if isinstance(pair, (list, tuple))])


def _fill_items(made: Call, pairs: list[tuple[object, object]]) -> None:
    made.items = PickleDict()
    for key, value in pairs:
        made.items[key] = value
