"""Archives and compressed files: what they are, and whether a model is visibly inside."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from bnaudit.errors import UnreadableError
from bnaudit.reading.byte_source import ByteSource

_COMPRESSED: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "RAR"),
)
_MODEL_NAME = (
    r"(?i)\.(pt|pth|ckpt|bin|th|pkl|safetensors|onnx|npz|pt2|ptl|torchscript|h5|keras|tflite|pb|gguf|nemo|mar)(\.tar)?$"
)
_ARCHIVE_ENDING = r"(?i)(\.(gz|bz2|xz|zst|zstd|lz4|7z|rar))+$"
_TAR_BLOCK = 512
_MOST_HEADERS = 1_000
_TORCH_TAR = frozenset({"sys_info", "pickle", "tensors", "storages"})


class Archive(NamedTuple):
    """An archive that has to be unpacked first."""

    kind: str
    """zip, tar, gzip, …"""
    model: str
    """The name of a model inside, as far as it can be seen; "" when none is visible."""

    @property
    def is_listed(self) -> bool:
        """Whether the names of its members were seen."""
        return self.kind in ("zip", "tar")


def is_encrypted(head: bytes) -> bool:
    """Whether the first member of a zip archive is encrypted (APPNOTE 4.4.4, bits 0 and 13)."""
    return head.startswith(b"PK\x03\x04") and (head[6] & 0x01 or head[7] & 0x20) != 0


def archive(name: str, source: ByteSource, head: bytes, members: tuple[str, ...]) -> Archive | None:
    """Which archive a file is, None when it is none or is one that PyTorch writes itself (a tar of torch < 0.2)."""
    if members:
        return Archive("zip", next((member for member in members if re.search(_MODEL_NAME, member)), ""))
    if head.startswith(b"ustar", 257):
        names = list(_tar_names(source))
        if names and names[0].removeprefix("./") in _TORCH_TAR:
            return None
        return Archive("tar", next((member for member in names if re.search(_MODEL_NAME, member)), ""))
    for magic, kind in _COMPRESSED:
        if head.startswith(magic):
            inner = _inside_gzip(head) if kind == "gzip" else ""
            bare = re.sub(_ARCHIVE_ENDING, "", name)
            return Archive(kind, inner or (bare if re.search(_MODEL_NAME, bare) else ""))
    return None


def _tar_names(source: ByteSource) -> Iterator[str]:
    """Names of the members of a tar file, from their headers alone; a broken header ends the list."""
    offset = 0
    for _ in range(_MOST_HEADERS):
        try:
            header = source.read(offset, _TAR_BLOCK)
            size = int(header[124:136].strip(b"\0 ") or b"0", 8)
        except (UnreadableError, ValueError):
            return
        if not header.startswith(b"\0"):
            yield header[:100].split(b"\0")[0].decode("utf-8", "replace")
        offset += _TAR_BLOCK + -(-max(size, 0) // _TAR_BLOCK) * _TAR_BLOCK


def _inside_gzip(head: bytes) -> str:
    """The name of the model that a gzip file begins with: of a tar inside, its first member."""
    import zlib

    try:
        inner = zlib.decompressobj(wbits=31).decompress(head, 4096)
    except zlib.error:
        return ""
    name = inner[:100].split(b"\0")[0].decode("utf-8", "replace")
    return name if inner.startswith(b"ustar", 257) and re.search(_MODEL_NAME, name) else ""
