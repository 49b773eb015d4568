"""A program or a trace as a session: its norms have their training form in a copy of it."""

from __future__ import annotations

from bnaudit.description import Part
from bnaudit.records import replace
from bnaudit.session import Batch, Held, Mode, Trace, Watch
from bnaudit.torch_session.session import Prepared, TorchSession
from bnaudit.torch_session.surroundings import quiet
from bnaudit.torch_session.training_forms import has_training_form, in_training_form


def modes_of_graph(prepared: Prepared) -> Prepared:
    """With the mode TRAINING_NORMS where the model's graphs hold norms that can be given their training form."""
    if not has_training_form(prepared.model):
        return prepared
    return replace(prepared, modes=prepared.modes | {Mode.TRAINING_NORMS})


class GraphSession(TorchSession):
    """See `bnaudit.session.Session`. The copy is made when it is first needed."""

    _copy: TorchSession | None = None

    def run(
        self,
        batch: Batch,
        mode: Mode = Mode.INFERENCE,
        watch: Watch = Watch.CALLS,
        *,
        restored: bool = True,
        seed: int | None = None,
        hold: tuple[Held, ...] = (),
    ) -> Trace:
        """One forward; see `Session`."""
        if mode is not Mode.TRAINING_NORMS or mode not in self.modes:
            return super().run(batch, mode, watch, restored=restored, seed=seed, hold=hold)
        return self._in_training().run(batch, Mode.INFERENCE, watch, restored=restored, seed=seed, hold=hold)

    def trained(self) -> Part | None:
        """None: there is no train()."""
        return None

    def _in_training(self) -> TorchSession:
        if self._copy is None:
            with quiet():
                model = in_training_form(self._model)
            self._copy = TorchSession(replace(self._prepared, model=model, modes=frozenset({Mode.INFERENCE})))
        return self._copy
