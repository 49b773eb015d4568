"""Hugging Face folders: config.json beside weights in one file or in shards, sometimes in both kinds at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bnaudit.description import Artifact, Description, Part
from bnaudit.errors import UnreadableError
from bnaudit.formats import Candidate, Format

if TYPE_CHECKING:
    from bnaudit.comparison import LinearLayer

NAME = "Hugging Face folder"


def claims(candidate: Candidate) -> bool:
    """A folder with an index of shards, or with config.json and weights."""
    if candidate.source is not None:
        return False
    from bnaudit.reading.folders.model_folder import ModelFolder

    try:
        return ModelFolder(candidate.path).is_model
    except UnreadableError:
        return False


def read(candidate: Candidate) -> Description:
    """Reads every model of the folder as a part of its own. Raises UnreadableError when none can be read."""
    from bnaudit.reading.folders.folder_facts import FolderFacts
    from bnaudit.reading.folders.model_folder import ModelFolder
    from bnaudit.reading.folders.weight_files import WeightFiles

    folder, weights = ModelFolder(candidate.path), WeightFiles(candidate.caps)
    with weights.imports.told_in_errors():
        models = folder.read_models(weights)
    facts = FolderFacts(folder.path, folder.names, weights.caps)
    return Description(
        artifact=Artifact(
            path=str(candidate.path),
            format=NAME,
            size=weights.size,
            bytes_read=weights.bytes_read + facts.bytes_read,
            producer=facts.producer,
        ),
        parts=tuple(weights.parts),
        gaps=tuple(weights.gaps),
        imports=weights.imports.imports(),
        has_optimizer=facts.has_optimizer or weights.has_optimizer,
        steps=facts.steps,
        steps_name="global_step of trainer_state.json" if facts.steps is not None else "",
        remarks=_remarks(models, folder.other_models()),
    )


@contextmanager
def linear(candidate: Candidate, part: Part) -> Iterator[list[LinearLayer]]:
    """The convolutions and linear layers of one model of the folder. Raises UnreadableError."""
    from bnaudit.reading.folders.linear_files import folder_layers

    with folder_layers(candidate.path, part, candidate.caps) as layers:
        yield layers


def _remarks(models: list[str], others: list[str]) -> tuple[str, ...]:
    remarks = []
    if len(models) > 1:
        remarks.append(f"{len(models)} sets of weights are here and each is audited: {', '.join(models[:8])}")
    if others:
        more = f" and {len(others) - 4} more" if len(others) > 4 else ""
        remarks.append(f"not looked at, give them by name: {', '.join(others[:4])}{more}")
    return tuple(remarks)


FORMAT = Format(name=NAME, suffixes=(), claims=claims, read=read, linear=linear)
