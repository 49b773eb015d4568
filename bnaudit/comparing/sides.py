"""One of the two that are compared: a file, a part of one, or a live model, described."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bnaudit.auditing import describe, is_model
from bnaudit.comparing.parts import parts_of
from bnaudit.comparing.paths import located, named_part
from bnaudit.description import Description, Part
from bnaudit.errors import NotAModelError, UnreadableError, UsageError
from bnaudit.measuring import Chosen, choose, live_description, opened
from bnaudit.records import replace
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings


class Side(NamedTuple):
    """One of the two."""

    description: Description
    path: Path | None
    """None: a live model."""
    part: str | None
    """The part that was named."""
    options: RunOptions
    """How it is run."""

    @property
    def name(self) -> str:
        """What a sentence calls it: the file's name."""
        return self.path.name if self.path is not None else self.description.artifact.path

    @property
    def parts(self) -> Sequence[Part]:
        """From which one is chosen: the named one alone."""
        if self.part is not None:
            return (named_part(self.description, self.part),)
        return parts_of(self.description)

    def is_same_file(self, other: Side) -> bool:
        """Whether both are one file, under whatever name."""
        if self.path is None or other.path is None:
            return False
        try:
            return self.path.samefile(other.path)
        except OSError:
            return False

    def chosen(self, part: Part) -> Chosen:
        """What can run this part, or why nothing can."""
        if self.path is None:
            return choose(None, None, self.options)
        graph = part.carrier.has_code
        loaded = {"model": None, "model_args": RunOptions().model_args} if graph else {"part": part.name}
        options = replace(self.options, **loaded)
        return choose(self.path, replace(self.description, parts=(part,)), options)


def opened_side(given: object, settings: Settings) -> Side:
    """The description of a path or of a live model.

    Raises UsageError for what is neither and for a part that there is not, UnreadableError (or NotAuditedError) when
    it is no model or cannot be read.
    """
    if isinstance(given, (str, os.PathLike)) and not _is_code(given, settings):
        found = located(given)
        if not os.path.lexists(found.path):
            raise UnreadableError(f"{found.path} does not exist", remedy="check the path")
        side = Side(_described(found.path, settings), found.path, found.part, settings.run)
        if found.part is not None:
            named_part(side.description, found.part)
        return side
    if not isinstance(given, str) and not is_model(given):
        what = f"an object of class {type(given).__name__} is neither a model nor the path of one"
        raise UsageError(what, remedy="give a module, or the file that it was saved to")
    options = replace(settings.run, model=given)
    if options.static:
        raise UsageError("a live model cannot be compared with --static", remedy="give the file of its weights")
    with opened(choose(None, None, options)) as session:
        return Side(live_description(session, given), None, None, options)


def _described(path: Path, settings: Settings) -> Description:
    try:
        return describe(path, settings)
    except NotAModelError as error:
        if path.is_dir():
            raise UnreadableError(f"{path} is a folder that is no model", remedy="name one model in it") from error
        raise


def _is_code(given: object, settings: Settings) -> bool:
    """Whether it is the model of the options, `net.py:build`, which is no path."""
    return given is settings.run.model
