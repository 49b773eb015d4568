"""What the pickle machine builds instead of running anything: inert records of what the pickle asks for."""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.reading.byte_source import ByteSource


class Global:
    """A name that the pickle imports. Interned by the machine: the same name is the same object."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    @property
    def full_name(self) -> str:
        """`module.name`."""
        return f"{self.module}.{self.name}"


class Call:
    """An object that unpickling would make by calling `callee(*args, **kwargs)` (REDUCE, NEWOBJ, NEWOBJ_EX, INST, OBJ).

    `state` is what BUILD would give it (None: no BUILD); `items` are the pairs of SETITEM(S), `appended` the
    values of APPEND(S) and ADDITEMS. Identity is the pickle's: a memoized object is one Call.
    """

    __slots__ = ("appended", "args", "callee", "items", "kwargs", "state")

    def __init__(self, callee: object, args: tuple[object, ...], kwargs: PickleDict | None = None) -> None:
        self.callee = callee
        self.args = args
        self.kwargs = kwargs
        self.state: object = None
        self.items: PickleDict | None = None
        self.appended: list[object] | None = None

    @property
    def callee_name(self) -> str:
        """The full dotted name of the callee, "" when it is not a global."""
        return self.callee.full_name if isinstance(self.callee, Global) else ""


class PersistentId:
    """An object that the pickle leaves to its reader (BINPERSID): torch's storages and source-carrying classes."""

    __slots__ = ("pid",)

    def __init__(self, pid: object) -> None:
        self.pid = pid


class LazyBytes:
    """A long bytes, bytearray or str value, left in the file: `length` bytes of `source` at `offset`."""

    __slots__ = ("length", "offset", "source", "text")

    def __init__(self, source: ByteSource, offset: int, length: int, text: bool) -> None:
        self.source = source
        self.offset = offset
        self.length = length
        self.text = text

    def read(self) -> bytes:
        """The raw bytes, held to the tensor caps."""
        return self.source.read_tensor(self.offset, self.length)


class PickleDict:
    """A dict as the pickle fills it, in insertion order.

    Keys of type str, int, float, bool, None and bytes compare by value, as a dict's would; anything else by
    identity, because hashing a hostile key can crash the interpreter.
    """

    __slots__ = ("_index", "_keys", "_values")

    def __init__(self) -> None:
        self._index: dict[object, int] = {}
        self._keys: list[object] = []
        self._values: list[object] = []

    def __len__(self) -> int:
        return len(self._keys)

    def __setitem__(self, key: object, value: object) -> None:
        token = key if isinstance(key, (str, int, float, bytes)) or key is None else _Identity(key)
        position = self._index.get(token)
        if position is None:
            self._index[token] = len(self._keys)
            self._keys.append(key)
            self._values.append(value)
        else:
            self._values[position] = value

    def __contains__(self, key: str) -> bool:
        return key in self._index

    def get(self, key: str | int) -> object:
        """The value under a plain key, None when it is not there."""
        position = self._index.get(key)
        return None if position is None else self._values[position]

    def pairs(self) -> Iterator[tuple[object, object]]:
        """Keys and values in insertion order."""
        return zip(self._keys, self._values, strict=True)


class _Identity:
    __slots__ = ("_key",)

    def __init__(self, key: object) -> None:
        self._key = key

    def __hash__(self) -> int:
        return id(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self._key is other._key
