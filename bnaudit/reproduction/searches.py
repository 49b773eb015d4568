"""Which defects are looked for, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from bnaudit.errors import UsageError
from bnaudit.feeds.fitting import misfit
from bnaudit.nearest_name import nearest
from bnaudit.reproduction import copies, neighbours, repeats, sizes, stale_statistics
from bnaudit.reproduction.demonstration import Demonstration
from bnaudit.reproduction.samples import Samples
from bnaudit.reproduction.trials import Trials
from bnaudit.session import Mode, NotPossibleError, RunError

Find = Callable[[Trials, Samples, Mode], "Demonstration | None"]


class Search(NamedTuple):
    """One kind of defect."""

    rules: tuple[str, ...]
    what: str
    """What a model without it does, for a person."""
    mode: Mode
    find: Find
    cannot: Callable[[Trials, Samples], str] = lambda trials, samples: ""
    """What it would take to look at it; "": it can be."""


SEARCHES = (
    Search(("BN301", "BN401"), "companions do not matter", Mode.INFERENCE, neighbours.find),
    Search(("BN302", "BN401"), "nothing is drawn", Mode.INFERENCE, repeats.find_random),
    Search(("BN306",), "a second time gives the same", Mode.INFERENCE, repeats.find_history),
    Search(("BN402",), "a forward changes nothing", Mode.INFERENCE, repeats.find_state),
    Search(("BN303",), "a sample alone is as among others", Mode.INFERENCE, sizes.find),
    Search(("BN305",), "copies of a sample are alike", Mode.INFERENCE, copies.find),
    Search(("BN201",), "as it was saved, companions do not matter", Mode.AS_SAVED, neighbours.find),
    Search(("BN404", "BN403"), "stored statistics fit", Mode.INFERENCE, stale_statistics.find, stale_statistics.cannot),
)


class Outcome(NamedTuple):
    """What the searches gave."""

    found: Demonstration | None
    passed: tuple[str, ...]
    """What was looked at and is as it should be."""
    unseen: tuple[str, ...] = ()
    """What was not looked at, and what it would take."""


def chosen(rule: str | None) -> tuple[Search, ...]:
    """The searches for a rule. Raises UsageError for one that no run of a few forwards shows."""
    if rule is None:
        return SEARCHES
    wanted = rule.strip().upper()
    fitting = tuple(search for search in SEARCHES if wanted in search.rules)
    if not fitting:
        known = sorted({name for search in SEARCHES for name in search.rules})
        what = f"{rule} is no defect that a script of a few forwards shows"
        remedy = f"give one of {', '.join(known)}"
        raise UsageError(what, where="--rule", remedy=nearest(wanted, known, remedy, cutoff=0.9))
    return fitting


def first_defect(trials: Trials, samples: Samples, searches: Sequence[Search], seed: int) -> Outcome:
    """The first defect that shows. Raises UnreadableError when the model does not take the inputs at all."""
    _must_take(trials, samples)
    passed: list[str] = []
    unseen: list[str] = []
    draws: dict[Mode, bool] = {}
    for search in searches:
        if search.mode not in trials.session.modes:
            continue
        needs = search.cannot(trials, samples)
        if needs:
            unseen.append(f"whether {search.what}, which takes {needs}")
            continue
        trials.seed = None
        if search.mode not in draws:
            draws[search.mode] = repeats.draws(trials, samples, search.mode)
        trials.seed = seed if draws[search.mode] and search.find is not repeats.find_random else None
        found = search.find(trials, samples, search.mode)
        if found is not None:
            return Outcome(found, tuple(passed))
        passed.append(search.what)
    return Outcome(None, tuple(passed), tuple(unseen))


def _must_take(trials: Trials, samples: Samples) -> None:
    size = trials.session.fixed_batch or min(2, samples.pool.size)
    rows = tuple(row % samples.pool.size for row in range(size))
    try:
        trials.run(samples.pool, rows)
    except RunError as error:
        if samples.synthetic:
            raise NotPossibleError(f"the model raised on synthetic inputs: {error}") from error
        raise misfit(trials.session, samples.pool.take(rows).batch(), error) from error
