"""What the pickle machine builds instead of running anything: inert records of what the pickle asks for."""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.reading.byte_source import ByteSource


class Global:
    """A name that the pickle imports. Interned by the machine: the same name is the same object."""

    __slots__ = ("full_name", "module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name
        self.full_name = f"{module}.{name}"


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


class Fetched(Call):
    """What a call of getattr would give: the attribute `full_name`, named after its owner or the owner's class.

    `foreign`: it belongs to something outside the pickle, and so does what it leads to.
    """

    __slots__ = ("foreign", "full_name")

    def __init__(self, callee: object, args: tuple[object, ...], full_name: str, foreign: bool) -> None:
        super().__init__(callee, args)
        self.full_name = full_name
        self.foreign = foreign


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

    __slots__ = ("_by_token", "plain")

    def __init__(self) -> None:
        self._by_token: dict[object, object] = {}
        self.plain = True
        """Whether every token is the key itself."""

    def __len__(self) -> int:
        return len(self._by_token)

    def __setitem__(self, key: object, value: object) -> None:
        if isinstance(key, (str, int, float, bytes)) or key is None:
            self._by_token[key] = value
        else:
            self.plain = False
            self._by_token[_Identity(key)] = value

    def __contains__(self, key: str) -> bool:
        return key in self._by_token

    def get(self, key: str | int) -> object:
        """The value under a plain key, None when it is not there."""
        return self._by_token.get(key)

    def pairs(self) -> Iterator[tuple[object, object]]:
        """Keys and values in insertion order."""
        if self.plain:
            return iter(self._by_token.items())
        return ((t.key if isinstance(t, _Identity) else t, value) for t, value in self._by_token.items())


class _Identity:
    """Stands for a key that is compared by identity."""

    __slots__ = ("key",)

    def __init__(self, key: object) -> None:
        self.key = key

    def __hash__(self) -> int:
        return id(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.key is other.key
