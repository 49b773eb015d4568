"""The bytecode of PyTorch Mobile's lite interpreter, which is not followed: what that leaves open."""

from __future__ import annotations

from bnaudit.errors import UnreadableError
from bnaudit.reading.pickles.stand_ins import PickleDict
from bnaudit.reading.torchscript.archive import ScriptArchive
from bnaudit.reading.torchscript.operators import signature

_RECORD = "bytecode.pkl"


def report_bytecode(archive: ScriptArchive) -> None:
    """Report that `bytecode.pkl` is not followed. Beside `code/`, which says the same, nothing is hidden; alone, its
    list of operators tells whether norm layers may be."""
    if archive.library.is_there:
        archive.library.report(_RECORD, "it is not read: code/ says the same and was", hides_norms=False)
        return
    try:
        norms = sorted(_normalizing(archive.value("bytecode")))
    except UnreadableError as error:
        archive.library.report(_RECORD, str(error))
        return
    called = f"calls {', '.join(norms)}" if norms else "calls no normalization"
    archive.library.report(_RECORD, f"it is not followed: it {called}", hides_norms=bool(norms))


def _normalizing(root: object) -> set[str]:
    """The normalization operators among all strings of a pickle (`aten::batch_norm`), without recursion."""
    found: set[str] = set()
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            known = signature(value.removeprefix("aten::").replace("::", "."))
            if "::" in value and known is not None and known.role == "norm":
                found.add(value)
        elif isinstance(value, (tuple, list, PickleDict)) and id(value) not in seen:
            seen.add(id(value))
            waiting.extend(
                (part for pair in value.pairs() for part in pair) if isinstance(value, PickleDict) else value
            )
    return found
