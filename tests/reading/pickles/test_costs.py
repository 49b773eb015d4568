"""What the meter counts against what Python takes, and that real checkpoints stay far below the caps."""

from __future__ import annotations

import gc
import io
import pickle
import struct
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
import torch
from sources import MemoryFiles
from torch import nn

from bnaudit.caps import Caps
from bnaudit.errors import CapExceededError
from bnaudit.reading.pickles.imports import ImportLog
from bnaudit.reading.pickles.machine import OpcodeMeter, run
from bnaudit.reading.pickles.state import PickleState
from bnaudit.reading.zip_directory import ZipDirectory

REPEATS = 20_000
SETUP = b"".join(
    (
        b"\x80\x04Nq\x00cm\nC\nq\x01}\x8c\x01aK\x01sq\x02h\x01)\x81q\x03\x8c\x02abq\x04",
        b"ccollections\nOrderedDict\nq\x05](\x8c\x01ah\x00\x86\x8c\x01bh\x00\x86eq\x06cbuiltins\nset\nq\x07",
        b"](K\x01K\x02K\x03K\x04eq\x08c_codecs\nencode\nq\x09\x8c\x06latin1q\x0acbuiltins\nbytes\nq\x0b",
        b"ccopyreg\n_reconstructor\nq\x0ccbuiltins\nobject\nq\x0dcbuiltins\ngetattr\nq\x0eh\x01q\x0f",
    )
)
"""Puts what the patterns need into the memo: 0 None, 1 a class, 2 a dict, 3 an object, 4 a text, 5 OrderedDict, …"""

REPEATED = {
    "None": b"N",
    "dict": b"}",
    "list": b"]",
    "tuple of 1": b"N\x85",
    "tuple of 3": b"NNN\x87",
    "tuple": b"(NNNNt",
    "short tuple": b"(Nt",
    "list from a mark": b"(l",
    "list of 4": b"(NNNNl",
    "dict from a mark": b"(NNd",
    "set": b"\x8f",
    "frozenset": b"(N\x91",
    "long integer": b"\x8a\x40" + b"\x11" * 64,
    "huge integer": b"\x8a\x41" + b"\x11" * 65,
    "integer in text": b"I1000\n",
    "number in text": b"F1\n",
    "text of Python 2": b"U\x02ab",
    "long text of Python 2": b"U\xff" + b"\xe9" * 255,
    "text": b"\x8c\x02ab",
    "Latin-1 text": b"\x8c\x03\xc3\xa9a",
    "wide text": b"\x8c\x04\xf0\x9f\x98\x80",
    "long text with a wide character": b"\x8c\xfe\xf0\x9f\x98\x80" + b"a" * 250,
    "bytes": b"C\x02ab",
    "text of protocol 0": b"Vabc\n",
    "wide text of protocol 0": b"V\\U0001f600abc\n",
    "quoted text": b"S'ab'\n",
    "persistent id in text": b"Pa\n",
    "persistent id": b"NQ",
    "MEMOIZE": b"N\x94",
    "object": b"h\x01)\x81",
    "call": b"h\x01N\x85R",
    "object with keywords": b"h\x01)h\x02\x92",
    "INST": b"(im\nC\n",
    "OBJ": b"(h\x01No",
    "state": b"h\x01)\x81Nb",
    "second state": b"h\x03h\x02b",
    "dict with an item": b"}h\x04Ns",
    "dict with an object as key": b"})Ns",
    "list with an item": b"]Na",
    "list with items": b"](Ne",
    "object with a value": b"h\x01)\x81Na",
    "object with an item": b"h\x01)\x81NNs",
    "ordered dict": b"h\x05h\x06\x85R",
    "set of Python 2": b"h\x07h\x08\x85R",
    "encoded bytes": b"h\x09h\x04h\x0a\x86R",
    "reconstructor": b"h\x0c(h\x01h\x0dNtR",
    "attribute": b"h\x0eh\x01h\x04\x86R",
    "attribute of an attribute": b"h\x0eh\x0fh\x04\x86Rq\x0f",
}
NUMBERED: dict[str, Callable[[int], bytes]] = {
    "integer": lambda n: b"J" + struct.pack("<i", n + 1_000_000),
    "float": lambda n: b"G" + struct.pack(">d", n + 0.5),
    "PUT": lambda n: b"Nr" + struct.pack("<I", n + 1000),
    "global": lambda n: b"cm\nC%d\n" % n,
    "attribute": lambda n: b"h\x0eh\x01\x8c\x05%05d\x86R" % n,
    "item": lambda n: b"h\x02J" + struct.pack("<i", n + 1000) + b"Ns0",
    "item by object": lambda n: b"h\x02]Ns0",
}
PATTERNS = {
    **{name: opcodes * REPEATS for name, opcodes in REPEATED.items()},
    **{f"numbered {name}": b"".join(map(make, range(REPEATS))) for name, make in NUMBERED.items()},
}


@pytest.fixture(scope="module")
def files() -> Iterator[MemoryFiles]:
    made = MemoryFiles(Caps(pickle_opcodes=1 << 40, pickle_memory=1 << 40))
    yield made
    made.close()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_opcode_takes_more_memory_than_is_counted(pattern: str, files: MemoryFiles) -> None:
    source = files.source(SETUP + PATTERNS[pattern] + b"N.")
    run(source)  # what is made once
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        meter = OpcodeMeter()
        kept = run_and_keep(PickleState(source, 0, meter, ImportLog()))
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert kept is not None
    assert taken < 1.1 * meter.memory + 20_000


def run_and_keep(state: PickleState) -> PickleState:
    """Run the machine; the state keeps everything that it made."""
    from bnaudit.reading.pickles import machine

    machine._execute(state)
    return state


def test_memory_is_capped_beside_opcodes() -> None:
    capped = MemoryFiles(Caps(pickle_memory=1 << 20))
    for opcodes in (b"}", b"N\x94", b"\x8c\xfe\xf0\x9f\x98\x80" + b"a" * 250):
        source = capped.source(b"\x80\x04" + opcodes * 30_000 + b".")
        tracemalloc.start()
        try:
            with pytest.raises(CapExceededError, match="pickle_memory"):
                run(source)
            assert tracemalloc.get_traced_memory()[1] < 4 << 20
        finally:
            tracemalloc.stop()
    capped.close()


def costs(value: object, files: MemoryFiles) -> tuple[int, int]:
    """Opcodes and bytes that the meter counts for what torch.save writes."""
    saved = io.BytesIO()
    torch.save(value, saved)
    archive = ZipDirectory(files.source(saved.getvalue()))
    meter = OpcodeMeter()
    run(archive.open(archive.record_prefix() + "data.pkl"), 0, meter)
    return meter.opcodes, meter.memory


def trained(layers: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    net = nn.Sequential(*(m for _ in range(layers) for m in (nn.Conv2d(2, 2, 1, bias=False), nn.BatchNorm2d(2))))
    optimizer = torch.optim.Adam(net.parameters())
    for parameter in net.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    return net, optimizer


@pytest.mark.parametrize("whole", [False, True])
def test_10_000_layers_with_the_state_of_adam_fit(whole: bool, files: MemoryFiles) -> None:
    """Costs grow in proportion, so 100 layers tell."""
    net, optimizer = trained(100)
    saved = {"model": net, "optimizer": optimizer} if whole else [net.state_dict(), optimizer.state_dict()]
    opcodes, memory = costs(saved, files)
    assert 100 * opcodes < Caps().pickle_opcodes
    assert 100 * memory < Caps().pickle_memory


def test_memory_is_counted_over_all_pickles_of_a_file() -> None:
    capped, meter = MemoryFiles(Caps(pickle_memory=1 << 20)), OpcodeMeter()
    source = capped.source(pickle.dumps([{} for _ in range(1000)], 2))
    for _ in range(3):
        run(source, 0, meter)
    with pytest.raises(CapExceededError, match="pickle_memory"):
        for _ in range(3):
            run(source, 0, meter)
    capped.close()
