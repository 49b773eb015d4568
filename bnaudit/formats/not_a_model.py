"""Files that are no models, each named: an empty file, a web page, a Git LFS pointer, an image, an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bnaudit.description import Description
from bnaudit.errors import NotAModelError
from bnaudit.formats import Candidate, Format

if TYPE_CHECKING:
    from bnaudit.reading.recognition.not_models import NotModel


def _recognised(candidate: Candidate) -> NotModel | None:
    from bnaudit.reading.recognition.archives import archive, is_encrypted
    from bnaudit.reading.recognition.foreign_formats import recognise as recognise_model
    from bnaudit.reading.recognition.not_models import NotModel, recognise

    source, name, head, members = candidate.source, candidate.path.name, candidate.head, candidate.members
    if source is None or recognise_model(name, source, head, members) is not None:
        return None
    found = archive(name, source, head, members)
    if found is None:
        return recognise(name, source, head)
    if found.model:
        return None
    if is_encrypted(head):
        return NotModel("this zip archive is encrypted", "unpack it with its password and give the model in it")
    if found.is_listed:
        return NotModel(f"this {found.kind} archive has no model in it", "give the checkpoint or graph")
    return NotModel(
        f"this is a {found.kind} archive whose content cannot be seen", "unpack it first and give the model in it"
    )


def claims(candidate: Candidate) -> bool:
    """Only what is certainly no model: the marks of other files, text that is no pickle, nothing but zeros."""
    return _recognised(candidate) is not None


def read(candidate: Candidate) -> Description:
    """Always raises NotAModelError: what the file is and what to do."""
    found = _recognised(candidate)
    what, remedy = found or ("this is not a model", "give the checkpoint or graph")
    raise NotAModelError(what, where=candidate.path.name, remedy=remedy)


FORMAT = Format(name="not a model", suffixes=(), claims=claims, read=read, is_read=False)
