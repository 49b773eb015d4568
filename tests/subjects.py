"""What every format is tried on: the committed samples and the models inside their folders, found by looking."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bnaudit import describe
from bnaudit.errors import BnauditError
from bnaudit.formats import Candidate
from bnaudit.reading.byte_source import ByteSource

SAMPLES = Path(__file__).parent.parent / "sample_models"
KINDS = ("healthy", "defects", "controls")


def subjects() -> Iterator[Path]:
    """Every committed sample, files and folders, and every file in such a folder that can be read by itself."""
    for kind in KINDS:
        for path in sorted((SAMPLES / kind).iterdir()):
            yield path
            if path.is_dir():
                yield from (inner for inner in sorted(path.iterdir()) if _can_be_read(inner))


def subject_id(path: Path) -> str:
    """Its path below `sample_models/`, for the names of test cases."""
    return path.relative_to(SAMPLES).as_posix()


@contextmanager
def candidate_of(path: Path) -> Iterator[Candidate]:
    """The path as formats get it."""
    if path.is_dir():
        yield Candidate(path, None)
        return
    with ByteSource.open(path) as source:
        yield Candidate(path, source)


def copied(path: Path, folder: Path, name: str | None = None) -> Path:
    """A copy of a sample in `folder` under another name; a file from a model folder keeps its neighbours."""
    target = folder / (name if name is not None else path.name)
    if path.is_dir():
        return Path(shutil.copytree(path, target))
    if path.parent.name not in KINDS:
        shutil.copytree(path.parent, folder, dirs_exist_ok=True)
    return Path(shutil.copy(path, target))


def _can_be_read(path: Path) -> bool:
    try:
        describe(path)
    except BnauditError:
        return False
    return True
