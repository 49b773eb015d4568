"""Model formats that bnaudit recognises and does not read, and archives with a model inside."""

from __future__ import annotations

from pathlib import Path

from bnaudit.description import Description
from bnaudit.errors import NotAuditedError
from bnaudit.formats import Candidate, Format
from bnaudit.reading.archives import archive, holds_records
from bnaudit.reading.foreign_formats import SUFFIXES, Foreign, recognise, recognise_folder


def _recognised(candidate: Candidate) -> Foreign | None:
    if candidate.source is None:
        foreign = recognise_folder(candidate.path)
        return foreign if foreign is not None and not _is_read(candidate.path) else None
    name, source, head, members = candidate.path.name, candidate.source, candidate.head, candidate.members
    if holds_records(members) and not name.lower().endswith(".distcp"):
        return None
    foreign = recognise(name, source, head, members)
    if foreign is not None:
        return foreign
    found = archive(name, source, head, members)
    if found is None or not found.model:
        return None
    return Foreign(f"a {found.kind} archive around {found.model}", "unpack it first and give the model in it")


def _is_read(folder: Path) -> bool:
    """Whether weights that are read stand beside the foreign ones, as in many Hugging Face folders."""
    from bnaudit.reading.model_folder import ModelFolder

    return ModelFolder(folder).is_model


def claims(candidate: Candidate) -> bool:
    """By a mark in the content; by the ending only where the format has none and the content is not text."""
    return _recognised(candidate) is not None


def read(candidate: Candidate) -> Description:
    """Always raises NotAuditedError: what the file is and what to give instead."""
    foreign = _recognised(candidate) or Foreign("a model format that bnaudit does not know", "give the checkpoint")
    raise NotAuditedError(
        f"this is {foreign.what}, which is not read", where=candidate.path.name, remedy=foreign.remedy
    )


FORMAT = Format(name="a format that is not read", suffixes=SUFFIXES, claims=claims, read=read)
