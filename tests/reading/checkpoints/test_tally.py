"""Small pickles that name the same things over and over: what is looked at is counted, not what is stored."""

from __future__ import annotations

import io
import json
import pickle
import struct
import tracemalloc
import zipfile
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest
import torch
from sources import MemoryFiles
from torch import nn

import bnaudit
from bnaudit.caps import Caps
from bnaudit.description import Description
from bnaudit.errors import CapExceededError
from bnaudit.reading.checkpoints.tally import Tally
from bnaudit.reading.exported.weights import PickleReader, pickled_refs
from bnaudit.settings import Settings


def text(value: str) -> bytes:
    """A push of a short text."""
    return b"\x8c" + bytes([len(value)]) + value.encode()


def put(index: int) -> bytes:
    """Remember the top of the stack, and take it off."""
    return b"r" + struct.pack("<I", index) + b"0"


def get(index: int) -> bytes:
    return b"j" + struct.pack("<I", index)


def pairs(entries: list[tuple[str, bytes]]) -> bytes:
    """A dict."""
    return b"}(" + b"".join(text(key) + value for key, value in entries) + b"u"


ARRAY, EMPTY, NORM, NET, CLASS = range(100, 105)


def module(children: bytes = get(EMPTY), *others: tuple[str, bytes]) -> bytes:
    """A module of the class NET."""
    sections = [("_modules", children), ("_parameters", get(EMPTY)), ("_buffers", get(EMPTY))]
    return get(CLASS) + b")\x81" + pairs([*sections, *others]) + b"b"


SETUP = b"".join(
    (
        b"\x80\x04",
        pickle.dumps(np.ones(1), 2)[2:-1] + put(ARRAY),
        b"}" + put(EMPTY),
        b"cm\nNet\n" + put(CLASS),
        pairs([("running_mean", get(ARRAY)), ("running_var", get(ARRAY))]) + put(NET),
        b"ctorch.nn.modules.batchnorm\nBatchNorm1d\n" + put(NORM),
    )
)
BATCH_NORM = (
    get(NORM)
    + b")\x81"
    + pairs([("_modules", get(EMPTY)), ("_parameters", get(EMPTY)), ("_buffers", get(NET)), ("num_features", b"K\x01")])
    + b"b"
)
SHARED = 200


def shared(value: bytes) -> bytes:
    return value + put(SHARED)


def state_dict(layers: int) -> bytes:
    """A state dict whose tensors are all the same one."""
    names = (f"b{n}.{leaf}" for n in range(layers) for leaf in ("running_mean", "running_var"))
    return pairs([(name, get(ARRAY)) for name in names])


def many(value: bytes, number: int) -> bytes:
    """A list that holds what the opcodes push, again and again."""
    return b"](" + value * number + b"e"


ATTACKS = {
    "layers of a state dict": (state_dict(31_000), "norm_layers"),
    "tensors of a state dict": (pairs([(f"w{n}", get(ARRAY)) for n in range(510_000)]), "pickle_objects"),
    "layers of a module": (module(pairs([(str(n), BATCH_NORM) for n in range(31_000)])), "norm_layers"),
    "modules": (many(module(), 260_000), "pickle_objects"),
    "roots with the same children": (
        shared(pairs([(str(n), module()) for n in range(2_000)])) + many(module(get(SHARED)), 1000),
        "pickle_objects",
    ),
    "modules with the same parameters": (
        shared(pairs([(str(n), get(ARRAY)) for n in range(2_000)]))
        + module(pairs([(str(n), module(get(EMPTY), ("_parameters", get(SHARED)))) for n in range(2_000)])),
        "pickle_objects",
    ),
    "lists": (many(b"](]e", 1_100_000), "pickle_objects"),
    "the same list": (shared(many(b"N", 1)) + many(get(SHARED), 1_100_000), "pickle_objects"),
    "lists in a module": (module(get(EMPTY), ("a", many(b"](]e", 1_100_000))), "pickle_objects"),
    "lists of the same lists in a module": (
        shared(many(b"](]e", 1_000)) + module(get(EMPTY), ("a", many(b"](" + get(SHARED) + b"e", 2_000))),
        "",
    ),
}


def read(path: Path, data: bytes, caps: Caps | None = None) -> Description:
    path.write_bytes(data)
    return bnaudit.describe(path, Settings(caps=caps or Caps()))


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_named_over_and_over_costs_little(attack: str, tmp_path: Path) -> None:
    opcodes, cap = ATTACKS[attack]
    data = SETUP + opcodes + b"."
    start = perf_counter()
    if cap:
        with pytest.raises(CapExceededError, match=cap):
            read(tmp_path / "hostile.pkl", data)
    else:
        read(tmp_path / "hostile.pkl", data)
    assert perf_counter() - start < 20


def test_optimizers_in_lists_of_lists_of_lists_are_looked_at_once(tmp_path: Path) -> None:
    innermost: list[object] = [{"state": {}, "param_groups": []}, np.ones(1)]
    for _ in range(3):
        innermost = [innermost] * 2_000
    start = perf_counter()
    assert read(tmp_path / "hostile.pkl", pickle.dumps({"optimizer": innermost, "w": np.ones(1)}, 4)).has_optimizer
    assert perf_counter() - start < 10


def test_the_walk_keeps_no_record_of_what_it_has_passed(tmp_path: Path) -> None:
    """A list of 300,000 lists takes 60 bytes each in the pickle's value; the walk may not multiply that."""
    path = tmp_path / "wide.pkl"
    path.write_bytes(SETUP + b"](" + get(ARRAY) + b"](Ne" * 300_000 + b"e.")
    tracemalloc.start()
    try:
        bnaudit.describe(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 300_000 * (100 + 130)


@pytest.mark.parametrize("saved", [nn.Sequential(*(nn.BatchNorm1d(1) for _ in range(20))).state_dict(), None])
def test_the_caps_are_the_callers(saved: dict[str, torch.Tensor] | None, tmp_path: Path) -> None:
    net = nn.Sequential(*(nn.BatchNorm1d(1) for _ in range(20)))
    path = tmp_path / "m.pt"
    torch.save(saved or net, path)
    settings = Settings(caps=Caps(norm_layers=20))
    assert len(bnaudit.describe(path, settings).parts[0].layers) == 20
    for caps in (Caps(norm_layers=19), Caps(pickle_objects=30)):
        with pytest.raises(CapExceededError, match=r"norm_layers|pickle_objects"):
            bnaudit.describe(path, Settings(caps=caps))


def test_all_files_of_one_checkpoint_are_counted_together(tmp_path: Path) -> None:
    weight_map = {}
    for shard in ("a.bin", "b.bin"):
        state = nn.ModuleDict({shard[0]: nn.Sequential(*(nn.BatchNorm1d(1) for _ in range(3)))}).state_dict()
        torch.save(state, tmp_path / shard)
        weight_map |= dict.fromkeys(state, shard)
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    assert len(bnaudit.describe(index, Settings(caps=Caps(norm_layers=6))).parts[0].layers) == 6
    with pytest.raises(CapExceededError, match="norm_layers"):
        bnaudit.describe(index, Settings(caps=Caps(norm_layers=5)))


def test_the_message_names_file_number_and_cap() -> None:
    tally = Tally(Caps(norm_layers=1, pickle_objects=2), "m.pt")
    tally.layer()
    tally.objects(2)
    with pytest.raises(CapExceededError, match=r"^more than 1 norm layers \(m\.pt\): raise it with --cap norm_layers="):
        tally.layer()
    with pytest.raises(
        CapExceededError, match=r"^more than 2 objects .* \(m\.pt\): raise it with --cap pickle_objects="
    ):
        tally.objects()


def test_objects_of_scripts_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "script.pt"
    torch.jit.save(torch.jit.script(nn.Sequential(nn.BatchNorm1d(1), nn.BatchNorm1d(1)).eval()), path)
    assert len(bnaudit.describe(path).parts[0].layers) == 2
    with pytest.raises(CapExceededError, match="pickle_objects"):
        bnaudit.describe(path, Settings(caps=Caps(pickle_objects=10)))


def test_tensors_of_exported_programs_are_counted(tmp_path: Path) -> None:
    """torch 2.1 to 2.8 write the weights as a state dict in an archive of its own."""
    honest, hostile = io.BytesIO(), io.BytesIO()
    torch.save({f"w{n}": torch.ones(1) for n in range(50)}, honest)
    opcodes = SETUP + pairs([(f"w{n}", get(ARRAY)) for n in range(500)]) + b"."
    with zipfile.ZipFile(honest) as before, zipfile.ZipFile(hostile, "w") as after:
        for name in before.namelist():
            after.writestr(name, opcodes if name.endswith("/data.pkl") else before.read(name))
    files = MemoryFiles(Caps(pickle_memory=250_000))
    assert len(pickled_refs(files.source(honest.getvalue()), PickleReader())) == 50
    with pytest.raises(CapExceededError, match="pickle_memory"):
        pickled_refs(files.source(hostile.getvalue()), PickleReader())
    files.close()


def test_pieces_of_distributed_checkpoints_are_counted(tmp_path: Path) -> None:
    """Many tensors may name one list of pieces."""
    kind = b"ctorch.distributed.checkpoint.metadata\n%s\n)\x81"
    sizes = b"ctorch\nSize\nK\x01\x85\x85R"
    piece = kind % b"ChunkStorageMetadata" + pairs([("offsets", sizes), ("sizes", sizes)]) + b"b"
    tensor = kind % b"TensorStorageMetadata" + pairs([("size", sizes), ("chunks", get(SHARED))]) + b"b"
    names = pairs([(f"w{n}", get(SHARED + 1)) for n in range(2_000)])
    root = kind % b"Metadata" + pairs([("state_dict_metadata", names), ("storage_data", b"}")]) + b"b"
    (tmp_path / "__0_0.distcp").write_bytes(b"")
    data = b"\x80\x04" + shared(many(piece, 2_000)) + tensor + put(SHARED + 1) + root + b"."
    (tmp_path / ".metadata").write_bytes(data)
    start = perf_counter()
    with pytest.raises(CapExceededError, match="pickle_objects"):
        bnaudit.describe(tmp_path)
    assert perf_counter() - start < 20
