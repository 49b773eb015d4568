"""The weights of an exported program: raw members described by a JSON config, or torch.save archives inside.

torch/export/pt2_archive/_package.py (torch 2.9 and later) writes one member per storage and `…_config.json`;
torch 2.8 writes `data/weights/model.pt`; torch 2.1 to 2.7 `serialized_state_dict.pt` (2.1: the same named `.json`).
"""

from __future__ import annotations

from bnaudit.errors import MalformedError, UnreadableError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.exported.sizes import dtype_name, size_of
from bnaudit.reading.json_text import JsonObject, as_object, list_at, object_at, parse_json, text_at
from bnaudit.reading.pickles.imports import ImportLog
from bnaudit.reading.pickles.machine import run
from bnaudit.reading.pickles.stand_ins import Call, PickleDict
from bnaudit.reading.pickles.state import OpcodeMeter
from bnaudit.reading.tensors.element_types import element_bytes
from bnaudit.reading.tensors.strided_tensor import AbsentTensor, Layout, StoragePart, StridedTensor, UnreadableTensor
from bnaudit.reading.tensors.tensor_refs import LARGEST, TensorRef
from bnaudit.reading.tensors.torch_tensors import TorchTensors
from bnaudit.reading.tensors.zip_storages import ZipStorages, is_big_endian
from bnaudit.reading.zip_directory import ZipDirectory

_STRIDED = 7
_TENSOR_BYTES = 600


class PickleReader:
    """Reads the torch.save archives inside one package: one opcode budget and one record of imports for all."""

    __slots__ = ("_meter", "imports")

    def __init__(self) -> None:
        self._meter = OpcodeMeter()
        self.imports = ImportLog()

    def bare(self, source: ByteSource) -> object:
        """The value of a pickle without an archive around it."""
        return run(source, meter=self._meter, imports=self.imports).root

    def charge(self, source: ByteSource, tensors: int) -> None:
        """Count tensors that are made of what a pickle holds. Raises CapExceededError."""
        self._meter.charge(source, tensors, tensors * _TENSOR_BYTES)

    def archive(self, source: ByteSource) -> tuple[object, TorchTensors]:
        """The value of a torch.save archive, and what finds the tensors in it."""
        inner = ZipDirectory(source)
        root = self.bare(inner.open(f"{inner.record_prefix()}data.pkl"))
        return root, TorchTensors(ZipStorages(inner), big_endian=is_big_endian(inner))


def pickled_refs(source: ByteSource, pickles: PickleReader) -> dict[str, TensorRef]:
    """The tensors of a state dict in a torch.save archive.

    Raises MalformedError when the archive holds something else, or is no archive.
    """
    root, tensors = pickles.archive(source)
    pairs = root if isinstance(root, PickleDict) else root.items if isinstance(root, Call) else None
    if pairs is None:
        if isinstance(root, Call):
            return {}
        raise MalformedError("the weights are no state dict", where=source.name)
    refs = {}
    pickles.charge(source, len(pairs))  # a pickle can name one tensor a million times
    for name, value in pairs.pairs():
        ref = tensors.tensor(value)
        if isinstance(name, str) and ref is not None:
            refs[name] = ref
    return refs


class ConfiguredWeights:
    """The tensors that a payload config names, in one folder of the archive."""

    def __init__(self, archive: ZipDirectory, folder: str, big_endian: bool, pickles: PickleReader) -> None:
        self._archive = archive
        self._folder = folder
        self._storages = ZipStorages(archive, folder)
        self._big_endian = big_endian
        self._pickles = pickles

    def refs(self, config: ByteSource) -> dict[str, TensorRef]:
        """Name to tensor. Entries without tensor data (custom objects) are left out."""
        entries = object_at(as_object(parse_json(config), "a weights config"), "config")
        found = {name: self._ref(as_object(entry, "an entry of a weights config")) for name, entry in entries.items()}
        return {name: ref for name, ref in found.items() if ref is not None}

    def _ref(self, entry: JsonObject) -> TensorRef | None:
        meta, path = object_at(entry, "tensor_meta"), text_at(entry, "path_name")
        if not meta:
            return None
        dtype, shape = dtype_name(meta.get("dtype")), _integers(meta, "sizes")
        strides, offset = _integers(meta, "strides"), size_of(meta.get("storage_offset")).value
        requires_grad = meta.get("requires_grad")
        grad = requires_grad if isinstance(requires_grad, bool) else None
        if (
            shape is None
            or strides is None
            or not isinstance(offset, int)
            or offset >= LARGEST
            or meta.get("layout", _STRIDED) != _STRIDED
        ):
            why = UnreadableError("a weight that is not dense", remedy="save norm layers as plain dense tensors")
            ref: TensorRef = UnreadableTensor(why, dtype, shape or (), grad)
        elif entry.get("use_pickle"):
            ref = self._pickled(path, dtype, shape, grad)
        else:
            ref = self._raw(path, dtype, Layout(offset, shape, strides), grad)
        ref.is_parameter = entry.get("is_param") is True
        return ref

    def _raw(self, path: str, dtype: str, layout: Layout, grad: bool | None) -> TensorRef:
        try:
            size = self._archive.size(self._folder + path)
        except UnreadableError as error:
            return UnreadableTensor(error, dtype, layout.shape, grad)
        if size == 0 and 0 not in layout.shape:
            absence = "it was saved without values (a fake tensor)"
            return AbsentTensor(dtype, layout.shape, requires_grad=grad, absence=absence)
        part = StoragePart(path, dtype, 0, size // element_bytes(dtype))
        return StridedTensor(self._storages, part, dtype, layout, requires_grad=grad, big_endian=self._big_endian)

    def _pickled(self, path: str, dtype: str, shape: tuple[int, ...], grad: bool | None) -> TensorRef:
        """A tensor subclass, in an archive of its own."""
        try:
            root, tensors = self._pickles.archive(self._archive.open(self._folder + path))
        except UnreadableError as error:
            return UnreadableTensor(error, dtype, shape, grad)
        missing = UnreadableError("a tensor of a class that is not read", remedy="save it as a plain torch.Tensor")
        return tensors.tensor(root) or UnreadableTensor(missing, dtype, shape, grad)


def _integers(meta: JsonObject, key: str) -> tuple[int, ...] | None:
    if not isinstance(meta.get(key), list):
        return None
    sizes = [size_of(entry).value for entry in list_at(meta, key)]
    whole = tuple(size for size in sizes if isinstance(size, int) and size < LARGEST)
    return whole if len(whole) == len(sizes) else None
