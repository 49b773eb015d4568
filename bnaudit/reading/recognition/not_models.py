"""Files that people take for models and that are none, known by their content."""

from __future__ import annotations

import re
from typing import NamedTuple

from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.recognition.foreign_formats import looks_like_text

_DOWNLOAD = "download the model again"


class NotModel(NamedTuple):
    """What the file is, and what to do."""

    what: str
    remedy: str


_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"GIF8", "a GIF image"),
    (8, b"WEBP", "a WebP image"),
    (0, b"II*\0", "a TIFF image"),
    (0, b"MM\0*", "a TIFF image"),
    (0, b"%PDF-", "a PDF document"),
    (4, b"ftyp", "a video"),
    (8, b"WAVE", "a sound"),
    (0, b"\x7fELF", "a shared library or program"),
    (0, b"\xcf\xfa\xed\xfe", "a shared library or program"),
    (0, b"\xca\xfe\xba\xbe", "a shared library or Java class"),
    (0, b"MZ", "a Windows library or program"),
    (0, b"!<arch>\n", "a static library"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document"),
    (0, b"SQLite format 3\0", "a database"),
    (0, b"\x93NUMPY", "a single NumPy array"),
)
_UNFINISHED = (".crdownload", ".part", ".partial", ".download", ".aria2", ".incomplete", ".filepart", ".!ut")
_TEXT_PICKLE = rb"[}\])][qr(.]|\([KMGUXT]|\((?:dp?|lp?)\d*\n|\(i|\(?c[\w.]+\n\w+\n|L?119547037146038801333356"
"""Pickles of protocol 0 and 1 can be text; the number is the mark of a torch file."""


def recognise(name: str, source: ByteSource, head: bytes) -> NotModel | None:
    """What a file is instead of a model; None when its content is not one of the known mistakes."""
    if source.size == 0:
        return NotModel("the file is empty", _DOWNLOAD)
    if not head.strip(b"\0"):
        return _zeros(source)
    if head[4:9] == b"\0\0\0\0{":
        return None  # safetensors
    for offset, magic, what in _MAGIC:
        if head.startswith(magic, offset):
            return NotModel(f"this is {what}, not a model", "give the checkpoint or graph")
    if looks_like_text(head):
        return _text(name, head)
    if name.lower().endswith(_UNFINISHED) and not head.startswith((b"PK\x03\x04", b"\x80", b"\x08")):
        return NotModel("this is an unfinished download", _DOWNLOAD)
    return None


def _zeros(source: ByteSource) -> NotModel | None:
    if source.tail(4096).strip(b"\0"):
        return None
    return NotModel("the file holds nothing but zeros, as an interrupted download leaves it", _DOWNLOAD)


def _text(name: str, head: bytes) -> NotModel | None:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    lower = text[:1024].lower()
    if lower.startswith(b"version https://git-lfs.github.com/spec/"):
        return NotModel("this is a Git LFS pointer, not the model itself", "run git lfs pull")
    if b"/annex/objects/" in lower[:200]:
        return NotModel("this is a git-annex pointer, not the model itself", "run git annex get")
    if lower.startswith(b"<") and (b"<html" in lower or lower.startswith(b"<!doctype html")):
        return NotModel("this is a web page saved under the name of a model", _DOWNLOAD)
    if lower.startswith(b"<"):
        return _markup(lower)
    if lower.startswith((b"{", b"[")):
        return _json(name, text)
    return (
        None
        if re.match(_TEXT_PICKLE, text)
        else NotModel("this is a text file, not a model", "give the checkpoint or graph")
    )


def _markup(lower: bytes) -> NotModel:
    if b"<error" in lower or b"<code>" in lower:
        return NotModel("this is a server's error message saved under the name of a model", _DOWNLOAD)
    return NotModel("this is an XML document, not a model", "give the checkpoint or graph")


def _json(name: str, text: bytes) -> NotModel | None:
    if b'"weight_map"' in text or name.lower().endswith(".index.json"):
        return None  # the index of a sharded checkpoint
    if re.search(rb'"(error|message|detail|errors|error_code|status_code)"\s*:', text[:512], re.I):
        return NotModel("this is a server's error message saved under the name of a model", _DOWNLOAD)
    return NotModel("this is a JSON document, not a model", "give the checkpoint or graph")
