"""What a pickle fetches with getattr: how it is named, and what counts as outside the pickle."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sources import MemoryFiles

from bnaudit.description import PickleImport
from bnaudit.errors import CapExceededError
from bnaudit.reading.pickles.imports import ImportLog
from bnaudit.reading.pickles.machine import run
from bnaudit.reading.pickles.stand_ins import Fetched

GETATTR = b"cbuiltins\ngetattr\n"
OWN = b"cm\nC\n)\x81"
FetchedFrom = Callable[[bytes], list[PickleImport]]


def text(value: str) -> bytes:
    """A push of a short text."""
    return b"\x8c" + bytes([len(value)]) + value.encode()


def get(owner: bytes, name: str | bytes) -> bytes:
    """`getattr(owner, name)`; bytes are opcodes that compute the name."""
    return GETATTR + owner + (text(name) if isinstance(name, str) else name) + b"\x86R"


@pytest.fixture(scope="module")
def files() -> Iterator[MemoryFiles]:
    made = MemoryFiles()
    yield made
    made.close()


@pytest.fixture
def fetched_from(files: MemoryFiles) -> FetchedFrom:
    """What the opcodes fetch, in their order."""

    def found(opcodes: bytes) -> list[PickleImport]:
        imports = run(files.source(b"\x80\x04" + opcodes + b".")).imports
        return [entry for entry in imports if entry.fetched]

    return found


@pytest.mark.parametrize(
    ("owner", "name", "expected"),
    [
        (b"cos\npath\n", "join", "os.path.join"),
        (OWN, "forward", "m.C.forward"),
        (get(b"cos\npath\n", "os"), "system", "os.path.os.system"),
        (get(OWN, "forward"), "name", "m.C.forward.name"),
        (b"cm\nf\n)R)R", "x", "?.x"),
        (get(b"cm\nC\n", "make") + b")R", "x", "m.C.make.x"),
        (text("a"), "upper", "builtins.str.upper"),
        (b"C\x01a", "hex", "builtins.bytes.hex"),
        (b"}", "get", "builtins.dict.get"),
        (b"]", "append", "builtins.list.append"),
        (b"N", "x", "?.x"),
        (b"X" + (5000).to_bytes(4, "little") + b"a" * 5000, "upper", "builtins.str.upper"),
        (b"cos\npath\n", get(OWN, "name"), "os.path.?"),
        (OWN, get(OWN, "name"), "m.C.?"),
        (OWN, b"K\x01", "m.C.?"),
    ],
)
def test_an_attribute_is_named_after_its_owner(
    fetched_from: FetchedFrom, owner: bytes, name: str | bytes, expected: str
) -> None:
    assert fetched_from(get(owner, name))[-1].name == expected


@pytest.mark.parametrize(
    ("opcodes", "foreign"),
    [
        (get(OWN, "forward"), False),
        (get(OWN, "__getitem__"), False),
        (get(OWN, "__class__"), True),
        (get(get(OWN, "__class__"), "forward"), True),
        (get(b"cm\nC\n", "forward"), True),
        (get(get(b"cm\nC\n", "forward"), "x"), True),
        (get(get(OWN, "forward"), "x"), False),
        (get(b"cbuiltins\ntype\n" + OWN + b"\x85R", "x"), True),
        (get(b"cbuiltins\ntype\n" + text("T") + b")}\x87R", "x"), False),
        (get(OWN, get(OWN, "name")), True),
    ],
)
def test_what_lies_outside_the_pickle(fetched_from: FetchedFrom, opcodes: bytes, foreign: bool) -> None:
    assert fetched_from(opcodes)[-1].foreign_target is foreign


def test_every_call_counts_and_not_only_the_first(fetched_from: FetchedFrom) -> None:
    found = fetched_from(b"(" + get(OWN, "a") + get(OWN, "b") + get(b"cos\npath\n", "c") + b"t")
    assert [(entry.name, entry.foreign_target) for entry in found] == [
        ("m.C.a", False),
        ("m.C.b", False),
        ("os.path.c", True),
    ]


def test_getattr_under_the_name_of_another_module_is_getattr(fetched_from: FetchedFrom) -> None:
    for name in (b"c__builtin__\ngetattr\n", text("six") + text("moves.builtins.getattr") + b"\x93"):
        (found,) = fetched_from(name + OWN + text("__class__") + b"\x86R")
        assert found.name == "m.C.__class__"


def test_calls_and_changes_of_what_was_fetched_are_recorded(fetched_from: FetchedFrom) -> None:
    (called,) = fetched_from(get(b"cm\nf\n", "g") + b"K\x01\x85R")
    assert (called.called, called.arguments) == (True, ("1",))
    (changed,) = fetched_from(get(b"cm\nf\n", "g") + b"K\x01K\x02s")
    assert changed.modified
    (own,) = fetched_from(get(OWN, "g") + b"K\x01K\x02s")
    assert not own.modified


def test_the_class_of_an_object_can_be_changed_too(files: MemoryFiles) -> None:
    imports = run(files.source(b"\x80\x04cbuiltins\ntype\n" + OWN + b"\x85R}K\x01K\x02sb.")).imports
    assert {entry.name: entry.modified for entry in imports} == {"builtins.type": True, "m.C": False}


@pytest.mark.parametrize(
    "opcodes",
    [
        b"cm\nf\ncos\npath\n\x85R",
        b"cm\nf\n)cos\npath\n\x85\x81",
        b"cm\nC\n)}K\x01cos\npath\ns\x92",
        OWN + b"cos\npath\nN\x86b",
        OWN + b")R" + b"cos\npath\n\x85R",
    ],
)
def test_what_is_handed_to_a_call_is_recorded(files: MemoryFiles, opcodes: bytes) -> None:
    imports = run(files.source(b"\x80\x04" + opcodes + b".")).imports
    assert {entry.name: entry.handed_on for entry in imports}["os.path"] is True


def test_chains_of_attributes_stay_short(files: MemoryFiles) -> None:
    log = ImportLog()
    chain = b"\x80\x04" + OWN + b"q\x00" + (GETATTR + b"h\x00" + text("a" * 100) + b"\x86Rq\x00") * 2000 + b"."

    found = run(files.source(chain), 0, None, log).root

    assert isinstance(found, Fetched) and len(found.full_name) < 250
    assert len(log.imports()) < 10


def test_names_are_capped_together(files: MemoryFiles) -> None:
    many = OWN + b"q\x000" + b"".join(GETATTR + b"h\x00Va%d\n" % n + b"\x86R0" for n in range(100_001)) + b"N."
    with pytest.raises(CapExceededError):
        run(files.source(many))
