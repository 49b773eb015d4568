"""The opcode loop against Python's own pickle, and the forms that only old or other writers use."""

from __future__ import annotations

import codecs
import math
import pickle
import warnings
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pickled_values import python_value
from sources import MemoryFiles, source_of

from bnaudit.caps import Caps
from bnaudit.errors import CapExceededError, MalformedError
from bnaudit.reading.pickles.imports import ImportLog
from bnaudit.reading.pickles.machine import OpcodeMeter, run
from bnaudit.reading.pickles.stand_ins import Call, Global, LazyBytes, PersistentId, PickleDict
from bnaudit.reading.pickles.state import HugeInteger

PROTOCOLS = range(6)
FILES = MemoryFiles()

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(1 << 500), max_value=1 << 500),
    st.floats(allow_nan=False),
    st.text(max_size=40),
    st.binary(max_size=300),
)
KEYS = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=10), st.binary(max_size=10))
HASHABLE = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5)
VALUES = st.recursive(
    st.one_of(SCALARS, st.frozensets(HASHABLE, max_size=4), st.sets(HASHABLE, max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=5).map(tuple),
        st.dictionaries(KEYS, inner, max_size=4),
        st.lists(st.tuples(st.text(max_size=5), inner), max_size=4).map(OrderedDict),
        st.lists(inner, max_size=3).map(deque),
    ),
    max_leaves=20,
)


@pytest.fixture(autouse=True, scope="module")
def _closed() -> Iterator[None]:
    yield
    FILES.close()


def root(data: bytes) -> object:
    return run(FILES.source(data)).root


@given(value=VALUES, protocol=st.sampled_from(PROTOCOLS))
def test_equals_what_was_pickled(value: object, protocol: int) -> None:
    found = python_value(root(pickle.dumps(value, protocol)))

    assert found == value
    assert repr(type(found)) == repr(type(value))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_reads_special_values_under_every_protocol(protocol: int) -> None:
    value = [
        math.inf,
        -math.inf,
        -0.0,
        2**31 - 1,
        -(2**31),
        2**63,
        2**511 - 1,
        -(2**511),
        -1,
        255,
        256,
        65535,
        65536,
        "\ud800",
        "a\nb\\u0041",
        bytearray(b"\0\xff"),
        b"",
        (),
        [[]],
        {},
        set(),
        defaultdict(list, {"a": [1]}),
    ]

    found = python_value(root(pickle.dumps(value, protocol)))

    assert [*found[:15], bytearray(found[15]), *found[16:]] == value
    assert math.copysign(1, found[2]) == -1
    nan = root(pickle.dumps(math.nan, protocol))
    assert isinstance(nan, float) and math.isnan(nan)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_keeps_identity_and_cycles(protocol: int) -> None:
    shared: list[object] = [1]
    cycle: list[object] = [shared, shared]
    cycle.append(cycle)

    found = root(pickle.dumps(cycle, protocol))

    assert isinstance(found, list)
    assert found[0] is found[1]
    assert found[2] is found


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_ends_after_stop(protocol: int) -> None:
    first = pickle.dumps(list(range(100)), protocol)
    data = b"junk" + first + pickle.dumps("second", protocol)

    pickled = run(FILES.source(data), 4)

    assert pickled.root == list(range(100))
    assert pickled.end == 4 + len(first)
    assert run(FILES.source(data), pickled.end).root == "second"


class Plain:
    """Pickled with a `__dict__`."""

    def __init__(self) -> None:
        self.training = False


class Slotted:
    """Pickled with slots beside its `__dict__`: the state is a pair."""

    __slots__ = ("__dict__", "eps")

    def __init__(self) -> None:
        self.eps = 1e-5
        self.training = True


class ListWithState(list):  # type: ignore[type-arg]
    """Pickled with items and a state."""


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_records_objects_with_class_and_state(protocol: int) -> None:
    found = root(pickle.dumps(Plain(), protocol))

    assert isinstance(found, Call)
    assert found.callee_name == f"{Plain.__module__}.Plain"
    assert found.args == ()
    assert isinstance(found.state, PickleDict) and found.state.get("training") is False


@pytest.mark.parametrize("protocol", range(2, 6))
def test_records_slots_beside_the_dict(protocol: int) -> None:
    found = root(pickle.dumps(Slotted(), protocol))

    assert isinstance(found, Call) and isinstance(found.state, tuple)
    attributes, slots = found.state
    assert attributes.get("training") is True
    assert slots.get("eps") == 1e-5


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_records_items_of_list_subclasses(protocol: int) -> None:
    value = ListWithState([1, 2])
    value.tag = "t"  # type: ignore[attr-defined]

    found = root(pickle.dumps(value, protocol))

    assert isinstance(found, Call) and found.callee_name.endswith(".ListWithState")
    assert found.appended == [1, 2]
    assert isinstance(found.state, PickleDict) and found.state.get("tag") == "t"


def test_reads_what_python_2_wrote() -> None:
    # Python 2.7: pickle.dumps(OrderedDict([("a", 1)]), 2), and the same of "\xe9\x00" and {u"k": 7L}
    ordered = b"\x80\x02ccollections\nOrderedDict\nq\x00]q\x01]q\x02(U\x01aq\x03K\x01ea\x85q\x04Rq\x05."
    assert python_value(root(ordered)) == OrderedDict(a=1)
    assert root(b"\x80\x02U\x02\xe9\x00q\x00.") == "\xe9\x00"
    assert root(b"S'\\xe9\\x00\\n'\np0\n.") == "\xe9\x00\n"
    assert python_value(root(b"(dp0\nVk\np1\nL7L\ns.")) == {"k": 7}


def test_reads_instances_of_old_style_classes() -> None:
    inst = root(b"(I7\nimodule\nCls\np0\n(dp1\nS'a'\nI1\nsb.")
    obj = root(b"(cmodule\nCls\nK\x07o}U\x01aK\x01sb.")

    for found in (inst, obj):
        assert isinstance(found, Call)
        assert found.callee_name == "module.Cls"
        assert found.args == (7,)
        assert isinstance(found.state, PickleDict) and found.state.get("a") == 1


def test_text_booleans_and_numbers() -> None:
    assert root(b"(I01\nI00\nI-5\nL12L\nF1e400\nF-0.5\nt.") == (True, False, -5, 12, math.inf, -0.5)


def test_persistent_ids_stand_apart() -> None:
    found = run(FILES.source(b"(Pabc\n\x80\x02U\x07storageK\x01\x86Qt."))

    assert isinstance(found.root, tuple)
    assert [isinstance(item, PersistentId) for item in found.root] == [True, True]
    assert [item.pid for item in found.persistent_ids] == ["abc", ("storage", 1)]


def test_a_class_with_its_source_is_the_class() -> None:
    found = root(b"\x80\x02(X\x06\x00\x00\x00modulecm\nC\nX\x04\x00\x00\x00f.pyX\x03\x00\x00\x00srctQ)\x81.")

    assert isinstance(found, Call) and found.callee_name == "m.C"


def test_a_second_state_updates_the_first() -> None:
    found = root(b"cm\nC\n)\x81}(U\x01aK\x01U\x01bK\x02ub}U\x01bK\x03sb.")

    assert isinstance(found, Call) and isinstance(found.state, PickleDict)
    assert dict(found.state.pairs()) == {"a": 1, "b": 3}


def test_an_empty_state_of_a_plain_value_is_ignored_as_by_pickle() -> None:
    data = b"(}Nb]Nbt."
    assert python_value(root(data)) == pickle.loads(data) == ({}, [])


def test_items_of_a_list_are_set_as_by_pickle() -> None:
    data = b"](K\x01K\x02eK\x00Ns(J\xff\xff\xff\xffK\x03u."
    assert root(data) == pickle.loads(data) == [None, 3]
    with pytest.raises(MalformedError):
        root(b"]K\x05Ns.")


def test_keyword_arguments_are_kept() -> None:
    found = root(b"\x80\x04cm\nC\nK\x01\x85}\x8c\x01aK\x02s\x92.")

    assert isinstance(found, Call) and found.kwargs is not None
    assert found.args == (1,)
    assert found.kwargs.get("a") == 2


def test_the_same_name_is_the_same_global() -> None:
    found = root(b"(cm\nC\ncm\nC\nt.")

    assert isinstance(found, tuple)
    assert isinstance(found[0], Global) and found[0] is found[1]


def test_readonly_buffers_are_their_bytes() -> None:
    data = pickle.dumps(pickle.PickleBuffer(b"abc"), 5)
    assert root(data) == b"abc"


def test_long_values_stay_in_the_file(tmp_path: Path) -> None:
    blob, text = bytes(range(256)) * 40_000, "é" * 3_000_000
    data = pickle.dumps({"blob": blob, "text": text, "short": "s"}, 4)
    with source_of(data, tmp_path) as source:
        found = run(source).root
        assert source.bytes_read < 10_000
        assert isinstance(found, PickleDict)
        lazy, lazy_text = found.get("blob"), found.get("text")
        assert isinstance(lazy, LazyBytes) and isinstance(lazy_text, LazyBytes)
        assert (lazy.length, lazy.text, lazy_text.text) == (len(blob), False, True)
        assert lazy.read() == blob
        assert lazy_text.read().decode() == text
        assert found.get("short") == "s"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_long_values_are_right_under_every_protocol(protocol: int) -> None:
    value = [bytes(range(256)) * 50, "a\\'\n\u20ac" * 3000, "x" * 4097]

    assert python_value(root(pickle.dumps(value, protocol))) == value


def test_a_long_python_2_string_keeps_its_bytes() -> None:
    raw = bytes(range(256)) * 20
    text = "".join(f"\\x{byte:02x}" for byte in raw)

    found = root(f"S'{text}'\np0\n.".encode())
    binary = root(b"T" + len(raw).to_bytes(4, "little") + raw + b".")

    assert python_value(found) == raw
    assert python_value(binary) == raw


@given(quoted=st.lists(st.sampled_from([b"\\", b"x", b"4", b"1", b"9", b"f", b"n", b"q", b"'", b"\xe9"])).map(b"".join))
def test_escapes_are_those_of_python(quoted: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = codecs.escape_decode(quoted)[0]
        except ValueError:
            expected = None
    if expected is None:
        with pytest.raises(MalformedError, match="escape"):
            root(b"S'" + quoted + b"'\n.")
    else:
        assert root(b"S'" + quoted + b"'\n.") == expected.decode("latin-1")


def test_reads_no_more_than_the_pickle_of_a_small_file(tmp_path: Path) -> None:
    data = pickle.dumps(list(range(1000)), 2)
    with source_of(data + bytes(1 << 20), tmp_path) as source:
        assert run(source).end == len(data)
        assert source.bytes_read < 4 * len(data)


def test_meter_counts_over_several_pickles(tmp_path: Path) -> None:
    data = pickle.dumps([None] * 1000, 2)
    with source_of(data, tmp_path, Caps(pickle_opcodes=2500)) as source:
        meter = OpcodeMeter()
        run(source, 0, meter)
        run(source, 0, meter)
        assert 2000 < meter.opcodes < 2500
        with pytest.raises(CapExceededError, match="pickle_opcodes"):
            run(source, 0, meter)


def test_huge_integers_are_not_computed() -> None:
    big = 1 << 100_000
    for protocol in PROTOCOLS:
        digits = b"L" + b"7" * 900_000 + b"L\n." if protocol < 2 else pickle.dumps(big, protocol)
        assert isinstance(root(digits), HugeInteger)


def test_imports_survive_a_pickle_that_breaks_off() -> None:
    log = ImportLog()

    with pytest.raises(MalformedError):
        run(FILES.source(b"cos\nsystem\nS'true'\n\x85R\xff"), 0, None, log)

    (found,) = log.imports()
    assert (found.name, found.called, found.arguments) == ("os.system", True, ("'true'",))


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"", "ends early"),
        (b"K", "ends early"),
        (b"K\x01", "ends early"),
        (b".", "without a value"),
        (b"h\x05.", "has not made"),
        (b"R.", "empty stack"),
        (b"t.", "empty stack"),
        (b"\xff.", "opcode 0xff"),
        (b"\x80\x06N.", "protocol 6"),
        (b"\x82\x01.", "extension"),
        (b"\x97.", "outside the file"),
        (b"Nb.", "empty stack"),
        (b"NK\x01b.", "state"),
        (b"]}U\x01aNsb.", "state"),
        (b"NNa.", "no list"),
        (b"NNNs.", "no dict"),
        (b"}(NuN.", "without a value"),
        (b"cm\nC\nNR.", "no tuple"),
        (b"X\x01\x00\x00\x00\xff.", "not UTF-8"),
        (b"I5x\n.", "integer"),
        (b"Fx\n.", "number"),
        (b"Sabc\n.", "quotes"),
        (b"S'\\x'\n.", "escape"),
        (b"gx\n.", "memo index"),
        (b"\x8b\xff\xff\xff\xff.", "negative"),
        (b"B\xff\xff\xff\xff.", "ends early"),
        (b"\x8e" + b"\xff" * 8 + b".", "ends early"),
        (b"K\x01K\x02\x93.", "no text"),
        (b"(o.", "without a class"),
        (b"cabc", "ends early"),
    ],
)
def test_says_what_is_wrong(data: bytes, part: str) -> None:
    with pytest.raises(MalformedError, match=part):
        root(data)
