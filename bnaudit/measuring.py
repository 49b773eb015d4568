"""The measured half of an audit: open what can be run, feed it, let the probes measure."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bnaudit.description import Carrier, Description
from bnaudit.errors import BnauditError, UnreadableError, not_installed, where_raised
from bnaudit.progress import Progress, Silent
from bnaudit.records import replace
from bnaudit.results import Failed
from bnaudit.run_options import RunOptions

if TYPE_CHECKING:
    from bnaudit.experiment import Experiment
    from bnaudit.feeds import Feed
    from bnaudit.measurement import Measured, Measurement, Unmeasured
    from bnaudit.runners import Runner, Subject
    from bnaudit.session import Session


_ONE_AT_A_TIME = threading.RLock()
"""A run seeds generators, sets switches and warning filters of the whole process, and may write into the model."""


class Run(NamedTuple):
    """What came of running an artifact."""

    description: Description | None
    """As the file says, completed by the model that it was loaded into; None: there is no file and no model opened."""
    measured: Measured | None = None
    why_not: str = ""
    """Why nothing was measured."""
    needs: str = ""
    """What to give or allow so that it is."""
    tried: bool = False
    """Nothing was measured although it was begun."""
    failed: bool = False
    """What the user asked for could not be done."""
    broken: tuple[Failed, ...] = ()
    """Probes that broke: internal failures."""
    interrupted: bool = False
    """The user stopped it; what was found until then is here."""

    def lacks(self, needs: Collection[str]) -> str:
        """What a rule with these needs would have to be given; "" when it has all."""
        if "baseline" in needs:
            return "a baseline: bnaudit compare baseline.pt model.pt"
        if not needs:
            return ""
        if self.measured is None:
            return self.needs or ("a run that works" if self.tried else "a run of the model")
        missing = [need for need in needs if need not in self.measured.probes]
        why = {entry.probe: entry.needs or entry.why for entry in self.measured.unmeasured}
        return why.get(missing[0], f"the probe {missing[0]}, which broke") if missing else ""


def run(
    path: Path | None, description: Description | None, options: RunOptions, wanted: Collection[str], progress: Progress
) -> Run:
    """Run the artifact, or the user's own model when there is no file, as far as the options allow.

    `wanted` are the probes that the selected rules need; without any nothing is run unless a model is given.
    Raises UsageError for options that name what does not exist.
    """
    if options.static:
        return Run(description, why_not="--static was given", needs="a run, without --static")
    if options.model is None and not wanted:
        return Run(description, why_not="no selected rule needs a run", needs="the whole set of rules")
    chosen = choose(path, description, options)
    if chosen.runner is None:
        return Run(description, why_not=chosen.why_not, needs=chosen.needs)
    asked = options.model is not None or options.inputs is not None or options.run or options.trust_pickle
    return _run(chosen.runner, chosen.subject, asked, progress)


class Chosen(NamedTuple):
    """What can run an artifact, or why nothing can."""

    subject: Subject
    runner: Runner | None = None
    why_not: str = ""
    needs: str = ""
    """What to give or allow so that it can."""


def choose(path: Path | None, description: Description | None, options: RunOptions) -> Chosen:
    """The runner for the artifact, or for the user's own model when there is no file, as far as the options allow."""
    from bnaudit.runners import Subject, runners

    subject = Subject(path, description, options)
    if options.static:
        return Chosen(subject, why_not="--static was given", needs="a run, without --static")
    if description is not None and options.model is None and _is_state_dict(description):
        return Chosen(subject, why_not="a state dict holds no code", needs="the model: --model file.py:factory")
    for runner in runners():
        permission = runner.permits(subject)
        if permission is None:
            continue
        if permission:
            return Chosen(subject, why_not=f"it needs {permission}", needs=permission)
        return Chosen(subject, runner)
    if options.model is not None and description is not None and _is_graph(description):
        why = "a graph is run as it is, and no model of --model takes its weights"
        return Chosen(subject, why_not=why, needs="a run without --model")
    return Chosen(subject, why_not="nothing here can run it", needs="another format of the model")


@contextmanager
def opened(chosen: Chosen) -> Iterator[Session]:
    """A session of what was chosen; leaving it leaves the user's model as it was. One thread at a time.

    Raises NotPossibleError where there is no runner, and what the runner raises when the model cannot be opened.
    """
    from bnaudit.session import NotPossibleError

    if chosen.runner is None:
        raise NotPossibleError(f"it was not run: {chosen.why_not}", remedy=f"give {chosen.needs}")
    with _ONE_AT_A_TIME, chosen.runner.open(chosen.subject) as session:
        yield session


def _is_graph(description: Description) -> bool:
    return all(part.carrier is Carrier.GRAPH for part in description.parts)


def _is_state_dict(description: Description) -> bool:
    return all(part.carrier is Carrier.STATE_DICT for part in description.parts)


def _run(runner: Runner, subject: Subject, asked: bool, progress: Progress) -> Run:
    from bnaudit.errors import UsageError
    from bnaudit.experiment import BudgetSpent
    from bnaudit.feeds.opening import open_feed
    from bnaudit.session import NotPossibleError

    description = subject.description
    begin = time.monotonic()
    try:
        with opened(Chosen(subject, runner)) as session:
            description = completed(description, session, subject)
            session.entered = None if isinstance(progress, Silent) else progress.layer
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the user's loader, and of frameworks that read files
                feed = open_feed(session, subject.options)
            return _experiment(description, session, feed, subject.options, progress, begin)
    except UsageError:
        raise
    except (BnauditError, KeyboardInterrupt) as stop:
        if description is None:
            raise
        if isinstance(stop, KeyboardInterrupt):
            return Run(description, why_not="interrupted before anything was measured", tried=True, interrupted=True)
        failed = asked and not isinstance(stop, (NotPossibleError, BudgetSpent))
        return Run(description, why_not=str(stop), tried=True, failed=failed)
    except Exception as error:
        known = _known(error)
        if description is None:
            raise (known or error) from error
        if known is not None:
            return Run(description, why_not=str(known), tried=True, failed=asked)
        broken = Failed(rule="", name="running the model", error=where_raised(error))
        return Run(description, why_not="an internal failure", tried=True, broken=(broken,))


def _known(error: Exception) -> BnauditError | None:
    """The sentence for what is no failure of ours: memory that is short, a framework that is missing."""
    if isinstance(error, MemoryError):
        what, remedy = f"memory is short: {error}", "give a smaller --batch-size, or smaller sizes"
        return UnreadableError(what, remedy=remedy)
    return not_installed(error) if isinstance(error, ModuleNotFoundError) else None


def completed(description: Description | None, session: Session, subject: Subject) -> Description:
    """The description with the part that the live model shows, where the file alone does not say as much."""
    if description is None:
        return live_description(session, subject.options.model)
    if session.loaded is None:
        return description
    parts = tuple(session.part if part.name == session.part.name else part for part in description.parts)
    return replace(description, parts=parts)


def live_description(session: Session, model: object) -> Description:
    """A Description of a model that no file holds."""
    from bnaudit.description import Artifact

    name = model if isinstance(model, str) else type(model).__qualname__
    held = sum(t.values.nbytes for layer in session.part.layers for t in layer.tensors if t.values is not None)
    artifact = Artifact(path=name, format=f"live model in {session.runner}", size=held, bytes_read=held)
    return Description(artifact=artifact, parts=(session.part,))


def _experiment(
    description: Description, session: Session, feed: Feed, options: RunOptions, progress: Progress, begin: float
) -> Run:
    import numpy as np

    from bnaudit.experiment import Experiment
    from bnaudit.measurement import Measured

    experiment = Experiment(session, feed, options=options, progress=progress)
    shown = _Shown()
    if session.loaded is not None:
        shown.measurements.append(session.loaded)
    with np.errstate(all="ignore"):  # infinities and NaN of a broken model are measured, not warned of
        _must_take(experiment, options)
        shown.collect(experiment)
    measured = Measured(
        runner=session.runner,
        part=session.part.name,
        inputs=feed.source,
        synthetic=feed.synthetic,
        batch_size=feed.base.size,
        anchors=len(feed.base.anchors),
        samples=feed.samples,
        forwards=experiment.forwards,
        extra_forwards=experiment.extra_forwards,
        seconds=time.monotonic() - begin,
        measurements=tuple(shown.measurements),
        unmeasured=tuple(shown.unmeasured),
        probes=tuple(shown.finished),
        remarks=(*feed.remarks, *session.remarks, *experiment.remarks),
        interrupted=shown.interrupted,
    )
    return Run(description, measured, broken=tuple(shown.broken), interrupted=shown.interrupted)


def _must_take(experiment: Experiment, options: RunOptions) -> None:
    """Run the first batch. What raises here is no finding: the model does not take these inputs."""
    from bnaudit.experiment import BudgetSpent
    from bnaudit.feeds.fitting import misfit
    from bnaudit.session import NotPossibleError, RunError

    try:
        _ = experiment.base
    except BudgetSpent:
        return  # every probe will say so
    except RunError as error:
        if options.inputs is None:
            raise NotPossibleError(f"the model raised on synthetic inputs: {error}") from error
        raise misfit(experiment.session, experiment.feed.base, error) from error


class _Shown:
    """What the probes have shown so far; what one yielded before it was stopped is kept."""

    def __init__(self) -> None:
        self.measurements: list[Measurement] = []
        self.unmeasured: list[Unmeasured] = []
        self.broken: list[Failed] = []
        self.finished: list[str] = []
        self.interrupted = False

    def collect(self, experiment: Experiment) -> None:
        """Let every probe measure, until the user interrupts."""
        from bnaudit.experiment import BudgetSpent
        from bnaudit.measurement import Unmeasured
        from bnaudit.probes import probes

        for probe in probes():
            if self.interrupted:
                self.unmeasured.append(Unmeasured(probe=probe.name, why="interrupted", inconclusive=True))
                continue
            try:
                for measurement in probe.measure(experiment):
                    self.measurements.append(measurement)
                self.finished.append(probe.name)
            except BnauditError as error:
                spent = isinstance(error, BudgetSpent)
                needs = "more time: --budget" if spent else ""
                why = error.what if spent else str(error)
                self.unmeasured.append(Unmeasured(probe=probe.name, why=why, needs=needs, inconclusive=spent))
            except KeyboardInterrupt:
                self.interrupted = True
                self.unmeasured.append(Unmeasured(probe=probe.name, why="interrupted", inconclusive=True))
            except Exception as error:
                self.broken.append(Failed(rule="", name=f"probe {probe.name}", error=where_raised(error)))
