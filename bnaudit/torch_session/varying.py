"""A model with a Variation in place, as a session of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from bnaudit.description import Part
from bnaudit.records import replace
from bnaudit.session import Batch, Held, Mode, NotPossibleError, Pinned, Session, Trace, Watch
from bnaudit.torch_session.changes import Changes
from bnaudit.torch_session.failures import run_error
from bnaudit.torch_session.graph_changes import without_graph
from bnaudit.torch_session.rounding import Rounding
from bnaudit.torch_session.state import State
from bnaudit.torch_session.surroundings import without_collection
from bnaudit.torch_session.tensors import dtype_name
from bnaudit.variation import Variation

if TYPE_CHECKING:
    from bnaudit.torch_session.session import TorchSession


@contextmanager
def varied(session: TorchSession, variation: Variation) -> Iterator[VariedSession]:
    """The session's model with the variation in place. Raises NotPossibleError before anything is written.

    What is in the code of a program or a script is changed in a copy of it, everything else in place.
    """
    coded = session.coded(variation)
    owner = session.with_code(coded) if coded else session
    left = without_graph(variation, fixed=session.is_fixed) if coded else variation
    state = owner.begun(True)
    changes = Changes(owner.modules(state), session.part, left, fixed=session.is_fixed)
    changed = VariedSession(owner, state, changes, owner.rounding(variation.dtype))
    try:
        yield changed
    finally:
        changes.undo()
        owner.forget()
        if owner is not session:
            owner.close()


class VariedSession:
    """See `bnaudit.session.Session.varied`. Its part is the model's without the variation."""

    def __init__(self, session: TorchSession, state: State, changes: Changes, rounding: Rounding | None) -> None:
        """state: what the model is in now."""
        self.runner = session.runner
        self.carrier = session.carrier
        self.part: Part = session.part
        self.modes = frozenset({Mode.INFERENCE})
        self.has_production_form = False
        self.signatures = session.signatures
        self.sample = session.sample
        self.dims = session.dims
        self.fixed_batch = session.fixed_batch
        self.loaded = session.loaded
        self.entered: Callable[[str], None] | None = session.entered
        self.remarks = session.remarks
        self._session, self._changes, self._rounding = session, changes, rounding
        self._state: State | None = state
        """What the model is in while nothing was run since."""
        self._entries = session.entries
        self._is_applied = False

    @without_collection()
    def run(
        self,
        batch: Batch,
        mode: Mode = Mode.INFERENCE,
        watch: Watch = Watch.CALLS,
        *,
        restored: bool = True,
        seed: int | None = None,
        hold: tuple[Held, ...] = (),
        pin: tuple[Pinned, ...] = (),
    ) -> Trace:
        """One forward; see `Session`. Raises NotPossibleError for any other mode."""
        if mode is not Mode.INFERENCE:
            raise NotPossibleError(f"a changed model cannot run in the mode {mode.value!r}")
        state = self._begun(restored)
        watched = watch is not Watch.NOTHING and restored
        before = self._session.state_now(state) if watched else None
        trace = self._session.forward(batch, watch, seed, hold, self._rounding, pin=pin, production=False)
        changes = before.found().described() if before is not None else ()
        dtype = dtype_name(self._rounding.dtype) if self._rounding is not None else trace.compute_dtype
        return replace(trace, changes=changes, compute_dtype=dtype)

    def _begun(self, restored: bool) -> State:
        """The state that the variation is written over, with it written unless a forward goes on from the last."""
        session = self._session
        alone = self._entries == session.entries
        goes_on = alone and self._is_applied and not restored
        state = self._state if alone and self._state is not None else session.begun(not goes_on)
        self._state, self._entries = None, session.entries
        if not goes_on:
            self._apply()
        return state

    def _apply(self) -> None:
        self._is_applied = True
        try:
            self._changes.apply()
        except Exception as error:
            raise run_error(error, None) from error

    def trained(self) -> Part | None:
        """None: train() would undo the variation."""
        return None

    def double(self) -> AbstractContextManager[Session]:
        """Raises NotPossibleError."""
        raise NotPossibleError("a changed model has no float64 copy")

    def varied(self, variation: Variation) -> AbstractContextManager[Session]:
        """Raises NotPossibleError."""
        raise NotPossibleError("a changed model cannot be changed again: join the variations")

    def influence(self, batch: Batch) -> float:
        """Raises NotPossibleError."""
        raise NotPossibleError("gradients are taken of the model as it is")
