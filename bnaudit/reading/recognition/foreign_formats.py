"""Model formats that bnaudit does not read, known by their content; by their ending only where they have no mark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from bnaudit.reading.byte_source import ByteSource

_ONNX = "export the model to ONNX and give that file"
_CHECKPOINT = "give the checkpoint or ONNX file that it was made from"


class Foreign(NamedTuple):
    """What the file is, as the subject of a sentence, and what to give instead."""

    what: str
    remedy: str


_HDF5 = Foreign("an HDF5 file, as Keras writes it", "export the model to ONNX (tf2onnx) and give that file")
_KERAS = Foreign("a Keras model", "export the model to ONNX (tf2onnx) and give that file")
_SAVED_MODEL = Foreign("a TensorFlow SavedModel", "convert it to ONNX (tf2onnx) and give that file")
_TF_GRAPH = Foreign("a frozen TensorFlow graph", "convert it to ONNX (tf2onnx) and give that file")
_TF_CHECKPOINT = Foreign("a TensorFlow checkpoint", "convert the model to ONNX (tf2onnx) and give that file")
_TF_JS = Foreign("a TensorFlow.js model", "convert it to ONNX (tf2onnx) and give that file")
_TFLITE = Foreign("a TensorFlow Lite model", "convert it to ONNX (tf2onnx) and give that file")
_TENSORRT = Foreign("a TensorRT engine", "give the ONNX file that it was built from")
_OPENVINO = Foreign("an OpenVINO model", "give the ONNX file or checkpoint that it was converted from")
_CORE_ML = Foreign("a Core ML model", _CHECKPOINT)
_GGUF = Foreign("a GGUF model", "give the safetensors files that it was converted from")
_GGML = Foreign("a GGML model", "give the checkpoint that it was converted from")
_PADDLE = Foreign("a PaddlePaddle model", "export the model to ONNX (paddle2onnx) and give that file")
_EXECUTORCH = Foreign("an ExecuTorch program", "give the .pt2 or checkpoint that it was lowered from")
_ORT = Foreign("an ONNX Runtime flatbuffer", "give the .onnx file that it was converted from")
_AOT_INDUCTOR = Foreign(
    "a compiled AOTInductor package without a graph", "save it with torch.export.save and give that"
)
_MXNET = Foreign("an MXNet model", _ONNX)
_NCNN = Foreign("an ncnn model", _CHECKPOINT)
_MNN = Foreign("an MNN model", _CHECKPOINT)
_RKNN = Foreign("a Rockchip RKNN model", _CHECKPOINT)
_CAFFE = Foreign("a Caffe model", "convert it to ONNX and give that file")
_FLAX = Foreign("a Flax msgpack checkpoint", "save the weights as safetensors and give that file")
_ORBAX = Foreign("an Orbax checkpoint", "save the weights as safetensors and give that file")
_TORCH_PACKAGE = Foreign("a torch.package archive, which carries code", "save the state dict or the ONNX and give that")
_TORCHSERVE = Foreign("a TorchServe archive", "unpack it first and give the checkpoint in it")
_NEMO = Foreign("a NeMo archive", "unpack it first and give model_weights.ckpt")
_DISTRIBUTED = Foreign(
    "a torch.distributed.checkpoint",
    "merge it with torch.distributed.checkpoint.format_utils.dcp_to_torch_save and give the result",
)

_MAGIC: tuple[tuple[int, bytes, Foreign], ...] = (
    (0, b"\x89HDF\r\n\x1a\n", _HDF5),
    (4, b"TFL3", _TFLITE),
    (4, b"ET12", _EXECUTORCH),
    (4, b"ORTM", _ORT),
    (0, b"GGUF", _GGUF),
    (0, b"lmgg", _GGML),
    (0, b"fmgg", _GGML),
    (0, b"tjgg", _GGML),
    (0, b"ptrt\0\0", _TENSORRT),
    (0, b"ftrt\0\0", _TENSORRT),
    (0, b"\x12\x01" + bytes(14), _MXNET),
    (0, b"7767517", _NCNN),
    (0, b"\xdd\x85\x76\x00", _NCNN),
    (0, b"RKNN", _RKNN),
    (0, b"model_checkpoint_path:", _TF_CHECKPOINT),
)

_ENDINGS: tuple[tuple[str, Foreign], ...] = (
    (".engine", _TENSORRT),
    (".plan", _TENSORRT),
    (".trt", _TENSORRT),
    (".mlmodel", _CORE_ML),
    (".pdmodel", _PADDLE),
    (".pdiparams", _PADDLE),
    (".mnn", _MNN),
    (".caffemodel", _CAFFE),
    (".msgpack", _FLAX),
)
"""Formats without a mark of their own: the ending decides, when the content is not text."""

_MEMBERS: tuple[tuple[str, Foreign], ...] = (
    (r"(^|/)model\.weights\.h5$", _KERAS),
    (r"(^|/)\.data/extern_modules$", _TORCH_PACKAGE),
    (r"^MAR-INF/MANIFEST\.json$", _TORCHSERVE),
    (r"(^|/)data/aotinductor/", _AOT_INDUCTOR),
    (r"(^|/)model_weights\.ckpt$", _NEMO),
    (r"(^|/)saved_model\.pb$", _SAVED_MODEL),
    (r"\.mlpackage/|(^|/)com\.apple\.CoreML/", _CORE_ML),
)

_FOLDER_MARKS: tuple[tuple[str, Foreign], ...] = (
    ("saved_model.pb", _SAVED_MODEL),
    ("saved_model.pbtxt", _SAVED_MODEL),
    ("_CHECKPOINT_METADATA", _ORBAX),
    ("manifest.ocdbt", _ORBAX),
    ("coremldata.bin", _CORE_ML),
)


def recognise(name: str, source: ByteSource, head: bytes, members: tuple[str, ...]) -> Foreign | None:
    """The foreign format that a file is in, from its first bytes and the names in its zip directory."""
    if head[4:9] == b"\0\0\0\0{":
        return None  # the header length of safetensors can equal a mark
    for offset, magic, foreign in _MAGIC:
        if head.startswith(magic, offset):
            return foreign
    if name.lower().endswith(".distcp"):
        return _DISTRIBUTED  # several torch.save archives in a row: the content alone looks like one
    if name.lower().endswith(".nemo") and (head.startswith(b"ustar", 257) or head.startswith(b"\x1f\x8b")):
        return _NEMO
    for pattern, foreign in _MEMBERS if members else ():
        if any(re.search(pattern, member) for member in members):
            return foreign
    return _text(head) or _tensorflow(name, source, head) or _by_ending(name, head)


def recognise_folder(folder: Path) -> Foreign | None:
    """The foreign format that a folder is in."""
    if folder.name.endswith((".mlpackage", ".mlmodelc")):
        return _CORE_ML
    if (folder / ".metadata").is_file() and any(folder.glob("*.distcp")):
        return _DISTRIBUTED  # a .metadata that is no pickle: a newer or compressed form
    return next((foreign for mark, foreign in _FOLDER_MARKS if (folder / mark).is_file()), None)


def _text(head: bytes) -> Foreign | None:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith((b"<?xml", b"<net")) and re.search(rb"<net\s[^>]*version=", head):
        return _OPENVINO
    if not text.startswith(b"{"):
        return None
    if re.search(rb'"format"\s*:\s*"(graph|layers)-model"', head):
        return _TF_JS
    if re.search(rb'"magic"\s*:\s*"pir"', head):
        return _PADDLE
    return _MXNET if re.search(rb'^\{\s*"nodes"\s*:\s*\[\s*\{\s*"op"\s*:', text) else None


def _tensorflow(name: str, source: ByteSource, head: bytes) -> Foreign | None:
    if source.size >= 48 and source.tail(8) == b"\x57\xfb\x80\x8b\x24\x75\x47\xdb":  # LevelDB's table magic
        return _TF_CHECKPOINT
    if re.search(r"\.data-\d{5}-of-\d{5}$", name):
        return _TF_CHECKPOINT
    # SavedModel{1: schema version 1, 2: MetaGraphDef{1: …}}; an ONNX producer name would not begin with a newline.
    if re.match(rb"\x08\x01\x12[\x80-\xff]*[\x01-\x7f]\x0a", head):
        return _SAVED_MODEL
    # GraphDef{1: NodeDef{1: name, 2: operator}}
    node = re.match(rb"\x0a[\x80-\xff]*[\x01-\x7f]\x0a([\x01-\x7f])", head)
    if node is None:
        return None
    after = head[node.end() + node.group(1)[0] :]
    return _TF_GRAPH if re.match(rb"\x12[\x01-\x7f][A-Z_][A-Za-z0-9_]+", after) else None


def _by_ending(name: str, head: bytes) -> Foreign | None:
    if not head or looks_like_text(head) or head.startswith((b"PK\x03\x04", b"\x80")):
        return None
    return next((foreign for ending, foreign in _ENDINGS if name.lower().endswith(ending)), None)


def looks_like_text(head: bytes) -> bool:
    """Whether the first bytes are text in UTF-8: no control characters but white space, no broken sequence."""
    if re.search(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]", head):
        return False
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start >= len(head) - 3 and error.end >= len(head)  # a character cut at the end of the head
    return True
