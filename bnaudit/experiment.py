"""The plan: the runs of one measured audit, each made once and counted, shared by all probes.

Every forward begins from the state that the session began with, but `again`, which follows `base` in a row. A healthy
model costs at most eight; what it takes to locate and confirm a finding is counted apart, and at most eight more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

from bnaudit.description import Carrier, NormKind
from bnaudit.feeds import Feed
from bnaudit.forwards import MOST_FORWARDS as MOST_FORWARDS
from bnaudit.forwards import BudgetSpent as BudgetSpent
from bnaudit.forwards import Forwards
from bnaudit.gap_limits import StatisticsLimits
from bnaudit.initial_state import LEARNS_STATISTICS
from bnaudit.measurement import Shift
from bnaudit.places import holder_of
from bnaudit.progress import Progress, Silent
from bnaudit.run_options import RunOptions
from bnaudit.session import Batch, Mode, RunError, Session, Trace, Watch
from bnaudit.shifts import Axes, Band, Pairs, band, row_axes, shift, whole_shift

_T = TypeVar("_T")


class Experiment:
    """The runs of one audit. Properties are made when first asked for, and kept.

    Every one raises RunError when the model raises, and BudgetSpent when no further forward may begin.
    """

    def __init__(
        self,
        session: Session,
        feed: Feed,
        *,
        options: RunOptions | None = None,
        progress: Progress | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.session = session
        self.feed = feed
        self.remarks: list[str] = []
        self.options = options or RunOptions()
        self._kept: dict[object, object] = {}
        budget = self.options.budget
        self._made = Forwards(
            session, budget=budget, progress=progress or Silent(), clock=clock, expected=self._expected
        )
        self._planned, self.extra, self.begin_extra = self._made.planned, self._made.extra, self._made.begin_extra

    def once(self, make: Callable[[Experiment], _T]) -> _T:
        """The result of a function of the experiment, computed when first asked for: what several probes need."""
        if make not in self._kept:
            self._kept[make] = make(self)
        return self._kept[make]  # type: ignore[return-value]

    def remark(self, sentence: str) -> None:
        """Something a reader of the numbers should know, once."""
        if sentence not in self.remarks:
            self.remarks.append(sentence)

    # The plan

    @cached_property
    def base(self) -> Trace:
        """Anchors at both ends and in the middle, with companions."""
        return self._runs[0]

    @cached_property
    def again(self) -> Trace:
        """The same directly afterwards, from the state that `base` left."""
        return self._runs[1]

    @cached_property
    def _runs(self) -> tuple[Trace, Trace]:
        first = self._planned("the batch", self.feed.base)
        return first, self._planned("the batch again", self.feed.base, watch=self.outputs_only, restored=False)

    @cached_property
    def swapped(self) -> Trace:
        """Companions exchanged; `base` where there are none."""
        if not self.has_companions:
            return self.base
        watch = Watch.CALLS if self.base.changes else self.outputs_only
        return self._planned("companions swapped", self.feed.swapped, watch=watch)

    @cached_property
    def scaled(self) -> Trace | None:
        """Companions × 100; None where there are none, or when the model refuses them."""
        if not self.has_companions:
            return None
        return self._tolerated(lambda: self._planned("companions × 100", self.feed.scaled, watch=self.outputs_only))

    @cached_property
    def alone(self) -> Trace | None:
        """One anchor; None when the model raised, see `alone_raised`."""
        if not self.has_companions:
            return self.base
        try:
            return self._planned("an anchor alone", self.feed.alone, watch=self.outputs_only)
        except RunError as error:
            self.alone_raised = str(error)
            return None

    alone_raised: str = ""

    @cached_property
    def training(self) -> Trace | None:
        """The norms in training mode; None where the model has no such mode or raised, see `training_why`."""
        return self._trained("norms in training mode", self.feed.base)

    @cached_property
    def training_swapped(self) -> Trace | None:
        """The same with companions swapped; None also where there are none."""
        if not self.has_companions:
            return None
        # Fewer samples decide nothing about statistics; the outputs still tell the companions' part.
        enough = self.feed.samples >= StatisticsLimits().mean_samples
        watch = Watch.MOMENTS if enough else self.outputs_only
        return self._trained("norms in training mode, companions swapped", self.feed.swapped, watch)

    training_why: str = ""

    @cached_property
    def as_saved(self) -> Trace | None:
        """In the modes that it was saved in, where these are not what eval() gives."""
        if Mode.AS_SAVED not in self.session.modes:
            return None
        return self._planned("as saved", self.feed.base, Mode.AS_SAVED)

    @cached_property
    def production(self) -> Trace | None:
        """With the framework's own optimizations, where the runner has such a form."""
        if not self.session.has_production_form:
            return None
        return self._planned("as production runs it", self.feed.base, watch=Watch.NOTHING, seed=self.seed)

    @property
    def outputs_only(self) -> Watch:
        """How closely a forward is looked at whose outputs alone are compared with those of `base`.

        Instruments cost a sixth of a forward of a ResNet-50. A module runs the same kernels without them; a script, a
        graph or a compiled module may not.
        """
        bare = self.session.carrier is Carrier.MODULE and not self.session.has_production_form
        return Watch.NOTHING if bare else Watch.CALLS

    def planned(self, name: str, batch: Batch) -> Trace:
        """Another forward of the plan, which only some feeds and models have."""
        return self._planned(name, batch, seed=self.seed)

    def _tolerated(self, make: Callable[[], Trace]) -> Trace | None:
        try:
            return make()
        except RunError as error:
            self.remark(f"companions × 100 were left out: {error}")
            return None

    # Randomness and history

    @cached_property
    def in_a_row(self) -> Shift:
        """`again` against `base`, in everything that the model returns."""
        return whole_shift(self.base, self.again)

    @cached_property
    def restored(self) -> Shift | None:
        """`base` repeated from the restored state; None when `again` was exact.

        A model that draws may repeat itself by chance, a dropout that drops nothing twice. Where nothing was left
        behind that could tell `again` from `base`, the draws alone did; else it is repeated once more.
        """
        if self.in_a_row.exact:
            return None
        found = whole_shift(self.base, self.extra("the batch from the restored state", self.feed.base))
        if not found.exact or not self._draws:
            return found
        if not self.base.changes:
            return self.in_a_row
        return whole_shift(self.base, self.extra("the batch from the restored state", self.feed.base))

    @cached_property
    def after_others(self) -> Shift | None:
        """`base` made after `swapped` without restoring the state, against `base`: an answer that was kept for the
        next batch is the same twice in a row, and a model that draws is not. Seeds are reset before each where it is.

        None where nothing that depends on the data was seen to stay behind in a model that draws nothing, where a draw
        did not matter this time, and where seeds do not make the model repeat itself.
        """
        tried = self.random if self._draws else self.in_a_row.exact and self._keeps_of_the_data
        if not tried or not self.has_companions:
            return None
        if self.extras_left < 2 + 2 * self.random:
            self.remark("a batch after another one was not tried: all further forwards were used")
            return None
        base, watch = self.deciding_base, self.outputs_only
        self.extra("other companions first", self.feed.swapped, watch=watch, seed=self.seed)
        later = self.extra("the batch after them", self.feed.base, watch=watch, restored=False, seed=self.seed)
        found = whole_shift(base, later)
        return None if self.random and not found.exact and not self._repeats_itself(base) else found

    def _repeats_itself(self, base: Trace) -> bool:
        """Whether a model that draws gives the same again from the restored state and seeds."""
        again = self.extra("the batch, seeded again", self.feed.base, watch=self.outputs_only, seed=self.seed)
        return whole_shift(base, again).exact

    @property
    def _keeps_of_the_data(self) -> bool:
        """Whether other companions leave something else behind; a norm that uses the batch does not read the
        statistics that it moves."""
        unread = {call.layer for call in self.base.norm_calls if call.uses_batch}
        kept = [change for change in self.base.changes if holder_of(change) not in unread]
        left = {change.name: change.digest for change in self.swapped.changes} if kept else {}
        return any(left.get(change.name) != change.digest for change in kept)

    @property
    def _draws(self) -> bool:
        """Whether an operator drew random numbers that may matter."""
        return any(call.probability != 0 for call in self.base.random_calls)

    @cached_property
    def random(self) -> bool:
        """From the same restored state the same batch gives other outputs, beyond noise or by a random operator."""
        if self.restored is None or self.restored.exact:
            return False
        return band(self.restored) is Band.LEAK or bool(self.base.random_calls)

    @property
    def seed(self) -> int | None:
        """What random generators are set to before each deciding forward; None: the model draws nothing."""
        return self.options.seed if self.random else None

    @cached_property
    def deciding_base(self) -> Trace:
        """`base`; with seeds reset before it when the model draws random numbers, as before the next two."""
        return self.extra("the batch, seeded", self.feed.base, seed=self.seed) if self.random else self.base

    @cached_property
    def deciding_swapped(self) -> Trace:
        """`swapped`, likewise."""
        if not self.random or not self.has_companions:
            return self.swapped
        return self.extra("companions swapped, seeded", self.feed.swapped, seed=self.seed)

    @cached_property
    def deciding_scaled(self) -> Trace | None:
        """`scaled`, likewise."""
        if not self.random or not self.has_companions:
            return self.scaled
        return self._tolerated(lambda: self.extra("companions × 100, seeded", self.feed.scaled, seed=self.seed))

    # Rows

    @property
    def has_companions(self) -> bool:
        """False for a batch of one, which leaves nothing to exchange."""
        return self.feed.base.size > 1

    @cached_property
    def axes(self) -> Axes:
        """The batch axis of every output, confirmed by the anchor alone where that ran."""
        return row_axes(self.base, self.feed.base, self.alone, self.feed.alone.size)

    @property
    def anchor_pairs(self) -> Pairs:
        """The anchors' rows, which are the same in all batches of the base's size."""
        return tuple((row, row) for row in self.feed.base.anchors)

    @property
    def distinct_anchors(self) -> tuple[int, ...]:
        """The anchors' rows without the copy."""
        copy = self.feed.copy
        return tuple(row for row in self.feed.base.anchors if copy is None or row != max(copy))

    def anchors_shift(self, first: Trace, second: Trace) -> Shift:
        """How far the anchors of two runs are apart."""
        return shift(first, second, self.axes, self.anchor_pairs)

    @property
    def forwards(self) -> int:
        """Of the plan, so far."""
        return self._made.planned_count

    @property
    def extra_forwards(self) -> int:
        """To locate and confirm, so far."""
        return self._made.extra_count

    @property
    def extras_left(self) -> int:
        """Further forwards that may still be made to locate and confirm."""
        return MOST_FORWARDS - self.extra_forwards

    def _expected(self) -> int:
        more = (Mode.AS_SAVED in self.session.modes) + self.session.has_production_form
        if Mode.TRAINING_NORMS in self.session.modes and self._has_batch_norm_layers:
            more += 1 + self.has_companions
        return more + (5 if self.has_companions else 2)

    @cached_property
    def has_batch_norms(self) -> bool:
        """Whether the model has a batch norm with two sets of statistics, or was seen to run one."""
        seen = any(call.kind in LEARNS_STATISTICS for call in self.base.norm_calls)
        return self._has_batch_norm_layers or seen

    @cached_property
    def has_norms_of_two_modes(self) -> bool:
        """Whether a norm of the model uses other statistics in training mode than in eval mode."""
        tracking = (layer for layer in self.session.part.layers if layer.kind is NormKind.INSTANCE)
        return self.has_batch_norms or any(layer.tracks_statistics is True for layer in tracking)

    @property
    def trains(self) -> bool:
        """Whether the plan has runs with the norms in training mode."""
        return self.has_norms_of_two_modes and Mode.TRAINING_NORMS in self.session.modes

    @cached_property
    def _has_batch_norm_layers(self) -> bool:
        return any(
            layer.kind in LEARNS_STATISTICS or (layer.kind is NormKind.UNKNOWN and layer.tracks_statistics is True)
            for layer in self.session.part.layers
        )

    def _trained(self, name: str, batch: Batch, watch: Watch = Watch.MOMENTS) -> Trace | None:
        """A forward with the norms in training mode; seeds are reset so that nothing but the norms differs."""
        if not self.has_norms_of_two_modes:
            self.training_why = "no norm here depends on the mode"
        elif Mode.TRAINING_NORMS not in self.session.modes:
            self.training_why = "its norms cannot be put into training mode"
        else:
            try:
                return self._planned(name, batch, Mode.TRAINING_NORMS, watch, seed=self.seed)
            except RunError as error:
                self.training_why = str(error)
        return None
