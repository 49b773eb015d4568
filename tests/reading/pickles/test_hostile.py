"""Hostile pickles: a value or one clear error, within bounded time and memory, and nothing is ever executed."""

from __future__ import annotations

import operator
import os
import pickle
import random
import struct
import time
import tracemalloc
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sources import MemoryFiles

from bnaudit.caps import Caps
from bnaudit.description import PickleImport
from bnaudit.errors import CapExceededError, MalformedError, UnreadableError
from bnaudit.reading.pickles.imports import ImportLog, render
from bnaudit.reading.pickles.machine import Pickled, run
from bnaudit.reading.pickles.stand_ins import Call, PickleDict

SMALL_CAPS = Caps(pickle_opcodes=200_000, pickle_memory=10 << 20)


@pytest.fixture(scope="module")
def files() -> Iterator[MemoryFiles]:
    made = MemoryFiles()
    yield made
    made.close()


@pytest.fixture(scope="module")
def capped() -> Iterator[MemoryFiles]:
    made = MemoryFiles(SMALL_CAPS)
    yield made
    made.close()


@contextmanager
def at_most(seconds: float, megabytes: float) -> Iterator[None]:
    tracemalloc.start()
    start = time.perf_counter()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.perf_counter() - start < seconds
    assert peak < megabytes * 1e6


class Reduced:
    """Pickles as a call of `function` with `args`."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self.reduced = function, args

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.reduced


def executions(canary: str) -> dict[str, object]:
    """Objects whose unpickling makes the file `canary`."""
    command = f'echo x > "{canary}"'
    return {
        "system": Reduced(os.system, command),
        "eval": Reduced(eval, f"open({canary!r}, 'w').close()"),
        "getattr chain": Reduced(operator.call, Reduced(getattr, Reduced(__import__, "os"), "system"), command),
        "nested reduce": Reduced(list, Reduced(repr, Reduced(id, Reduced(os.mkdir, canary)))),
        "as dict key": {Reduced(os.system, command): 1},
        "in a tuple": (1, (2, [Reduced(os.system, command)])),
    }


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("attack", ["system", "eval", "getattr chain", "nested reduce", "as dict key", "in a tuple"])
def test_nothing_is_executed(attack: str, protocol: int, tmp_path: Path, files: MemoryFiles) -> None:
    if attack == "getattr chain" and not hasattr(operator, "call"):
        pytest.skip("operator.call needs Python 3.11")
    canary = tmp_path / "canary"
    data = pickle.dumps(executions(str(canary))[attack], protocol)

    assert run(files.source(data)).root is not None
    assert not canary.exists()
    pickle.loads(data)
    assert canary.exists(), "the attack is a real one"


def test_state_and_items_execute_nothing(files: MemoryFiles) -> None:
    # BUILD on a global would set its attributes, the others would call __setitem__, append, extend and add.
    attempts = (b"}U\x01aU\x01bsb", b"U\x01aU\x01bs", b"(U\x01aU\x01bu", b"U\x01aa", b"(U\x01ae", b"(U\x01a\x90")
    for attempt in attempts:
        (found,) = run(files.source(b"cos\nenviron\n" + attempt + b".")).imports
        assert found == PickleImport(name="os.environ", called=False, modified=True)
        assert "a" not in os.environ


def test_records_what_would_be_called(files: MemoryFiles) -> None:
    data = b"\x80\x02c__builtin__\ngetattr\ncos\npath\nU\x06system\x86RU\x04true\x85R."

    imports = {found.name: found for found in run(files.source(data)).imports}

    assert imports["__builtin__.getattr"] == PickleImport(
        name="__builtin__.getattr", called=True, arguments=("os.path", "'system'"), foreign_target=True
    )
    assert imports["os.path"] == PickleImport(name="os.path", called=False, handed_on=True)
    assert imports["os.path.system"] == PickleImport(
        name="os.path.system", called=True, arguments=("'true'",), foreign_target=True, fetched=True
    )


def deep_tuple(depth: int) -> bytes:
    return b"\x80\x02)" + b"\x85" * depth


NESTED = {
    "tuples": deep_tuple(100_000) + b".",
    "lists": b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
    "dicts": b"\x80\x02" + b"}N" * 50_000 + b"}" + b"s" * 50_000 + b".",
    "arguments": b"\x80\x02)" + b"\x85q\x00cm\nf\nh\x00R" * 30_000 + b".",
    "callees": b"\x80\x02cm\nf\n" + b")R" * 100_000 + b".",
    "states": b"\x80\x02cm\nf\n)R" + b"q\x00cm\nf\n)Rh\x00b" * 30_000 + b".",
    "tuple as key": b"\x80\x02}" + deep_tuple(100_000)[2:] + b"K\x01s.",
    "tuple in set": b"\x80\x02\x8f(" + deep_tuple(100_000)[2:] + b"\x90.",
}


@pytest.mark.parametrize("data", NESTED.values(), ids=NESTED.keys())
def test_deep_nesting_is_read_without_recursion(data: bytes, files: MemoryFiles) -> None:
    with at_most(15, 60):
        pickled = run(files.source(data))
        assert pickled.root is not None
        assert len(render(pickled.root)) < 500
        del pickled


def test_open_marks_are_capped(files: MemoryFiles) -> None:
    with pytest.raises(CapExceededError, match="pickle_depth"):
        run(files.source(b"(" * 100_000 + b"t" * 100_000 + b"."))


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02Nr" + struct.pack("<I", 2**32 - 1) + b".",
        b"Np" + b"9" * 18 + b"\n.",
        b"\x80\x04X" + struct.pack("<I", 2**32 - 1) + b"a.",
        b"\x80\x04\x8d" + struct.pack("<Q", 2**64 - 1) + b"a.",
        b"\x80\x04\x8e" + struct.pack("<Q", 2**63 - 1) + b"a.",
        b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b"a.",
        b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"a.",
        b"\x80\x04\x95" + struct.pack("<Q", 2**64 - 1) + b"N.",
        b"T" + struct.pack("<i", 2**31 - 1) + b"a.",
        b"j" + struct.pack("<I", 2**32 - 1) + b".",
        b"L" + b"9" * 1_000_000 + b"L\n.",
        b"I" + b"9" * 1_000_000 + b"\n.",
        b"F" + b"9" * 1_000_000 + b"\n.",
        b"\x80\x02\x8b" + struct.pack("<i", 1_000_000) + b"\xff" * 1_000_000 + b".",
        b"c" + b"a" * 1_000_000 + b"\nb\n.",
        b"g" + b"1" * 1_000_000 + b"\n.",
        b"P" + b"1" * 1_000_000 + b"\n.",
    ],
)
def test_huge_indices_counts_and_numbers_cost_nothing(data: bytes, files: MemoryFiles) -> None:
    with at_most(5, 8):
        outcome(files, data)


def outcome(files: MemoryFiles, data: bytes) -> Pickled | UnreadableError:
    """What reading gives; any other exception fails the test."""
    try:
        return run(files.source(data))
    except UnreadableError as error:
        assert "\n" not in str(error) and len(str(error)) < 300
        return error


def test_memo_bombs_stay_linear(files: MemoryFiles) -> None:
    laughs = b"\x80\x02]" + b"2\x86" * 100_000 + b"."
    lists = b"\x80\x02]q\x00" + b"](h\x00h\x00h\x00h\x00eq\x000h\x00" * 30_000 + b"."
    with at_most(15, 120):
        for data in (laughs, lists):
            assert isinstance(outcome(files, data), Pickled)


def test_the_meter_stops_endless_work(capped: MemoryFiles) -> None:
    merged = (
        b"\x80\x02cm\nC\n)\x81}(" + b"".join(b"M" + struct.pack("<H", n) + b"N" for n in range(20_000)) + b"uq\x00b"
    )
    refilled = b"\x80\x02](" + b"N" * 50_000 + b"e\x85q\x00"
    attacks = {
        "opcodes": b"\x80\x02" + b"N0" * 300_000 + b".",
        "escapes": (b"S'" + b"\\x41" * 1000 + b"'\n0") * 120 + b"N.",
        "texts": b"\x80\x04" + (b"\x8c\xfe\xf0\x9f\x98\x80" + b"a" * 250) * 15_000 + b".",
        "dicts": b"\x80\x02" + b"}" * 150_000 + b".",
        "states": merged + b"h\x00b" * 50_000 + b".",
        "sets": refilled + b"c__builtin__\nset\nq\x010" + b"h\x01h\x00R0" * 30_000 + b"N.",
    }
    for data in attacks.values():
        with at_most(15, 13), pytest.raises(CapExceededError, match=r"pickle_opcodes|pickle_memory"):
            run(capped.source(data))


def test_imports_are_capped(files: MemoryFiles) -> None:
    data = b"".join(b"ca\n%d\n0" % number for number in range(100_001)) + b"N."

    with pytest.raises(CapExceededError):
        run(files.source(data))


def test_arguments_are_shown_short(files: MemoryFiles) -> None:
    log = ImportLog()
    wide = b"(" + b"U\xff" + b"a" * 255 + b"K\x01" * 1000 + b"tq\x00"
    run(files.source(b"\x80\x02cm\nf\n" + wide + b"R."), 0, None, log)

    (found,) = log.imports()
    assert len(found.arguments) == 6
    assert max(map(len, found.arguments)) < 80


def samples() -> list[bytes]:
    """Small pickles with many kinds of opcodes."""
    values: list[object] = [
        1,
        -1,
        2**40,
        1.5,
        "t\u20ac",
        b"b" * 300,
        None,
        True,
        (1, 2, 3, 4),
        {"k": [1]},
        {1},
        frozenset("a"),
    ]
    values += [OrderedDict(a=OrderedDict(b=1)), Reduced(os.system, "true"), Reduced(getattr, "text", "upper")]
    return [pickle.dumps([values, values], protocol) for protocol in range(6)]


@pytest.mark.parametrize("protocol", range(6))
def test_every_truncation_is_an_error(protocol: int, files: MemoryFiles) -> None:
    data = samples()[protocol]
    for length in range(len(data)):
        assert isinstance(outcome(files, data[:length]), MalformedError)


@pytest.mark.parametrize("protocol", range(6))
def test_random_damage_gives_a_value_or_an_error(protocol: int, files: MemoryFiles) -> None:
    data, chance = samples()[protocol], random.Random(protocol)
    for _ in range(1500):
        damaged = bytearray(data)
        for _ in range(chance.choice((1, 1, 2, 8))):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        outcome(files, bytes(damaged))


def test_random_opcodes_give_a_value_or_an_error(files: MemoryFiles) -> None:
    import pickletools

    chance, codes = random.Random(7), [ord(opcode.code) for opcode in pickletools.opcodes]
    for _ in range(3000):
        body = bytes(chance.choice(codes) if chance.random() < 0.7 else chance.randrange(64) for _ in range(60))
        outcome(files, b"(NK\x01U\x01acm\nC\n)Rcm\nC\n)}](" * 5 + body + b".")


def test_keys_of_any_kind_are_kept_apart(files: MemoryFiles) -> None:
    found = run(files.source(b"\x80\x02}(]K\x01]K\x02}K\x03)K\x04)K\x05u.")).root

    assert isinstance(found, PickleDict)
    assert [value for _, value in found.pairs()] == [1, 2, 3, 5]


def test_calls_of_calls_have_no_name(files: MemoryFiles) -> None:
    found = run(files.source(b"\x80\x02cm\nf\n)R)R.")).root

    assert isinstance(found, Call) and found.callee_name == ""
