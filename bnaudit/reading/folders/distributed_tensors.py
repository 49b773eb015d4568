"""Tensors of a torch.distributed.checkpoint, put together from pieces in several files."""

from __future__ import annotations

from contextlib import ExitStack
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from bnaudit.caps import Caps
from bnaudit.errors import CapExceededError, MalformedError, UnreadableError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.checkpoints.torch_archive import read_archive
from bnaudit.reading.folders.distributed_metadata import Piece, Spread
from bnaudit.reading.pickles.imports import ImportLog
from bnaudit.reading.pickles.state import OpcodeMeter
from bnaudit.reading.tensors.tensor_refs import TensorRef

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class PieceFiles:
    """The files of a checkpoint's folder, opened when first needed and closed on leaving the context."""

    def __init__(self, folder: Path, caps: Caps) -> None:
        self.caps = caps
        self.meter = OpcodeMeter()
        self.imports = ImportLog()
        self._folder = folder
        self._opened = ExitStack()
        self._sources: dict[str, ByteSource] = {}

    def __enter__(self) -> PieceFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    @property
    def bytes_read(self) -> int:
        """Bytes read from all files so far."""
        return sum(source.bytes_read for source in self._sources.values())

    def values(self, piece: Piece) -> NDArray[np.float64] | NDArray[np.int64]:
        """The values of one piece. Raises UnreadableError when they are not there."""
        if piece.encoded:
            raise UnreadableError("a compressed piece is not read", where=piece.file, remedy="save it uncompressed")
        if piece.file not in self._sources:
            self._sources[piece.file] = self._opened.enter_context(
                ByteSource.open(self._folder / piece.file, self.caps)
            )
        saved = self._sources[piece.file].slice(piece.start, piece.length)
        pickled, tensors = read_archive(saved, self.meter, self.imports)
        ref = tensors.tensor(pickled.root)
        if ref is None or ref.shape != piece.sizes:
            raise MalformedError(f"{piece.file} does not hold the piece that .metadata says", where=f"at {piece.start}")
        return ref.load()


class SpreadTensor(TensorRef):
    """A tensor over its pieces."""

    __slots__ = ("_files", "_spread")

    def __init__(self, spread: Spread, files: PieceFiles) -> None:
        super().__init__(spread.dtype, spread.shape, identity=tuple((p.file, p.start) for p in spread.pieces) or None)
        self._spread = spread
        self._files = files

    def load(self) -> NDArray[np.float64] | NDArray[np.int64]:
        """The values; see TensorRef."""
        import numpy as np

        pieces, shape = self._spread.pieces, self.shape
        if prod(shape) * 8 > self._files.caps.value_bytes:
            raise CapExceededError(f"a norm tensor of {prod(shape)} elements", cap="value_bytes")
        if sum(prod(piece.sizes) for piece in pieces) != prod(shape):
            raise MalformedError("its pieces do not make up the tensor", where=".".join(self._spread.path)[:200])
        made: NDArray[np.float64] | NDArray[np.int64]
        made = np.empty(shape, np.float64) if "float" in self.dtype else np.empty(shape, np.int64)
        covered = np.zeros(shape, np.bool_)
        for piece in pieces:
            ends = [offset + size for offset, size in zip(piece.offsets, piece.sizes, strict=True)]
            block = tuple(slice(offset, end) for offset, end in zip(piece.offsets, ends, strict=True))
            if any(end > size for end, size in zip(ends, shape, strict=True)) or covered[block].any():
                raise MalformedError("its pieces overlap or leave it", where=".".join(self._spread.path)[:200])
            made[block] = self._files.values(piece)
            covered[block] = True
        return made
