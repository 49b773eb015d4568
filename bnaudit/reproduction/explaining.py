"""From observed scores to a script that shows what explains them: triage, the telling observation, the files."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType

import numpy as np

from bnaudit.auditing import describe
from bnaudit.comparing.paths import located, named_part
from bnaudit.diagnosis import Conclusion, Diagnosis, Hypothesis, Observed, ScoreKind
from bnaudit.errors import UsageError
from bnaudit.feeds.in_order import open_in_order
from bnaudit.markdown_text import prose
from bnaudit.measuring import choose, opened
from bnaudit.observed import for_inputs, read_log
from bnaudit.progress import Progress
from bnaudit.records import Record, replace
from bnaudit.reproduction.checking import ran
from bnaudit.reproduction.explained_script import ExplainedScript, explained_script
from bnaudit.reproduction.explanation import Explanation, smallest
from bnaudit.reproduction.folder import check_free, prepared
from bnaudit.reproduction.model_source import ModelSource, model_source
from bnaudit.run_options import RunOptions
from bnaudit.score_triage import diagnose
from bnaudit.session import NotPossibleError, Session
from bnaudit.settings import Settings
from bnaudit.triage.companions import open_companions
from bnaudit.triage.input_faults import NORMALIZATIONS, input_faults
from bnaudit.triage.replaying import Materials

_SHOWN = (Conclusion.EXPLAINED, Conclusion.SEVERAL, Conclusion.UP_TO_PRECISION)


class Explained(Record, eq=False):
    """What came of it."""

    folder: Path | None
    """Where the case is; None: nothing that a script can show explains the scores."""
    summary: str
    diagnosis: Diagnosis

    @property
    def exit_code(self) -> int:
        """1: written down; 0: there is nothing to explain; 3: no exact explanation."""
        if self.folder is not None:
            return 1
        return 0 if self.diagnosis.conclusion is Conclusion.NOTHING_TO_EXPLAIN else 3


def reproduce_scores(
    path: str | Path | None,
    folder: str | Path,
    observed: str | Path,
    settings: Settings,
    *,
    kind: ScoreKind | None = None,
    companions: object = None,
    precision: str = "",
    progress: Progress | None = None,
) -> Explained:
    """The smallest case of what explains observed scores, in a new directory.

    Raises as `bnaudit.score_triage.diagnose`, UsageError for a directory that is not empty, NotPossibleError where no
    short script shows it.
    """
    folder, options = Path(folder), settings.run
    check_free(folder)
    path, options = _located(path, options, settings)
    if path is None and options.model is None:
        raise UsageError("there is no model to run", remedy="give a file, or --model file.py:callable")
    log = read_log(observed, kind)
    found = diagnose(
        log, path, options, companions=companions, precision=precision, settings=settings, progress=progress
    )
    hypothesis = _hypothesis(found)
    if hypothesis is None:
        return Explained(folder=None, summary=f"{found.conclusion.value}: {found.reason}", diagnosis=found)
    description = None if path is None else describe(path, settings)
    with ExitStack() as stack:
        session = stack.enter_context(opened(choose(path, description, options)))
        materials = _materials(session, for_inputs(log).observed, options, companions)
        other_source: ModelSource | None = None
        if hypothesis.part is not None:
            chosen = choose(path, description, replace(options, part=hypothesis.part))
            other = stack.enter_context(opened(chosen))
            materials = replace(materials, parts=MappingProxyType({hypothesis.part: other}))
            other_source = model_source(path, other, options)
        case = smallest(session, materials, found, hypothesis, precision, Path(str(options.inputs)).name)
        source = model_source(path, session, options)
        script = explained_script(case, source, other_source, session.part, folder, session.runner)
    _write(folder, case, script, session.runner)
    return Explained(folder=folder, summary=f"{found.conclusion.value}: {hypothesis.claim}", diagnosis=found)


def _located(path: str | Path | None, options: RunOptions, settings: Settings) -> tuple[Path | None, RunOptions]:
    """`file#part` as the file, and the options that load the part."""
    if path is None:
        return None, options
    place = located(path)
    if place.part is None:
        return place.path, options
    return place.path, replace(options, part=named_part(describe(place.path, settings), place.part).name)


def _hypothesis(found: Diagnosis) -> Hypothesis | None:
    """The first explanation that something went wrong."""
    if found.conclusion not in _SHOWN:
        return None
    every = [tried.hypothesis for tried in found.explanations]
    # Where eval as saved fits, too, the scores show nothing that went wrong.
    return None if any(each.name == "eval-as-saved" for each in every) else every[0]


def _materials(session: Session, observed: Observed, options: RunOptions, companions: object) -> Materials:
    given = open_in_order(session, options)
    beside = None if companions is None else open_companions(session, options, companions, given.pool)
    faults = {fault.name: fault for fault in input_faults(NORMALIZATIONS)}
    return Materials(
        session=session,
        pool=given.pool,
        observed=observed,
        companions=beside,
        faults=MappingProxyType(faults),
        batch_size=options.batch_size,
        seed=options.seed,
    )


def _write(folder: Path, case: Explanation, script: ExplainedScript, runner: str) -> None:
    """Raises NotPossibleError when the script, run as the user would, does not show it."""
    with prepared(folder) as made:
        np.savez(made / "inputs.npz", **script.inputs)  # type: ignore[arg-type]
        np.savez(made / "production.npz", **script.production)  # type: ignore[arg-type]
        (made / "repro.py").write_text(script.text, encoding="utf-8")
        result = ran(made / "repro.py")
        if result.code != 1 or "explained: " not in result.said:
            last = (result.said.strip().splitlines() or ["nothing"])[-1]
            what = f"the scores are explained ({case.hypothesis.claim}), and a script of its own does not show it"
            raise NotPossibleError(what, where=f"it said {last!r}", remedy="`bnaudit triage` shows it")
        (made / "README.md").write_text(_read_me(case, result.said, runner), encoding="utf-8")
        (made / "included.txt").write_text(_included(case, script), encoding="utf-8")


def _read_me(case: Explanation, said: str, runner: str) -> str:
    versions = f"Python {platform.python_version()}, {prose(runner)}, NumPy {np.__version__}"
    others = [f"- {prose(claim)}" for claim in case.rivals]
    lines = [
        "# Why production's scores differ: the smallest case",
        "",
        f"The cause: {prose(case.hypothesis.claim)}.",
        "",
        f"Triage: {prose(case.conclusion)}.",
        "",
        f"What to do: {prose(case.hypothesis.advice)}.",
        *(["", "These fit as well:", "", *others] if others else []),
        "",
        "    python repro.py",
        "",
        "computes the sample in eval as saved and as the cause has it, and exits with 1 while the observed scores are",
        "not those of eval. It reads your model where it is; bnaudit is not needed. When it was written it said:",
        "",
        "```",
        *said.strip().splitlines(),
        "```",
        "",
        f"Found with {versions} on {platform.system()}.",
        "",
        "`included.txt` lists what of your data is in this directory.",
    ]
    return "\n".join(lines) + "\n"


def _included(case: Explanation, script: ExplainedScript) -> str:
    lines = [
        f"repro.py holds the {len(case.observed)} observed scores of observation {case.observation}.",
        "",
        *_listed("inputs.npz", case.sample_labels),
        "",
        *_listed("production.npz, the batch as production ran it,", case.batch_labels),
        "",
        "arrays of production.npz:",
        *(f"  {name}: {array.dtype} {tuple(array.shape)}" for name, array in script.production.items()),
        "",
        "No code of yours is here, and no weights but arrays that are listed: repro.py reads them by their paths.",
    ]
    return "\n".join(lines) + "\n"


def _listed(what: str, labels: Sequence[str]) -> list[str]:
    return [f"{what} holds:", *(f"  {at}: {label}" for at, label in enumerate(labels))]
