"""An ONNX graph as a Session: what it returns comes from the graph as it is, what is seen inside from copies."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from bnaudit.description import Carrier, GraphInput, Part
from bnaudit.measurement import Loaded
from bnaudit.onnx_session.compute_dtype import compute_dtype
from bnaudit.onnx_session.engines import Engine, Engines
from bnaudit.onnx_session.inputs import feeds, fixed_batch
from bnaudit.onnx_session.instruments import Form, Instruments, Reading, has_moments
from bnaudit.onnx_session.norm_calls import norm_call
from bnaudit.onnx_session.outputs import flattened
from bnaudit.onnx_session.randoms import Randoms
from bnaudit.onnx_session.remarks import remarks
from bnaudit.onnx_session.rows import RowWatch
from bnaudit.onnx_session.statistics import merged
from bnaudit.onnx_session.survey import Survey
from bnaudit.session import Batch, Held, Mode, NormCall, NotPossibleError, OperatorCall, Output, Session, Trace, Watch

Feeds = dict[str, NDArray[Any]]


class OnnxSession:
    """One graph; see bnaudit.session.Session. It keeps no state, so that every forward begins from the same one."""

    carrier = Carrier.GRAPH
    sample: Batch | None = None
    dims: Mapping[str, tuple[int, int | None]] = MappingProxyType({})
    loaded: Loaded | None = None

    def __init__(self, engines: Engines, part: Part, survey: Survey, *, has_production_form: bool = True) -> None:
        self.runner = engines.name
        self.part = part
        self.signatures: tuple[tuple[GraphInput, ...], ...] = (part.inputs,)
        self.fixed_batch = fixed_batch(part.inputs)
        self.has_production_form = has_production_form
        self.modes = frozenset(
            {Mode.INFERENCE, Mode.TRAINING_NORMS} if any(map(has_moments, survey.norms)) else {Mode.INFERENCE}
        )
        self.remarks = remarks(survey)
        self._engines = engines
        self._survey = survey
        self._deciding: Engine | None = engines.deciding()
        self._instruments = Instruments(engines, survey)
        self._randoms = Randoms(engines.skeleton, survey)
        self._rows = RowWatch(self._instruments, engines.skeleton, survey)
        self._shapes: dict[object, Reading] = {}
        self.reseeded = False
        self._compute_dtype = compute_dtype(part, engines.skeleton)

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
        """One forward; see Session. `restored` changes nothing: a graph has no state to leave behind."""
        if mode not in self.modes:
            raise NotPossibleError(f"the graph cannot be run in the mode {mode.value!r}")
        given = feeds(batch, self.part.inputs)
        if seed is not None and self._randoms.any:
            self._reseed(seed)
        if watch is Watch.NOTHING and mode is Mode.INFERENCE:
            return Trace(outputs=self._plain(self._production(), given), compute_dtype=self._compute_dtype)
        training = mode is Mode.TRAINING_NORMS
        reading = self._look(given, training, watch, hold)
        outputs = self._own(reading) if training or hold else self._plain(self._decider(), given)
        if watch is Watch.NOTHING:
            return Trace(outputs=outputs, compute_dtype=self._compute_dtype)
        calls = self._norm_calls(reading, batch.size, training, watch)
        operators: tuple[OperatorCall, ...] = ()
        if watch is Watch.ROWS:
            form = Form(training=training, held=tuple(sorted(each.index for each in hold)))
            operators = self._rows.calls(given, batch, form, hold)
        return Trace(
            outputs=outputs,
            norm_calls=calls,
            random_calls=self._randoms.calls({**given, **reading.exposed}),
            operators=operators,
            compute_dtype=self._compute_dtype,
        )

    def trained(self) -> Part | None:
        """A graph has no train()."""
        return None

    def double(self) -> AbstractContextManager[Session]:
        """The graph in float64, computed by onnx's reference evaluator. Raises NotPossibleError for a large one."""
        raise NotPossibleError("float64 is not there yet")

    def influence(self, batch: Batch) -> float:
        """Raises NotPossibleError."""
        raise NotPossibleError("an ONNX graph has no gradients here")

    def _decider(self) -> Engine:
        if self._deciding is None:
            self._deciding = self._engines.deciding()
        return self._deciding

    def _production(self) -> Engine:
        """Made for each run: it is asked for once, and holds the weights once more."""
        return self._engines.production() if self.has_production_form else self._decider()

    def _plain(self, engine: Engine, given: Feeds) -> tuple[Output, ...]:
        names = self._output_names
        return flattened(names, engine.run(names, given), engine.dtypes)

    def _own(self, reading: Reading) -> tuple[Output, ...]:
        return flattened(self._output_names, reading.outputs, reading.dtypes)

    @property
    def _output_names(self) -> list[str]:
        return [output.name for output in self._engines.skeleton.graph.output]

    def _look(self, given: Feeds, training: bool, watch: Watch, hold: tuple[Held, ...]) -> Reading:
        """Run a copy with what has to be seen; shapes alone are seen once for inputs of the same shapes."""
        batch_used = any(norm.uses_batch and has_moments(norm) for norm in self._survey.norms)
        form = Form(
            training=training,
            moments=watch in (Watch.MOMENTS, Watch.ROWS) or training or batch_used,
            held=tuple(sorted(each.index for each in hold)),
            exposed=self._randoms.exposed,
        )
        plain = not (form.training or form.moments or form.held or form.exposed)
        if plain and not self._survey.norms:
            return Reading([], {}, {}, {}, {})
        key = tuple(sorted((name, array.shape) for name, array in given.items()))
        if plain and key in self._shapes:
            return self._shapes[key]
        reading = self._instruments.read(form, given, hold)
        if plain:
            self._shapes[key] = reading._replace(outputs=[])
        return reading

    def _norm_calls(self, reading: Reading, size: int, training: bool, watch: Watch) -> tuple[NormCall, ...]:
        nodes = self._engines.skeleton.graph.node
        calls = []
        for norm in self._survey.norms:
            samples = reading.moments.get(norm.position)
            calls.append(
                norm_call(
                    norm,
                    nodes[norm.number],
                    reading.shapes[norm.data],
                    size,
                    trains=training and has_moments(norm),
                    batch=merged(*samples) if samples is not None else None,
                    samples=samples if watch in (Watch.MOMENTS, Watch.ROWS) else None,
                )
            )
        return tuple(calls)

    def _reseed(self, seed: int) -> None:
        """Generators of onnxruntime begin with the seed that is set when a session is made."""
        import onnxruntime  # type: ignore[import-untyped]

        onnxruntime.set_seed(seed)
        self._instruments.forget()
        self._deciding = None
        self.reseeded = True
