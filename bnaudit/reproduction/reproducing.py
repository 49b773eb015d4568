"""The use case: find a defect by running, make it small, write a script that shows it, and run that script."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bnaudit.auditing import describe
from bnaudit.comparing.paths import located, named_part
from bnaudit.errors import BnauditError, UsageError
from bnaudit.measuring import choose, opened
from bnaudit.records import Record, replace
from bnaudit.reproduction.checking import ran
from bnaudit.reproduction.demonstration import Demonstration
from bnaudit.reproduction.folder import check_free, prepared
from bnaudit.reproduction.model_source import ModelSource, model_source
from bnaudit.reproduction.read_me import included, read_me
from bnaudit.reproduction.samples import Samples, open_samples
from bnaudit.reproduction.script import script
from bnaudit.reproduction.searches import Outcome, chosen, first_defect
from bnaudit.reproduction.trials import Trials
from bnaudit.reproduction.words import summary
from bnaudit.session import NormCall, NotPossibleError, Watch
from bnaudit.settings import Settings


class Reproduction(Record, eq=False):
    """What came of it."""

    folder: Path | None
    """Where the case is; None: no defect showed."""
    summary: str
    """What it shows, or what was looked at."""
    found: Demonstration | None = None
    forwards: int = 0

    @property
    def exit_code(self) -> int:
        """1: a defect was found and written down; 0: none showed; 3: nothing could be looked at."""
        return 1 if self.folder is not None else 0 if self.forwards else 3


def reproduce(
    path: str | Path | None,
    folder: str | Path,
    settings: Settings | None = None,
    *,
    rule: str | None = None,
    include_model: bool = False,
) -> Reproduction:
    """The smallest case of the first defect that a few forwards show, or of this rule, in a new directory.

    Raises UsageError for a directory that is not empty, a rule that no forwards show and a live model, and what
    reading, opening and running the model raises. NotPossibleError when the script does not show it, too.
    """
    settings, folder = settings or Settings(), Path(folder)
    searches = chosen(rule)
    check_free(folder)
    if path is None and settings.run.model is None:
        raise UsageError("there is no model to run", remedy="give a file, or --model file.py:callable")
    place = located(path) if path is not None else None
    description = describe(place.path, settings) if place is not None else None
    options = settings.run
    if place is not None and description is not None and place.part is not None:
        options = replace(options, part=named_part(description, place.part).name)
    with opened(choose(place.path if place is not None else None, description, options)) as session:
        samples = open_samples(session, options)
        trials = Trials(session, options.budget)
        outcome = first_defect(trials, samples, searches, options.seed)
        if outcome.found is None:
            said = _nothing(samples, outcome)
            return Reproduction(folder=None, summary=said, forwards=trials.forwards if outcome.passed else 0)
        found = outcome.found
        source = model_source(place.path if place is not None else None, session, options)
        calls = _calls(trials, found)
        runner = session.runner
    _write(folder, found, source, samples, runner, calls, include_model=include_model)
    return Reproduction(folder=folder, summary=summary(found), found=found, forwards=trials.forwards)


def _nothing(samples: Samples, outcome: Outcome) -> str:
    """What was looked at, and what was not."""
    passed = f"No defect showed ({samples.source}). Looked at: {'; '.join(outcome.passed)}."
    said = passed if outcome.passed else f"Nothing was looked at ({samples.source})."
    return said + (f" Not looked at: {'; '.join(outcome.unseen)}." if outcome.unseen else "")


def _calls(trials: Trials, found: Demonstration) -> Sequence[NormCall]:
    """Which statistics every norm uses in the mode of the case."""
    try:
        return trials.run(found.pool, found.batches[-1], found.mode, Watch.CALLS).norm_calls
    except BnauditError:  # it is shown in the case that the model raises
        return ()


def _write(
    folder: Path,
    found: Demonstration,
    source: ModelSource,
    samples: Samples,
    runner: str,
    calls: Sequence[NormCall],
    *,
    include_model: bool,
) -> None:
    """Raises NotPossibleError when the script, run as the user would, does not show the defect."""
    with prepared(folder) as made:
        copies: list[Path] = []
        if include_model and source.file is not None:
            copies.append(Path(shutil.copyfile(source.file, made / source.file.name)))
            source = replace(source, file=folder.absolute() / source.file.name)
        written = script(found, source, folder, runner)
        np.savez(made / "inputs.npz", **written.call.arrays)  # type: ignore[arg-type]
        (made / "repro.py").write_text(written.text, encoding="utf-8")
        result = ran(made / "repro.py")
        if result.code != 1:
            last = (result.said.strip().splitlines() or ["nothing"])[-1]
            what = (
                f"the defect was found ({summary(found)}), and a script of its own does not show it: it said {last!r}"
            )
            raise NotPossibleError(what, remedy="`bnaudit inspect` shows it")
        made_up = samples.synthetic
        (made / "README.md").write_text(
            read_me(found, source, runner, calls, result.said, bool(copies)), encoding="utf-8"
        )
        (made / "included.txt").write_text(
            included(found, written.call, samples.source, copies, made=made_up), encoding="utf-8"
        )
