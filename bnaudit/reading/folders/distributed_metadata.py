"""The `.metadata` of a torch.distributed.checkpoint: which tensors there are, and which file holds which piece.

It is a pickle of `torch.distributed.checkpoint.metadata.Metadata` (PyTorch 2.0 to 2.13). Pieces are torch.save files
inside the `.distcp` files, at an offset that only this pickle knows.
"""

from __future__ import annotations

from typing import NamedTuple

from bnaudit.errors import MalformedError, UnsafePathError
from bnaudit.reading.checkpoints.tally import TENSOR, Tally
from bnaudit.reading.pickles.stand_ins import Call, Global, PickleDict

Sizes = tuple[int, ...]

_MODULE = "torch.distributed.checkpoint."
_MOST_AXES = 64


class Piece(NamedTuple):
    """A block of a tensor: `offsets` in the tensor, `sizes`, and where its bytes are."""

    offsets: Sizes
    sizes: Sizes
    file: str
    start: int
    length: int
    encoded: bool
    """Compressed or otherwise transformed by the writer."""


class Spread(NamedTuple):
    """One tensor over its pieces."""

    path: tuple[str, ...]
    """Its keys in the nested state dict that was saved; the last one is its name in its own dict."""
    dtype: str
    shape: Sizes
    pieces: tuple[Piece, ...]


def spread_tensors(root: object, tally: Tally | None = None) -> list[Spread]:
    """The tensors that the value of the pickle describes, in file order.

    Raises MalformedError when it is no Metadata, UnsafePathError when a file is not beside it, CapExceededError when
    there are more tensors and pieces than the tally allows.
    """
    tally = tally if tally is not None else Tally()
    fields = _state(root, "Metadata")
    tensors = fields.get("state_dict_metadata") if fields is not None else None
    storage = _pairs(fields.get("storage_data")) if fields is not None else None
    if not isinstance(tensors, PickleDict) or storage is None:
        raise MalformedError("this .metadata is not that of a torch.distributed.checkpoint")
    places = _places(storage)
    paths = _pairs(fields.get("planner_data")) if fields is not None else None
    found = []
    for name, value in tensors.pairs():
        tensor = _state(value, "TensorStorageMetadata")
        if isinstance(name, str) and tensor is not None:
            path = _path(paths.get(name) if paths is not None else None) or (name,)
            chunks = tensor.get("chunks")
            tally.objects(TENSOR + (len(chunks) if isinstance(chunks, list) else 0))
            found.append(_spread(name, path, tensor, places))
    return found


def _spread(
    name: str, path: tuple[str, ...], tensor: PickleDict, places: dict[tuple[str, Sizes], tuple[str, int, int, bool]]
) -> Spread:
    shape, chunks = _sizes(tensor.get("size")), tensor.get("chunks")
    if shape is None or not isinstance(chunks, list):
        raise MalformedError("a tensor without size or pieces", where=name[:200])
    pieces = []
    for chunk in chunks:
        fields = _state(chunk, "ChunkStorageMetadata")
        offsets = _sizes(fields.get("offsets")) if fields is not None else None
        sizes = _sizes(fields.get("sizes")) if fields is not None else None
        if offsets is None or sizes is None or len(offsets) != len(shape) or len(sizes) != len(shape):
            raise MalformedError("a piece without offsets and sizes", where=name[:200])
        place = places.get((name, offsets))
        if place is not None:
            pieces.append(Piece(offsets, sizes, *place))
    return Spread(path, _dtype(tensor.get("properties")), shape, tuple(pieces))


def _places(storage: PickleDict) -> dict[tuple[str, Sizes], tuple[str, int, int, bool]]:
    """(tensor, offsets of the piece) -> (file, start, length, encoded)."""
    places = {}
    for key, value in storage.pairs():
        index, info = _state(key, "MetadataIndex"), _state(value, "_StorageInfo")
        if index is None or info is None:
            continue
        name, offsets = index.get("fqn"), _sizes(index.get("offset"))
        file, start, length = info.get("relative_path"), info.get("offset"), info.get("length")
        if not isinstance(file, str) or not isinstance(start, int) or not isinstance(length, int):
            raise MalformedError("a piece without a place in a file", where=str(name)[:200])
        if file in ("", ".", "..") or any(character in file for character in "/\\:\0"):
            raise UnsafePathError(
                f"it refers to {file[:80]!r}, which is not a file beside it",
                where=".metadata",
                remedy="do not trust this checkpoint",
            )
        if isinstance(name, str) and offsets is not None:
            places[name, offsets] = (file, start, length, bool(info.get("transform_descriptors")))
    return places


def _state(value: object, class_name: str) -> PickleDict | None:
    """The `__dict__` of an object of one of the checkpoint's own classes."""
    if not isinstance(value, Call) or not isinstance(value.callee, Global) or not isinstance(value.state, PickleDict):
        return None
    ours = value.callee.module.startswith(_MODULE) and value.callee.name == class_name
    return value.state if ours else None


def _pairs(value: object) -> PickleDict | None:
    if isinstance(value, PickleDict):
        return value
    return value.items if isinstance(value, Call) else None


def _sizes(value: object) -> Sizes | None:
    if isinstance(value, Call) and value.callee_name == "torch.Size" and len(value.args) == 1:
        value = value.args[0]
    if not isinstance(value, (tuple, list)) or len(value) > _MOST_AXES:
        return None
    sizes = tuple(size for size in value if type(size) is int and 0 <= size < 1 << 62)
    return sizes if len(sizes) == len(value) else None


def _path(value: object) -> tuple[str, ...]:
    keys = value if isinstance(value, (tuple, list)) and len(value) <= 200 else ()
    return tuple(str(key) for key in keys if isinstance(key, (str, int)))


def _dtype(properties: object) -> str:
    """TensorProperties pickles as (dtype, layout, requires_grad, memory format, pinned)."""
    state = properties.state if isinstance(properties, Call) else None
    if isinstance(state, PickleDict):
        state = (state.get("dtype"),)
    dtype = state[0] if isinstance(state, tuple) and state else None
    return dtype.name if isinstance(dtype, Global) and dtype.module == "torch" else "unknown"
