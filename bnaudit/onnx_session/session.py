"""An ONNX graph as a Session: what it returns comes from the graph as it is, what is seen inside from copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bnaudit.description import Carrier, GraphInput, Part
from bnaudit.measurement import Loaded
from bnaudit.onnx_session.compute_dtype import compute_dtype
from bnaudit.onnx_session.double import double_engines, double_part
from bnaudit.onnx_session.engines import Engine, Engines
from bnaudit.onnx_session.inputs import feeds, fixed_batch
from bnaudit.onnx_session.instruments import Form, Instruments, Reading, has_moments
from bnaudit.onnx_session.norm_calls import norm_call
from bnaudit.onnx_session.outputs import flattened
from bnaudit.onnx_session.pinning import Pin
from bnaudit.onnx_session.randoms import Randoms
from bnaudit.onnx_session.reference import parameter_shapes, seconds
from bnaudit.onnx_session.remarks import remarks
from bnaudit.onnx_session.rows import RowWatch
from bnaudit.onnx_session.statistics import merged
from bnaudit.onnx_session.survey import Survey
from bnaudit.onnx_session.varying import varied
from bnaudit.session import (
    Batch,
    Held,
    Mode,
    NormCall,
    NotPossibleError,
    OperatorCall,
    Output,
    Pinned,
    Session,
    Trace,
    Watch,
)
from bnaudit.variation import Variation

Feeds = dict[str, NDArray[Any]]


class OnnxSession:
    """One graph; see bnaudit.session.Session. It keeps no state, so that every forward begins from the same one."""

    carrier = Carrier.GRAPH
    sample: Batch | None = None
    dims: Mapping[str, tuple[int, int | None]] = MappingProxyType({})
    loaded: Loaded | None = None

    def __init__(
        self,
        engines: Engines,
        part: Part,
        survey: Survey,
        *,
        compute: str | None = None,
        also: tuple[str, ...] = (),
    ) -> None:
        """`compute`: the coarsest floating type, where the graph does not say it; `also`: further remarks."""
        self.runner = engines.name
        self.part = part
        self.signatures: tuple[tuple[GraphInput, ...], ...] = (part.inputs,)
        self.fixed_batch = fixed_batch(part.inputs)
        self.has_production_form = engines.optimizes
        self.entered: Callable[[str], None] | None = None
        self.modes = frozenset(
            {Mode.INFERENCE, Mode.TRAINING_NORMS} if any(map(has_moments, survey.norms)) else {Mode.INFERENCE}
        )
        self.engines = engines
        self.survey = survey
        self._deciding: Engine | None = engines.deciding()
        self.remarks = (*also, *engines.remarks, *remarks(survey))
        self._instruments = Instruments(engines, survey)
        self._randoms = Randoms(engines.skeleton, survey)
        self._rows = RowWatch(self._instruments, engines.skeleton, survey)
        self._shapes: dict[object, Reading] = {}
        self._last: Feeds | None = None
        self._compute_dtype = compute or compute_dtype(part, engines.skeleton)

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
        """One forward; see Session. `restored` changes nothing: a graph has no state to leave behind."""
        if mode not in self.modes:
            raise NotPossibleError(f"the graph cannot be run in the mode {mode.value!r}")
        given = self._last = feeds(batch, self.part.inputs)
        self._reseed(seed)
        if watch is Watch.NOTHING and mode is Mode.INFERENCE:
            return Trace(outputs=self._plain(self._production(), given), compute_dtype=self._compute_dtype)
        training = mode is Mode.TRAINING_NORMS
        try:
            pins = self._rows.pins(given, batch, pin)
            reading = self._look(given, training, watch, hold, pins)
        except NotPossibleError as error:
            if training or hold or pin or watch is not Watch.CALLS:
                raise
            return self._unwatched(given, error)
        self._reseed(seed)
        outputs = self._outputs(reading, given, altered=training or bool(hold or pins))
        if watch is Watch.NOTHING:
            return Trace(outputs=outputs, compute_dtype=self._compute_dtype)
        calls = self._norm_calls(reading, batch.size, training, watch)
        operators: tuple[OperatorCall, ...] = ()
        pinned: tuple[Pinned, ...] = ()
        if watch is Watch.ROWS:
            held = tuple(sorted(each.index for each in hold))
            form = Form(training=training, held=held, pinned=tuple(each.form for each in pins))
            operators, pinned = self._rows.calls(given, batch, form, hold, pin, lambda: self._reseed(seed))
        return Trace(
            outputs=outputs,
            norm_calls=calls,
            random_calls=self._randoms.calls({**given, **reading.exposed}),
            operators=operators,
            pinned=pinned,
            compute_dtype=self._compute_dtype,
        )

    def trained(self) -> Part | None:
        """A graph has no train()."""
        return None

    def double(self) -> AbstractContextManager[Session]:
        """The graph in float64, computed by onnx's reference evaluator. Raises NotPossibleError for a large one.

        How large it is shows in the sizes of the last forward's values.
        """
        engines = double_engines(self)
        return nullcontext(OnnxSession(engines, double_part(self.part), self.survey, compute="float64"))

    @contextmanager
    def varied(self, variation: Variation) -> Iterator[OnnxSession]:
        """A session of a copy with the variation in it; see Session."""
        engines, survey = varied(self.engines, self.survey, variation)
        changed = OnnxSession(engines, self.part, survey, compute=variation.dtype or self._compute_dtype)
        changed.modes, changed.has_production_form = frozenset({Mode.INFERENCE}), False
        yield changed

    def influence(self, batch: Batch) -> float:
        """Raises NotPossibleError."""
        raise NotPossibleError("an ONNX graph has no gradients here")

    def _unwatched(self, given: Feeds, why: NotPossibleError) -> Trace:
        """What the graph returns, when no copy of it can be made."""
        remark = f"no norm of the graph was watched: {why}"
        if remark not in self.remarks:
            self.remarks = (*self.remarks, remark)
        return Trace(outputs=self._plain(self._decider(), given), compute_dtype=self._compute_dtype)

    def _outputs(self, reading: Reading, given: Feeds, *, altered: bool) -> tuple[Output, ...]:
        """Of the graph as it is, wherever instruments might change how an engine computes it."""
        if altered or (reading.outputs and not self.engines.optimizes):
            return flattened(self._output_names, reading.outputs, reading.dtypes)
        return self._plain(self._decider(), given)

    @property
    def draws(self) -> bool:
        """Whether anything in the graph may draw random numbers."""
        return self._randoms.any

    def expected_seconds(self) -> float | None:
        """About how long the reference evaluator takes for the inputs of the last forward; None before the first."""
        if self._last is None:
            return None
        nodes = self.engines.skeleton.graph.node
        return seconds(nodes, {**parameter_shapes(self.engines.skeleton), **self._rows.shapes(self._last)})

    def _decider(self) -> Engine:
        if self._deciding is None:
            self._deciding = self.engines.deciding()
        return self._deciding

    def _production(self) -> Engine:
        """Made for each run: it is asked for once, and holds the weights once more."""
        return self.engines.production() if self.has_production_form else self._decider()

    def _plain(self, engine: Engine, given: Feeds) -> tuple[Output, ...]:
        names = self._output_names
        return flattened(names, engine.run(names, given), engine.dtypes)

    @property
    def _output_names(self) -> list[str]:
        return [output.name for output in self.engines.skeleton.graph.output]

    def _look(
        self, given: Feeds, training: bool, watch: Watch, hold: tuple[Held, ...], pins: tuple[Pin, ...]
    ) -> Reading:
        """Run a copy with what has to be seen; shapes alone are seen once for inputs of the same shapes."""
        batch_norms = [norm for norm in self.survey.norms if has_moments(norm)]
        batch_used = any(norm.uses_batch for norm in batch_norms)
        form = Form(
            training=training,
            moments=bool(batch_norms) and (watch in (Watch.MOMENTS, Watch.ROWS) or training or batch_used),
            held=tuple(sorted(each.index for each in hold)),
            pinned=tuple(each.form for each in pins),
            exposed=(
                *self._randoms.exposed,
                *(name for body in self._instruments.bodies.values() for name in body[1:] if name),
            ),
        )
        plain = not (form.training or form.moments or form.held or form.pinned or form.exposed)
        if plain and not self.survey.norms:
            return Reading([], {}, {}, {}, {}, {})
        key = tuple(sorted((name, array.shape) for name, array in given.items()))
        if plain and key in self._shapes:
            return self._shapes[key]
        reading = self._instruments.read(form, given, hold, pins)
        if plain:
            self._shapes[key] = reading._replace(outputs=[])
        return reading

    def _norm_calls(self, reading: Reading, size: int, training: bool, watch: Watch) -> tuple[NormCall, ...]:
        nodes = self.engines.skeleton.graph.node
        calls = []
        for norm in self.survey.norms:
            samples = reading.moments.get(norm.position)
            body = self._instruments.bodies.get(norm.position)
            batch = merged(*samples) if samples is not None else None
            if body is not None and body.mean:
                mean, var = ({**reading.exposed, **reading.own}[name] for name in (body.mean, body.var))
                batch = _flat(mean), _flat(var)
            calls.append(
                norm_call(
                    norm,
                    nodes[norm.number],
                    reading.shapes[norm.data],
                    size,
                    trains=training and has_moments(norm),
                    batch=batch,
                    samples=samples if watch in (Watch.MOMENTS, Watch.ROWS) else None,
                )
            )
        return tuple(calls)

    def _reseed(self, seed: int | None) -> None:
        """Set what generators begin with. Those of onnxruntime belong to a session, and begin when it is made.

        A copy and the graph as it is are seeded apart, so that both draw the same.
        """
        if seed is None or not self._randoms.any:
            return
        self.engines.seed(seed)
        self._instruments.forget()
        self._deciding = None


def _flat(value: Any) -> NDArray[np.float64]:
    flat: NDArray[np.float64] = np.asarray(value, np.float64).reshape(-1)
    return flat
