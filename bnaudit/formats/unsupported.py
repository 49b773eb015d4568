"""Model formats that bnaudit recognises and does not read, and archives with a model inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bnaudit.description import Description
from bnaudit.errors import NotAuditedError
from bnaudit.formats import Candidate, Format

if TYPE_CHECKING:
    from bnaudit.reading.recognition.foreign_formats import Foreign

SUFFIXES = (
    *(".h5", ".hdf5", ".keras", ".tflite", ".engine", ".mlmodel", ".pdmodel", ".pdiparams", ".mnn", ".caffemodel"),
    *(".distcp", ".pte", ".ort", ".gguf", ".ggml", ".rknn", ".mar", ".nemo", ".mlpackage", ".mlmodelc"),
)
"""Endings that say model on their own; general ones (.xml, .json, .bin, .zip, .plan) are known by content alone."""


def _recognised(candidate: Candidate) -> Foreign | None:
    from bnaudit.reading.recognition.archives import archive
    from bnaudit.reading.recognition.foreign_formats import Foreign, recognise, recognise_folder

    if candidate.source is None:
        return recognise_folder(candidate.path)
    name, source, head, members = candidate.path.name, candidate.source, candidate.head, candidate.members
    foreign = recognise(name, source, head, members)
    if foreign is not None:
        return foreign
    found = archive(name, source, head, members)
    if found is None or not found.model:
        return None
    return Foreign(f"a {found.kind} archive around {found.model}", "unpack it first and give the model in it")


def claims(candidate: Candidate) -> bool:
    """By a mark in the content; by the ending only where the format has none and the content is not text."""
    return _recognised(candidate) is not None


def read(candidate: Candidate) -> Description:
    """Always raises NotAuditedError: what the file is and what to give instead."""
    what, remedy = _recognised(candidate) or ("a model format that bnaudit does not know", "give the checkpoint")
    raise NotAuditedError(f"this is {what}, which is not read", where=candidate.path.name, remedy=remedy)


FORMAT = Format(name="a format that is not read", suffixes=SUFFIXES, claims=claims, read=read, is_read=False)
