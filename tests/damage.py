"""Spoils good files the way transfers, disks and attackers do: cut short, bytes changed, chunks lost or repeated."""

from __future__ import annotations

import io
import pickletools
import re
import zipfile
from collections.abc import Iterator
from random import Random

_ZIP_RECORD = re.compile(rb"PK(?:\x03\x04|\x01\x02|\x05\x06|\x06\x06|\x06\x07)")
_EDGE = 2048
_ODD_BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFF)


def truncations(data: bytes, spread: int = 30) -> Iterator[bytes]:
    """Cut at every length up to 12, around the borders of the file's structures, and at `spread` places between."""
    borders = [match.start() for match in _ZIP_RECORD.finditer(data)]
    borders += [8 + int.from_bytes(data[:8], "little"), len(data)]
    lengths = set(range(13)) | {len(data) * part // spread for part in range(spread)}
    lengths |= {border + shift for border in borders[:2] + borders[-6:] for shift in (-1, 0, 1)}
    for length in sorted(lengths):
        if 0 <= length < len(data):
            yield data[:length]


def flips(data: bytes, chance: Random) -> bytes:
    """One to eight bytes changed, mostly near the beginning or the end, where headers stand."""
    spoiled = bytearray(data)
    low, high = chance.choice(((0, _EDGE), (len(data) - _EDGE, len(data)), (0, len(data))))
    for _ in range(chance.choice((1, 1, 2, 8))):
        place = chance.randrange(max(low, 0), min(high, len(data)))
        spoiled[place] = chance.choice((chance.randrange(256), chance.choice(_ODD_BYTES), spoiled[place] ^ 0x80))
    return bytes(spoiled)


def chunks(data: bytes, chance: Random) -> bytes:
    """A piece lost, repeated, overwritten with zeros, or moved."""
    start = chance.randrange(len(data))
    end = min(len(data), start + chance.choice((1, 2, 4, 8, 64, 512, 4096)))
    piece = data[start:end]
    other = chance.randrange(len(data))
    return chance.choice(
        (
            data[:start] + data[end:],
            data[:end] + piece + data[end:],
            data[:start] + bytes(len(piece)) + data[end:],
            data[:other] + piece + data[other:],
        )
    )


def inside(data: bytes, chance: Random) -> bytes:
    """A zip archive that is in order, with damage in one of its members that says what the others are."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    telling = [name for name, content in members.items() if content and not _is_bulk(name)]
    chosen = chance.choice(telling)
    ways = (flips, chunks, opcodes, opcodes) if chosen.endswith(".pkl") else (flips, flips, chunks)
    members[chosen] = chance.choice(ways)(members[chosen], chance)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def opcodes(data: bytes, chance: Random) -> bytes:
    """A pickle with some of its instructions lost, repeated, exchanged, or replaced by others that fit anywhere."""
    starts = [position for _, _, position in pickletools.genops(data)]
    steps = [data[start:end] for start, end in zip(starts, [*starts[1:], len(data)], strict=True)]
    for _ in range(chance.choice((1, 1, 2, 6))):
        place, other = chance.randrange(len(steps)), chance.randrange(len(steps))
        replaced = chance.choice(([], [steps[place]] * 2, [steps[other]], [chance.choice(_INSTRUCTIONS)]))
        steps[place : place + 1] = replaced or [b""]
    return b"".join(steps)


_INSTRUCTIONS = (
    *(bytes([code]) for code in b"N\x88\x89])}(\x8f021ese\x85\x86\x87RbQua\x81."),
    *(b"K\x00", b"J\xff\xff\xff\xff", b"\x8a\x08" + b"\xff" * 7 + b"\x7f", b"G\x7f\xf8" + bytes(6), b"X\0\0\0\0"),
    *(b"X\x03\0\0\0\xed\xa0\x80", b"h\0", b"h\1", b"h\5", b"cos\nsystem\n", b"ccollections\nOrderedDict\n"),
    *(b"ctorch\nFloatStorage\n", b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch.nn.modules.batchnorm\nBatchNorm2d\n"),
)


def _is_bulk(name: str) -> bool:
    folder = name.rpartition("/")[0]
    return folder.endswith("/data") or "/data/weights/" in name or name.endswith(".debug_pkl")
