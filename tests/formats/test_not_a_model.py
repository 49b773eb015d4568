"""Files that are no models are named in one sentence each."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from bnaudit.errors import NotAModelError
from bnaudit.formats import Candidate, identify
from bnaudit.formats.not_a_model import FORMAT
from bnaudit.reading.byte_source import ByteSource


def _zip(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, b"content")
    return buffer.getvalue()


def _encrypted(*names: str) -> bytes:
    """A zip archive whose members carry the encryption flag, in the local headers and in the directory."""
    data = bytearray(_zip(*names))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        position = data.find(signature)
        while position >= 0:
            data[position + offset] |= 1
            position = data.find(signature, position + 4)
    return bytes(data)


def _npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.arange(4))
    return buffer.getvalue()


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"

FILES = [
    ("empty.pt", b"", "empty"),
    ("zeros.pt", bytes(10_000), "zeros"),
    ("model.pt", b"\n<!DOCTYPE html>\n<html><head><title>404</title>", "web page"),
    ("model.onnx", b"<!-- saved -->\n<HTML lang='en'>", "web page"),
    ("model.safetensors", LFS, "Git LFS pointer"),
    ("model.bin", b"/annex/objects/SHA256E-s123--abc.bin\n", "git-annex pointer"),
    ("api.pt", b'{"error": "Repository not found"}', "error message"),
    ("api2.pt", b'{"message": "Not Found", "documentation_url": "https://"}', "error message"),
    ("s3.pt", b'<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code></Error>', "error message"),
    ("config.json", b'{"hidden_size": 768, "num_layers": 12}', "JSON document"),
    ("list.json", b"[1, 2, 3]", "JSON document"),
    ("page.xml", b"<?xml version='1.0'?><note>hello</note>", "XML document"),
    ("readme.md", b"# A model\n\nTrained with care.\n", "text file"),
    ("umlaut.txt", "Größe: 3 µm\n".encode() * 400, "text file"),
    ("train.py", b"import torch\nmodel = torch.nn.Linear(2, 2)\n", "text file"),
    ("notes.engine", b"not an engine at all\n", "text file"),
    ("figure.png", b"\x89PNG\r\n\x1a\n" + bytes(30), "PNG"),
    ("photo.pt", b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(30), "JPEG"),
    ("anim.gif", b"GIF89a" + bytes(30), "GIF"),
    ("photo.webp", b"RIFF\x24\0\0\0WEBPVP8 " + bytes(30), "WebP"),
    ("scan.tiff", b"II*\0" + bytes(30), "TIFF"),
    ("paper.pdf", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3", "PDF"),
    ("clip.mp4", b"\0\0\0\x20ftypisom" + bytes(30), "video"),
    ("libmodel.so", b"\x7fELF\x02\x01\x01" + bytes(30), "shared library"),
    ("model.dylib", struct.pack("<I", 0xFEEDFACF) + bytes(30), "shared library"),
    ("model.dll", b"MZ\x90\0\x03" + bytes(30), "Windows"),
    ("array.npy", _npy(), "single NumPy array"),
    ("data.db", b"SQLite format 3\0" + bytes(30), "database"),
    ("letters.zip", _zip("a.txt", "b.doc"), "zip archive has no model"),
    ("secret.zip", _encrypted("a.txt"), "encrypted"),
    ("data.tar.gz", b"\x1f\x8b\x08\0\0\0\0\0" + bytes(30), "gzip archive"),
    ("data.7z", b"7z\xbc\xaf\x27\x1c" + bytes(30), "7z archive"),
    ("model.pt.crdownload", b"\xff\x01\x02\0" * 20, "unfinished download"),
    ("model.bin.part", b"\xff\x01\x02\0" * 20, "unfinished download"),
]


@pytest.mark.parametrize(("name", "content", "named"), FILES, ids=[f"{name}-{named}" for name, _, named in FILES])
def test_each_mistake_is_named_with_what_to_do(tmp_path: Path, name: str, content: bytes, named: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with ByteSource.open(path) as source:
        candidate = Candidate(path, source)
        assert identify(candidate) is FORMAT
        with pytest.raises(NotAModelError) as caught:
            FORMAT.read(candidate)
    sentence = str(caught.value)
    assert named in sentence
    assert name in sentence
    assert caught.value.remedy
    assert "\n" not in sentence


def test_an_encrypted_checkpoint_is_left_to_its_format(tmp_path: Path) -> None:
    path = tmp_path / "secret.pt"
    path.write_bytes(_encrypted("archive/data.pkl", "archive/data/0"))
    with ByteSource.open(path) as source:
        assert not FORMAT.claims(Candidate(path, source))


UNCLAIMED = [
    (
        "index of a sharded checkpoint",
        "model.safetensors.index.json",
        b'{"metadata": {"total_size": 3}, "weight_map": {}}',
    ),
    ("text pickle", "old.pkl", b"(dp0\nS'a'\np1\nI1\ns."),
    ("text pickle of a class", "old2.pkl", b"ccollections\nOrderedDict\np0\n(tRp1\n."),
    ("binary pickle", "new.pkl", b"\x80\x04}\x94."),
    ("safetensors", "a.safetensors", struct.pack("<Q", 20) + b'{"__metadata__":{}}  '),
    ("safetensors whose header length reads MZ", "b.safetensors", struct.pack("<Q", 0x5A4D) + b'{"w":{' + b" " * 300),
    ("ncnn", "model.param", b"7767517\n75 83\nInput data 0 1 data"),
    ("OpenVINO", "model.xml", b'<?xml version="1.0"?>\n<net name="main" version="11">'),
    ("zip in a part file", "model.pt.part", _zip("archive/data.pkl")),
    ("zeros, then data", "sparse.bin", bytes(10_000) + b"\x01"),
]


@pytest.mark.parametrize(("name", "content"), [entry[1:] for entry in UNCLAIMED], ids=[entry[0] for entry in UNCLAIMED])
def test_what_may_be_a_model_is_left_alone(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with ByteSource.open(path) as source:
        assert not FORMAT.claims(Candidate(path, source))


def test_a_folder_is_never_claimed(tmp_path: Path) -> None:
    assert not FORMAT.claims(Candidate(tmp_path, None))


def test_it_lists_no_endings_so_that_a_folder_scan_only_counts_such_files() -> None:
    assert FORMAT.suffixes == ()
