"""The zip directory against zipfile and torch, and against archives that lie."""

from __future__ import annotations

import io
import random
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sources import MemoryFiles, source_of

from bnaudit.caps import Caps
from bnaudit.errors import CapExceededError, MalformedError, UnreadableError
from bnaudit.reading.zip_directory import ZipDirectory

FILES = MemoryFiles()
NAMES = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), min_size=1, max_size=20)


def packed(members: dict[str, bytes], method: int = zipfile.ZIP_STORED, comment: bytes = b"") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
        archive.comment = comment
    return buffer.getvalue()


def directory(data: bytes) -> ZipDirectory:
    return ZipDirectory(FILES.source(data))


def content(archive: ZipDirectory, name: str) -> bytes:
    member = archive.open(name)
    return member.read(0, member.size)


@given(
    members=st.dictionaries(NAMES, st.binary(max_size=2000), max_size=6),
    method=st.sampled_from((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)),
    comment=st.binary(max_size=200).filter(lambda comment: b"PK" not in comment),
    before=st.binary(max_size=50),
)
def test_members_equal_those_of_zipfile(members: dict[str, bytes], method: int, comment: bytes, before: bytes) -> None:
    data = before + packed(members, method, comment)
    with zipfile.ZipFile(io.BytesIO(data)) as oracle:
        expected = {info.orig_filename: oracle.read(info) for info in oracle.infolist()}

    archive = directory(data)

    assert {name: content(archive, name) for name in archive.names} == expected
    assert archive.names == tuple(expected)
    assert all(archive.size(name) == len(value) and name in archive for name, value in expected.items())


def saved(**options: object) -> bytes:
    buffer = io.BytesIO()
    torch.save({"a": torch.arange(1000.0), "b": torch.arange(3)}, buffer, **options)  # type: ignore[arg-type]
    return buffer.getvalue()


def test_reads_what_torch_writes() -> None:
    data = saved()
    archive = directory(data)
    oracle = torch._C.PyTorchFileReader(io.BytesIO(data))

    assert archive.record_prefix() == "archive/"
    assert {name.removeprefix("archive/") for name in archive.names} == set(oracle.get_all_records())
    for name in oracle.get_all_records():
        assert content(archive, f"archive/{name}") == oracle.get_record(name)


def test_takes_the_folder_from_the_file_name_that_torch_used(tmp_path: Path) -> None:
    torch.save({}, tmp_path / "my.model.pt")
    with source_of((tmp_path / "my.model.pt").read_bytes(), tmp_path) as source:
        assert ZipDirectory(source).record_prefix() == "my.model/"


def test_a_flat_archive_has_no_prefix() -> None:
    assert directory(packed({"weight.npy": b"", "sub/bias.npy": b""})).record_prefix() == ""
    assert directory(packed({})).record_prefix() == ""


def test_wrong_checksums_are_read_as_torch_reads_them() -> None:
    compute = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        data = saved()
    finally:
        torch.serialization.set_crc32_options(compute)
    with zipfile.ZipFile(io.BytesIO(data)) as refusing, pytest.raises(zipfile.BadZipFile):
        refusing.read("archive/data/0")

    assert content(directory(data), "archive/data/0") == torch.arange(1000.0).numpy().tobytes()


def test_data_behind_the_archive_is_tolerated_like_in_torch() -> None:
    data = saved() + b"\0" * 1000
    assert torch.load(io.BytesIO(data))["b"].tolist() == [0, 1, 2]

    assert "archive/data.pkl" in directory(data)


def test_reads_zip64_records_and_sizes(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        with archive.open("big", "w", force_zip64=True) as member:
            member.write(b"x" * 70_000)
        archive.writestr("other", b"o")
    data = as_zip64(buffer.getvalue())
    with zipfile.ZipFile(io.BytesIO(data)) as oracle:
        assert oracle.read("big") == b"x" * 70_000

    for prefix in (b"", b"put before"):
        found = directory(prefix + data)
        assert content(found, "big") == b"x" * 70_000
        assert content(found, "other") == b"o"


def as_zip64(data: bytes) -> bytes:
    """Move the end record's numbers into a zip64 record, and the first member's into a zip64 extra field."""
    end = data.rindex(b"PK\x05\x06")
    _, _, _, _, count, size, start, _ = struct.unpack("<4s4H2IH", data[end : end + 22])
    entry = bytearray(data[start : start + size])
    values = struct.unpack_from("<2I", entry, 20), struct.unpack_from("<I", entry, 42)
    name_length = struct.unpack_from("<H", entry, 28)[0]
    extra = struct.pack("<2H3Q", 1, 24, values[0][1], values[0][0], values[1][0])
    struct.pack_into("<2I", entry, 20, 0xFFFFFFFF, 0xFFFFFFFF)
    struct.pack_into("<I", entry, 42, 0xFFFFFFFF)
    struct.pack_into("<H", entry, 30, len(extra))
    entry[46 + name_length : 46 + name_length] = extra
    record = struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, len(entry), start)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, start + len(entry), 1)
    last = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return data[:start] + bytes(entry) + record + locator + last


def test_a_stored_member_is_a_slice_and_opening_reads_no_data(tmp_path: Path) -> None:
    with source_of(packed({"weights": bytes(1 << 20), "x": b"1"}), tmp_path) as source:
        member = ZipDirectory(source).open("weights")
        assert member.size == 1 << 20
        assert source.bytes_read < 10_000
        assert member.read(100, 4) == bytes(4)


def test_does_not_import_zipfile() -> None:
    code = "import sys, bnaudit.reading.zip_directory; sys.exit('zipfile' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


ONE = packed({"a": b"abc" * 100})
DEFLATED = packed({"a": b"abc" * 100}, zipfile.ZIP_DEFLATED)


def changed(data: bytes, offset: int, code: str, value: int, signature: bytes = b"PK\x01\x02") -> bytes:
    """`data` with a field of its (first) directory entry, or another record, set."""
    changed_data = bytearray(data)
    struct.pack_into(code, changed_data, data.index(signature) + offset, value)
    return bytes(changed_data)


LIES = {
    "encrypted": (changed(ONE, 8, "<H", 1), "encrypted"),
    "method": (changed(ONE, 10, "<H", 12), "method 12"),
    "stored size": (changed(ONE, 24, "<I", 301), "corrupt"),
    "packed size": (changed(changed(ONE, 20, "<I", 400), 24, "<I", 400), "overlaps"),
    "header behind the directory": (changed(ONE, 42, "<I", len(ONE)), "behind the directory"),
    "no header there": (changed(ONE, 42, "<I", 5), "no header"),
    "inflates to less": (changed(DEFLATED, 24, "<I", 301), "only 300"),
    "inflates to more": (changed(DEFLATED, 24, "<I", 299), "more"),
    "broken stream": (DEFLATED.replace(DEFLATED[31:35], b"\xff\xff\xff\xff", 1), "inflate"),
    "no zip64 sizes": (changed(ONE, 24, "<I", 0xFFFFFFFF), "zip64"),
    "entry count": (changed(ONE, 10, "<H", 7, b"PK\x05\x06"), "archive members"),
    "directory size": (changed(ONE, 12, "<I", 10_000, b"PK\x05\x06"), "no zip directory"),
    "directory offset": (changed(ONE, 16, "<I", 0xFFFFFF, b"PK\x05\x06"), "no zip directory"),
    "no entry": (ONE.replace(b"PK\x01\x02", b"PK\x01\x03"), "no zip directory"),
    "name too long": (changed(ONE, 28, "<H", 0xFFFF), "cut off"),
    "no end": (ONE[:-22], "no zip directory"),
    "empty": (b"", "no zip directory"),
}


@pytest.mark.parametrize(("data", "part"), LIES.values(), ids=LIES.keys())
def test_says_what_is_wrong(data: bytes, part: str) -> None:
    with pytest.raises(MalformedError, match=part):
        directory(data).open("a")


def test_two_members_of_one_name_are_refused() -> None:
    data = packed({"a": b"1", "b": b"2"})
    end = data.index(b"PK\x01\x02")

    with pytest.raises(MalformedError, match="two members"):
        directory(data[:end] + data[end:].replace(b"b", b"a"))


def test_a_missing_member_is_an_error() -> None:
    with pytest.raises(MalformedError, match="no x"):
        directory(ONE).open("x")


def test_overlapping_members_are_refused() -> None:
    # The quoted overlap of zip bombs: the first member's data spans the second member.
    data = packed({"a": b"1" * 10, "b": b"2" * 10})
    longer = changed(changed(data, 20, "<I", 60), 24, "<I", 60)

    with pytest.raises(MalformedError, match="overlaps"):
        directory(longer).open("a")
    assert content(directory(longer), "b") == b"2" * 10


def test_a_bomb_is_refused_before_it_inflates() -> None:
    bomb = packed({"a": bytes(50 << 20)}, zipfile.ZIP_DEFLATED)
    small = MemoryFiles(Caps(header_bytes=1 << 20))
    start = time.perf_counter()
    with pytest.raises(CapExceededError, match="header_bytes"):
        ZipDirectory(small.source(bomb)).open("a")
    with pytest.raises(MalformedError, match="more"):
        ZipDirectory(small.source(changed(bomb, 24, "<I", 1000))).open("a")
    assert time.perf_counter() - start < 1
    small.close()


def test_inflated_members_are_capped_together() -> None:
    small = MemoryFiles(Caps(tensor_bytes=1000))
    archive = ZipDirectory(small.source(packed({"a": bytes(600), "b": bytes(600)}, zipfile.ZIP_DEFLATED)))
    archive.open("a")
    with pytest.raises(CapExceededError, match="tensor_bytes"):
        archive.open("b")
    small.close()


def test_many_members_are_capped_and_linear() -> None:
    entries = b"".join(
        struct.pack("<4s6H3I5H2I", b"PK\1\2", *[0] * 9, 6, *[0] * 6) + b"%06d" % n for n in range(100_000)
    )
    record = struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 100_000, 100_000, len(entries), 0)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, len(entries), 1)
    data = entries + record + locator + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0, 0, 0)
    start = time.perf_counter()
    assert len(directory(data).names) == 100_000
    assert time.perf_counter() - start < 5

    small = MemoryFiles(Caps(archive_members=1000))
    with pytest.raises(CapExceededError, match="archive_members"):
        ZipDirectory(small.source(data))
    small.close()


def every_member(data: bytes) -> None:
    try:
        archive = directory(data)
        for name in archive.names:
            try:
                content(archive, name)
            except UnreadableError as error:
                assert "\n" not in str(error)
        archive.record_prefix()
    except UnreadableError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("data", [ONE, DEFLATED, as_zip64(packed({"a/b": b"1", "a/c": b"2" * 50}))])
def test_every_truncation_is_an_error(data: bytes) -> None:
    for length in range(len(data)):
        with pytest.raises(MalformedError):
            directory(data[:length])


@pytest.mark.parametrize("data", [DEFLATED, as_zip64(packed({"a/b": b"1", "a/c": b"2" * 50})), saved()])
def test_random_damage_gives_members_or_an_error(data: bytes) -> None:
    chance = random.Random(1)
    tail = max(0, len(data) - 900)
    for _ in range(1500):
        damaged = bytearray(data)
        for _ in range(chance.choice((1, 2, 8))):
            damaged[chance.randrange(tail, len(damaged))] = chance.choice((0, 1, 255, chance.randrange(256)))
        every_member(bytes(damaged))
