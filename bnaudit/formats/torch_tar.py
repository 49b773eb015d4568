"""The tar files that PyTorch wrote before 0.2: recognised, not read."""

from __future__ import annotations

from bnaudit.description import Description
from bnaudit.errors import NotAuditedError
from bnaudit.formats import Candidate, Format

NAME = "PyTorch tar checkpoint"
_MEMBERS = (b"sys_info", b"storages", b"tensors", b"pickle")


def claims(candidate: Candidate) -> bool:
    """A tar file whose first member is one of the four that torch wrote."""
    head = candidate.head
    return head.startswith(b"ustar", 257) and head[:100].split(b"\0", 1)[0].removeprefix(b"./") in _MEMBERS


def read(candidate: Candidate) -> Description:
    """Always raises NotAuditedError: what the file is and what to do."""
    raise NotAuditedError(
        "a checkpoint of PyTorch before 0.2, in its tar layout, is not audited",
        where=candidate.path.name,
        remedy="load it with torch.load(path, weights_only=False), if you trust it, and save it again",
    )


FORMAT = Format(name=NAME, suffixes=(".pt", ".pth", ".t7", ".tar"), claims=claims, read=read, is_read=False)
