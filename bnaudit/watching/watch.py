"""`bnaudit.watch`: a guard around a training loop."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from itertools import count
from types import TracebackType
from typing import Any, Literal

from torch import nn

from bnaudit.errors import UsageError
from bnaudit.layer_names import strip_wrappers
from bnaudit.printable import printable
from bnaudit.watching.forwards import Forwards
from bnaudit.watching.judging import InTraining, Verdicts
from bnaudit.watching.layers import WatchedLayer
from bnaudit.watching.statistics import Change, changes, taken
from bnaudit.watching.violations import Invariant, Violation

LOGGER = logging.getLogger("bnaudit")
Response = Callable[[Violation], object]
_EXTRA_HOOK = r"Using `torch\.compile\(module\)` when there are global hooks on modules"
"""PyTorch's warning at every call of a compiled module: the hooks here are made for the extra call."""
_UNSEEN = "no forward of %s was seen and none of its statistics moved: watch the model that the loop calls"
_NUMBERS = count()


def watch(
    model: nn.Module,
    *,
    on_violation: Literal["raise", "log"] | Response = "raise",
    sigmas: float = 10.0,
    intended: str | Iterable[str] | Mapping[str, str] = (),
    every: int = 1,
) -> Watch:
    """Guard the running statistics of a model while it trains: `with bnaudit.watch(model): …`

    After every forward of the model (not of its backward pass) four invariants are looked at: statistics
    (`running_mean`, `running_var`) are finite; a layer in eval mode keeps them; a frozen layer keeps them while the
    rest trains; none moves by many standard deviations at once. Sums over channels are read, one synchronization a
    forward, and never an activation. The model gets no hooks and no attributes: copies and checkpoints made inside are
    those of an unwatched model.

    A layer that has trained since the watch began may be frozen in turns, as in a GAN: it counts as frozen from its
    1,000th update in a row. Forwards inside of a compiled function, or of a module that was compiled in place, cannot
    be seen: what they changed is looked at after the optimizer's step, for frozen layers and finite values only.

    on_violation: `raise` a ViolatedInvariantError out of the forward, `log` an error to the logger "bnaudit", or call a
        function with the Violation. Each invariant is told once of each layer.
    sigmas: a running mean may move by so many running standard deviations in one forward, and σ may grow so many-fold,
        both as root mean squares over the channels of a layer. Fresh statistics (20 updates) may move as they like.
    intended: what is meant to be so, `frozen=encoder_k.*` (invariant=shell pattern of layer names), one or several.
    every: look at every n-th forward only.

    Raises UsageError for an option that cannot be, and TypeError when `model` is no module.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"watch() takes a torch.nn.Module, not a {type(model).__name__}")
    if not callable(on_violation) and on_violation not in ("raise", "log"):
        raise UsageError(f"on_violation={on_violation!r} is no response", remedy="give 'raise', 'log' or a function")
    if isinstance(sigmas, bool) or not isinstance(sigmas, (int, float)) or not sigmas > 0:
        raise UsageError(f"sigmas={sigmas!r} is no number above 0", remedy="give one, 10.0")
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise UsageError(f"every={every!r} is no whole number of at least 1", remedy="give another")
    return Watch(model, on_violation, float(sigmas), _pairs(intended), every)


def _pairs(intended: str | Iterable[str] | Mapping[str, str]) -> tuple[tuple[Invariant, str], ...]:
    entries = [f"{key}={pattern}" for key, pattern in intended.items()] if isinstance(intended, Mapping) else intended
    known = [invariant.value for invariant in Invariant]
    pairs = []
    for entry in [entries] if isinstance(entries, str) else entries:
        name, _, pattern = str(entry).partition("=")
        if name not in known:
            raise UsageError(f"no invariant is called {printable(name)!r}", remedy=f"there are {', '.join(known)}")
        pairs.append((Invariant(name), pattern or "*"))
    return tuple(pairs)


class Watch:
    """The context manager that `watch` returns. It can be entered again, one at a time; several may watch one model."""

    def __init__(
        self,
        model: nn.Module,
        on_violation: Literal["raise", "log"] | Response,
        sigmas: float,
        intended: tuple[tuple[Invariant, str], ...],
        every: int,
    ) -> None:
        self.model = model
        self.violations: list[Violation] = []
        """What was found since it was entered."""
        self._respond: Response = {"raise": _raise, "log": _log}.get(str(on_violation), on_violation)  # type: ignore[arg-type]
        self._sigmas, self._intended, self._every = sigmas, intended, every
        self._forwards: Forwards | None = None
        self._verdicts: Verdicts | None = None
        self._filter: Any = None
        self._left = 0

    @property
    def forwards(self) -> int:
        """Forwards of the whole model seen since it was entered; steps of the optimizer where they cannot be seen."""
        return self._forwards.seen if self._forwards is not None else self._left

    def __enter__(self) -> Watch:
        if self._forwards is not None:
            raise UsageError("this watch is active", remedy="make another, bnaudit.watch(model)")
        self.violations = []
        forwards = Forwards(self.model, self._judge, self._every)
        self._verdicts = Verdicts(self.model, self._sigmas, self._intends)
        if not forwards.layout.layers:
            LOGGER.warning("nothing to watch: %s has no layer with running statistics", type(self.model).__name__)
        self._forwards = forwards
        try:
            self.check()
            forwards.attach()
        except BaseException:
            self._leave()
            raise
        self._filter = _ignored_warning()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        forwards = self._forwards
        if forwards is None:
            return
        try:
            if error is None:
                forwards.finish()
                if forwards.layout.layers and not forwards.seen:
                    LOGGER.warning(_UNSEEN, type(self.model).__name__)
        finally:
            self._leave()

    def check(self) -> None:
        """Settle what waits, and look for NaN and infinity now, without a forward.

        Raises UsageError outside of the `with` block.
        """
        if self._forwards is None:
            raise UsageError("this watch is not active", remedy="call check() inside of its with block")
        self._forwards.settle()
        now = taken(self._forwards.layout.layers)
        self._judge(changes(now, now), None)

    def _judge(self, found: list[tuple[WatchedLayer, Change]], in_training: InTraining | None) -> None:
        assert self._verdicts is not None
        violations = self._verdicts.judged(found, in_training, self.forwards)
        self.violations.extend(violations)
        for violation in violations:
            self._respond(violation)

    def _intends(self, invariant: Invariant, layer: str) -> bool:
        names = {layer, strip_wrappers(layer)}
        return any(
            invariant is meant and any(fnmatchcase(name, pattern) for name in names)
            for meant, pattern in self._intended
        )

    def _leave(self) -> None:
        if self._forwards is not None:
            self._left = self._forwards.seen
            self._forwards.detach()
        self._forwards = self._verdicts = None
        if self._filter in warnings.filters:
            warnings.filters.remove(self._filter)  # type: ignore[attr-defined]
        self._filter = None


def _raise(violation: Violation) -> None:
    raise violation.error()


def _log(violation: Violation) -> None:
    LOGGER.error("%s", violation.error())


def _ignored_warning() -> Any:
    """Put in front of the warning filters, unlike any other watch's, so that it can be taken out again."""
    warnings.filterwarnings("ignore", message=f"{_EXTRA_HOOK}(?#{next(_NUMBERS)})")
    return warnings.filters[0]
