"""Bare pickles: dicts of NumPy arrays (detectron2's model zoo), and what pickle.dump makes of a model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bnaudit.description import Description, Part
from bnaudit.errors import UnreadableError
from bnaudit.formats import Candidate, Format
from bnaudit.reading.byte_source import ByteSource

if TYPE_CHECKING:
    from bnaudit.comparison import LinearLayer

NAME = "pickle"

_BEGINNINGS = (
    rb"\x80[\x02-\x05](?:[\x95}\])(KMJGNUXTcCB\x88\x89\x8a\x8c\x8e]|\Z)",  # protocols 2 to 5
    rb"[}\])][qr(.]|\(c[\w.]+\n\w+\n|\([KMGUXT]",  # protocol 1
    rb"\((?:dp?|lp?)\d*\n|\(i|c[\w.]+\n\w+\n|\(c[\w.]+\n\w+\n",  # protocol 0
)
_TORCH_MAGIC = 0x1950A86A20F9469CFC6C
_TORCH_MARKS = (_TORCH_MAGIC.to_bytes(10, "little"), str(_TORCH_MAGIC).encode())


def claims(candidate: Candidate) -> bool:
    """The first opcodes of a pickle of any protocol, without the magic number of a torch file."""
    head = candidate.head
    if head[:1] not in (b"\x80", b"}", b"]", b")", b"(", b"c") or any(mark in head[:48] for mark in _TORCH_MARKS):
        return False
    return any(re.match(beginning, head) for beginning in _BEGINNINGS)


def read(candidate: Candidate) -> Description:
    """Reads the pickle and the arrays of norm layers. Raises UnreadableError."""
    from bnaudit.reading.checkpoints.description import description
    from bnaudit.reading.pickles.machine import ImportLog, run
    from bnaudit.reading.tensors.torch_tensors import TorchTensors

    if candidate.source is None:
        raise UnreadableError(f"{candidate.path} is a folder", remedy="give the file in it")
    imports = ImportLog()
    with imports.told_in_errors():
        pickled = run(candidate.source, imports=imports)
        return description(pickled.root, imports.imports(), TorchTensors(_NoStorages()), candidate.source, NAME)


@contextmanager
def linear(candidate: Candidate, part: Part) -> Iterator[list[LinearLayer]]:
    """The convolutions and linear layers of the part. Raises UnreadableError."""
    from bnaudit.reading.checkpoints.linear_layers import checkpoint_layers
    from bnaudit.reading.checkpoints.tally import Tally
    from bnaudit.reading.pickles.machine import run
    from bnaudit.reading.tensors.torch_tensors import TorchTensors

    source = candidate.source
    assert source is not None  # claimed by its content
    tally = Tally(source.caps, source.name)
    yield checkpoint_layers(run(source).root, TorchTensors(_NoStorages()), part, part.name, tally)


class _NoStorages:
    """A bare pickle has no storages: what torch tensors in it refer to is in another file."""

    def find(self, key: str) -> ByteSource:
        """Always raises UnreadableError."""
        raise UnreadableError(f"storage {key[:80]} is not in the file", remedy="save the checkpoint with torch.save")


# No endings: most files called .pkl are no models, and the content decides anyway.
FORMAT = Format(name=NAME, suffixes=(), claims=claims, read=read, linear=linear)
