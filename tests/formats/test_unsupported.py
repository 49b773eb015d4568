"""Formats that are recognised and not read: marks are written from the formats' own specifications."""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest

from bnaudit.errors import NotAuditedError
from bnaudit.formats import Candidate, formats, identify
from bnaudit.formats.unsupported import FORMAT
from bnaudit.reading.byte_source import ByteSource


def _flatbuffer(mark: bytes) -> bytes:
    return struct.pack("<I", 28) + mark + bytes(64)


def _message(*fields: bytes) -> bytes:
    """Length-delimited protobuf fields (number in the tag byte, then the payload), shorter than 128 bytes each."""
    return b"".join(tag[:1] + bytes([len(tag) - 1]) + tag[1:] for tag in fields)


def _zip(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, b"content")
    return buffer.getvalue()


def _tar(mode: str, *names: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = 700
            archive.addfile(member, io.BytesIO(bytes(700)))
    return buffer.getvalue()


_GRAPH_DEF = _message(b"\x0a" + _message(b"\x0ainput", b"\x12Placeholder"))
_SAVED_MODEL = b"\x08\x01" + _message(b"\x12" + _message(b"\x0a" + b"\x12\x05serve"))

FILES = [
    ("weights.h5", b"\x89HDF\r\n\x1a\n" + bytes(100), "HDF5"),
    ("renamed.pt", b"\x89HDF\r\n\x1a\n" + bytes(100), "HDF5"),
    ("model.keras", _zip("metadata.json", "config.json", "model.weights.h5"), "Keras"),
    ("model.tflite", _flatbuffer(b"TFL3"), "TensorFlow Lite"),
    ("model.pte", _flatbuffer(b"ET12"), "ExecuTorch"),
    ("model.ort", _flatbuffer(b"ORTM"), "ONNX Runtime"),
    ("model.gguf", b"GGUF" + struct.pack("<IQQ", 3, 10, 4), "GGUF"),
    ("model.bin", struct.pack("<I", 0x67676D6C) + bytes(40), "GGML"),
    ("model.plan", b"ptrt\0\0" + bytes(90), "TensorRT"),
    ("model.engine", b"ftrt\0\0" + bytes(90), "TensorRT"),
    ("yolo.engine", struct.pack("<I", 30) + b'{"stride": 32}' + b"\0\xff" * 40, "TensorRT"),
    ("model.xml", b'<?xml version="1.0"?>\n<net name="main" version="11">\n<layers>', "OpenVINO"),
    ("model.mlmodel", b"\x08\x07\x12\x04abcd" + b"\0\xff" * 40, "Core ML"),
    ("model.pdmodel", b"\x0a\xd9\x01\x08\x00" + b"\0\xff" * 40, "PaddlePaddle"),
    ("model.pdiparams", bytes(12) + struct.pack("<II", 0, 8) + b"\x08\x05\xff" * 9, "PaddlePaddle"),
    ("inference.json", b'{"base_code": {"magic": "pir", "trainable": true, "version": 1}}', "PaddlePaddle"),
    ("net-0000.params", struct.pack("<QQQ", 0x112, 0, 2) + bytes(30), "MXNet"),
    ("net-symbol.json", b'{\n  "nodes": [\n    {\n      "op": "null", "name": "data"}', "MXNet"),
    ("model.param", b"7767517\n75 83\nInput  data 0 1 data", "ncnn"),
    ("model.param.bin", struct.pack("<iii", 7767517, 75, 83) + bytes(40), "ncnn"),
    ("model.mnn", b"\x20\0\0\0\0\0\x1a\0" + b"\xff\0" * 40, "MNN"),
    ("model.rknn", b"RKNN" + bytes(60), "RKNN"),
    ("net.caffemodel", b"\x0a\x09ResNet-50" + b"\xa2\x06\xff" * 20, "Caffe"),
    ("flax_model.msgpack", b"\x82\xa4bert\xde\x00\x10\xff", "Flax"),
    ("__0_0.distcp", _zip("archive/data.pkl", "archive/data/0"), "torch.distributed.checkpoint"),
    ("model.ckpt.index", bytes(60) + struct.pack("<Q", 0xDB4775248B80FB57), "TensorFlow checkpoint"),
    ("model.ckpt.data-00000-of-00001", b"\x01\xfe\x02" * 30, "TensorFlow checkpoint"),
    ("checkpoint", b'model_checkpoint_path: "model.ckpt-100"\n', "TensorFlow checkpoint"),
    ("frozen.pb", _GRAPH_DEF, "frozen TensorFlow graph"),
    ("saved_model.pb", _SAVED_MODEL, "SavedModel"),
    ("model.json", b'{"format": "graph-model", "generatedBy": "2.0"}', "TensorFlow.js"),
    ("package.pt", _zip("package/.data/extern_modules", "package/model/model.pkl", "package/code.py"), "torch.package"),
    ("resnet.mar", _zip("MAR-INF/MANIFEST.json", "resnet.pth"), "TorchServe"),
    ("compiled.pt2", _zip("c/archive_format", "c/data/aotinductor/model/a.wrapper.so"), "AOTInductor"),
    ("asr.nemo", _tar("w", "model_config.yaml", "model_weights.ckpt"), "NeMo"),
    ("asr.nemo", _tar("w:gz", "model_config.yaml", "model_weights.ckpt"), "NeMo"),
    ("bundle.zip", _zip("readme.txt", "weights/best.pth"), "zip archive around weights/best.pth"),
    ("bundle.tar", _tar("w", "readme.txt", "model.safetensors"), "tar archive around model.safetensors"),
    ("bundle.tar.gz", _tar("w:gz", "model.onnx"), "gzip archive around model.onnx"),
    ("resnet.pth.xz", b"\xfd7zXZ\0" + bytes(40), "xz archive around resnet.pth"),
    ("resnet.onnx.zst", b"\x28\xb5\x2f\xfd" + bytes(40), "zstd archive around resnet.onnx"),
    ("model.ckpt.7z", b"7z\xbc\xaf\x27\x1c" + bytes(40), "7z archive around model.ckpt"),
]


@pytest.mark.parametrize(("name", "content", "named"), FILES, ids=[f"{name}-{named}" for name, _, named in FILES])
def test_each_format_is_named_with_what_to_do(tmp_path: Path, name: str, content: bytes, named: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with ByteSource.open(path) as source:
        candidate = Candidate(path, source)
        assert identify(candidate) is FORMAT
        with pytest.raises(NotAuditedError) as caught:
            FORMAT.read(candidate)
    sentence = str(caught.value)
    assert named in sentence
    assert name in sentence
    assert caught.value.remedy
    assert "\n" not in sentence


FOLDERS = [
    ("saved", ["saved_model.pb", "variables/variables.index"], "SavedModel"),
    ("Net.mlpackage", ["Manifest.json"], "Core ML"),
    ("Net.mlmodelc", ["coremldata.bin"], "Core ML"),
    ("orbax", ["_CHECKPOINT_METADATA", "manifest.ocdbt"], "Orbax"),
    ("step_100", [".metadata", "__0_0.distcp"], "torch.distributed.checkpoint"),
]


@pytest.mark.parametrize(("name", "files", "named"), FOLDERS, ids=[entry[0] for entry in FOLDERS])
def test_each_folder_format_is_named(tmp_path: Path, name: str, files: list[str], named: str) -> None:
    for file in files:
        (tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name / file).write_bytes(b"\0")
    candidate = Candidate(tmp_path / name, None)
    assert FORMAT.claims(candidate)
    with pytest.raises(NotAuditedError, match=named.replace(".", r"\.")):
        FORMAT.read(candidate)


UNCLAIMED = [
    (
        "safetensors with a header of 274 bytes",
        "a.safetensors",
        struct.pack("<Q", 0x112) + b'{"w":{"dtype":"F32"' + b" " * 255,
    ),
    (
        "safetensors with a header of 7767517 bytes",
        "b.safetensors",
        struct.pack("<Q", 7767517) + b'{"w":{' + b" " * 255,
    ),
    ("torch zip", "model.mnn", _zip("archive/data.pkl", "archive/data/0", "archive/version")),
    ("npz", "weights.zip", _zip("conv.weight.npy", "bn.weight.npy")),
    ("exported program", "model.pt2", _zip("m/archive_format", "m/models/model.json", "m/data/sample_inputs/model.pt")),
    ("exported program with a library", "both.pt2", _zip("m/models/model.json", "m/data/aotinductor/model/a.so")),
    ("zip without a model", "letters.zip", _zip("a.txt", "b.doc")),
    ("legacy checkpoint", "model.plan", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."),
    ("text with a model's ending", "notes.engine", b"not an engine at all\n"),
    ("onnx with IR version 1", "old.onnx", b"\x08\x01\x12\x0bCNTK writer" + bytes(20)),
    ("tar of torch 0.1", "old.pt", _tar("w", "sys_info", "pickle", "tensors", "storages")),
]


@pytest.mark.parametrize(("name", "content"), [entry[1:] for entry in UNCLAIMED], ids=[entry[0] for entry in UNCLAIMED])
def test_content_of_other_formats_is_left_alone(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with ByteSource.open(path) as source:
        candidate = Candidate(path, source)
        assert any(entry.claims(candidate) for entry in formats() if entry.is_read) or not FORMAT.claims(candidate)


def test_an_ordinary_folder_is_not_claimed(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(b"\0")
    assert not FORMAT.claims(Candidate(tmp_path, None))


def test_a_folder_with_weights_that_are_read_is_left_to_its_format(tmp_path: Path) -> None:
    for name in ("saved_model.pb", "config.json", "model.safetensors"):
        (tmp_path / name).write_bytes(b"\0")
    assert identify(Candidate(tmp_path, None)).name == "Hugging Face folder"
