"""A PyTorch model as a session: every forward from the same state, in the mode that is asked for."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from bnaudit.description import Carrier, GraphInput, Part
from bnaudit.measurement import Loaded
from bnaudit.records import Record, replace
from bnaudit.session import Batch, Held, Mode, NotPossibleError, Pinned, Trace, Watch
from bnaudit.torch_session import influence, modes
from bnaudit.torch_session.failures import run_error
from bnaudit.torch_session.graph_changes import changed_graph, in_graph
from bnaudit.torch_session.memory import available_bytes, model_bytes
from bnaudit.torch_session.object_graph import contents
from bnaudit.torch_session.recording import LayerNames, Recorder
from bnaudit.torch_session.rounding import Rounding, rounding
from bnaudit.torch_session.script_attributes import is_script
from bnaudit.torch_session.state import Changed, State
from bnaudit.torch_session.surroundings import kept_settings, quiet, seed_all, without_collection
from bnaudit.torch_session.tensors import dtype_name, floating_dtype, outputs, to_tensors
from bnaudit.torch_session.training_forms import in_training_form
from bnaudit.torch_session.varying import VariedSession, varied
from bnaudit.torch_session.wrappers import eagerly, has_compiled, unwrapped
from bnaudit.variation import Altered, Variation

Trained = Callable[[nn.Module], Part | None]


_UNCOPIED = "memory is short: a parameter that the model overwrites is seen, and cannot be put back"


class Prepared(Record, eq=False):
    """A model that was built or loaded, and what is known of it besides."""

    model: nn.Module
    carrier: Carrier
    part: Part
    modes: frozenset[Mode]
    signatures: tuple[tuple[GraphInput, ...], ...] = ()
    sample: Batch | None = None
    dims: Mapping[str, tuple[int, int | None]] = MappingProxyType({})
    fixed_batch: int | None = None
    loaded: Loaded | None = None
    remarks: tuple[str, ...] = ()
    as_is: bool = False
    """INFERENCE runs in the modes that the model came in."""
    own: bool = True
    """It is the user's live object: every bit of it is kept."""
    device: str = "cpu"
    fixed: bool = False
    """Its modes are in its graph, and train() and eval() change nothing of them."""
    describe: Callable[[nn.Module], Part] | None = None
    """The part of the model as it is now."""
    arranged: Callable[[tuple[object, ...], Mapping[str, object]], tuple[tuple[Any, ...], dict[str, Any]]] | None = None
    """Rearranges flat inputs into what the model's call takes."""


class TorchSession:
    """See `bnaudit.session.Session`. `close` puts the model back as it came."""

    def __init__(
        self, prepared: Prepared, *, double: bool = False, like: State | None = None, base: State | None = None
    ) -> None:
        """like: a state of another model that shares parameters. base: this model's own, which it is in now."""
        self.runner = f"PyTorch {torch.__version__.partition('+')[0]}"
        self.carrier = prepared.carrier
        self.part = prepared.part
        self.modes = prepared.modes
        self.signatures = prepared.signatures
        self.sample = prepared.sample
        self.dims = prepared.dims
        self.fixed_batch = prepared.fixed_batch
        self.loaded = prepared.loaded
        self.has_production_form = has_compiled(prepared.model)
        self.entered: Callable[[str], None] | None = None
        self._prepared = prepared
        self._model = prepared.model
        self._inner = unwrapped(prepared.model)
        self._double = double
        self._names = LayerNames.of(prepared.model)
        self._limit = None if prepared.own else _quarter()
        if base is not None:
            base.restore(thorough=modes.overrides_modes(prepared.model))
        self._base = base or State(prepared.model, like=like, limit=self._limit)
        self.remarks = (*prepared.remarks, *(() if self._base.is_copied else (_UNCOPIED,)))
        self._floating = floating_dtype(module for _, module in self._base.modules)
        self._states: dict[Mode, State] = {Mode.AS_SAVED: self._base}
        if prepared.as_is:
            self._states[Mode.INFERENCE] = self._base
        self._mode: Mode | None = None
        self._ran: Mode | None = None
        """The mode of the forwards that ran since the model was restored; None: not known."""
        self._pending: Changed | None = None
        self._seen: set[Mode] = set()
        """Modes in which a forward was looked at bit by bit: what its code writes is known, and how."""
        self.entries = 0
        """How often the model was put into a state to run in."""
        self._clean = True
        """The model is in one of the states bit by bit: nothing ran since."""
        self._training: TorchSession | None = None
        self._overrides_modes = modes.overrides_modes(self._model)

    def began_with(self, state: State) -> bool:
        """Whether closing puts the model back to this state."""
        return self._base is state

    def close(self) -> None:
        """Put the model back, bit for bit."""
        self._leave()
        self._training = None
        try:
            self._base.restore()
        except NotPossibleError:
            if self._prepared.own:
                raise  # what was loaded for the session alone is thrown away

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
        """One forward; see `Session`. Raises RunError when the model raises, NotPossibleError for a mode it has not."""
        if mode is Mode.TRAINING_NORMS and mode in self.modes and self._prepared.fixed:
            form = self._training_form()
            return form.run(batch, watch=watch, restored=restored, seed=seed, hold=hold, pin=pin)
        state = self._enter(mode, restored)
        trace = self.forward(batch, watch, seed, hold, pin=pin)
        return replace(trace, changes=self._looked_at(state)) if restored and watch is not Watch.NOTHING else trace

    def forward(
        self,
        batch: Batch,
        watch: Watch,
        seed: int | None,
        hold: tuple[Held, ...],
        rounding: Rounding | None = None,
        *,
        pin: tuple[Pinned, ...] = (),
        production: bool = True,
    ) -> Trace:
        """One forward of the model as it is now. production: compiled as it came, where nothing watches."""
        args, kwargs = self._inputs(batch)
        if seed is not None:
            seed_all(seed)
        with torch.no_grad():
            if watch is Watch.NOTHING:
                model = self._model if production else self._inner
                values = self._called(model, args, kwargs, None, rounding, eager=not production)
                return Trace(outputs=outputs(values), compute_dtype=self._compute_dtype())
            recorder = self._recorder(batch, watch, hold, pin)
            values = self._called(self._inner, args, kwargs, recorder, rounding, eager=True)
            returned = outputs(values)
        return Trace(
            outputs=returned,
            norm_calls=tuple(recorder.norm_calls),
            random_calls=tuple(recorder.random_calls),
            operators=tuple(recorder.operators),
            pinned=recorder.pinned,
            compute_dtype=recorder.compute_dtype,
        )

    def trained(self) -> Part | None:
        """The part after `model.train()` as the user wrote it; None where there is no train()."""
        if Mode.TRAINING_NORMS not in self.modes or self._prepared.describe is None:
            return None
        unknown = self._is_unknown
        self._leave()
        self._base.restore(thorough=unknown)
        try:
            self._model.train()
            return self._prepared.describe(self._model)
        finally:
            self._base.restore(thorough=self._overrides_modes)
            self._clean = True

    @contextmanager
    def double(self) -> Iterator[TorchSession]:
        """A copy of the model computing in float64; see `Session`."""
        self._leave()
        self._base.restore()
        needed, there = 3 * model_bytes(self._model), available_bytes()
        if there is not None and needed > there:
            raise NotPossibleError(f"memory is short for a float64 copy ({needed >> 20} of {there >> 20} MiB)")
        if self._floating is None and self.carrier is not Carrier.MODULE:
            raise NotPossibleError(f"the {self.carrier.value} has no floating parameters that could be float64")
        try:
            with quiet(), torch.no_grad():  # a script copies its parameters by an operator
                doubled = copy.deepcopy(self._inner)
                for _, module in contents(doubled).modules:
                    module.double()
        except Exception as error:
            raise NotPossibleError(f"the model cannot be copied as float64: {type(error).__name__}: {error}") from error
        session = TorchSession(replace(self._prepared, model=doubled, own=True), double=True)
        yield session

    def varied(self, variation: Variation) -> AbstractContextManager[VariedSession]:
        """The model with a variation in place; see `Session`."""
        return varied(self, variation)

    def coded(self, variation: Variation) -> dict[str, Altered]:
        """The changes that are changes of the code of a program or a script."""
        if not (self.is_fixed or is_script(self._inner)):
            return {}
        return {name: each for name, each in variation.layers.items() if in_graph(each, fixed=self.is_fixed)}

    def with_code(self, changes: Mapping[str, Altered]) -> TorchSession:
        """A session of a copy of a program or a script with norms changed; it shares the parameters."""
        self._leave()
        self._base.restore()
        layers = {layer.name: layer for layer in self.part.layers}
        with quiet(), torch.no_grad():
            copied = changed_graph(self._model, layers, changes, fixed=self.is_fixed)
        prepared = replace(self._prepared, model=copied, modes=frozenset({Mode.INFERENCE}))
        return TorchSession(prepared, double=self._double, like=self._base)

    def begun(self, restored: bool) -> State:
        """The model in the state of INFERENCE, or with `restored=False` from wherever a forward in it left it."""
        return self._enter(Mode.INFERENCE, restored)

    def state_now(self, like: State) -> State:
        """The state that the model is in, which shares the copies of one that is nearly the same."""
        return State(self._model, like=like, changed=like.found(thorough=self._overrides_modes), limit=self._limit)

    def forget(self) -> None:
        """The caller has put back what it wrote: the next run restores what else was changed."""
        ran = self._ran
        self._leave()
        if self._overrides_modes:
            self._base.restore()
        else:
            self._ran = ran

    def rounding(self, dtype: str) -> Rounding | None:
        """What rounds the model's arithmetic to a dtype, None for "". Raises NotPossibleError for an unknown one."""
        return rounding(dtype, self._names.is_state)

    @property
    def is_fixed(self) -> bool:
        """Whether modes and epsilons are in the model's graph."""
        return self._prepared.fixed

    def modules(self, state: State) -> dict[str, nn.Module]:
        """By the names that norm layers have: registered modules, and hidden ones."""
        return {**dict(state.modules), **dict(self._model.named_modules(remove_duplicate=False))}

    def influence(self, batch: Batch) -> float:
        """See `Session`. Raises NotPossibleError without floating inputs, or when memory is short."""
        self._enter(Mode.INFERENCE, True)
        args, kwargs = self._inputs(batch)
        try:
            return influence.influence(
                self._inner, args, kwargs, batch, lambda: self._called(self._inner, args, kwargs, None)
            )
        finally:
            self._leave()

    def _enter(self, mode: Mode, restored: bool) -> State:
        """Put the model into the mode, in the state that this mode began with unless it goes on in the same one."""
        self.entries += 1
        if mode not in self.modes:
            raise NotPossibleError(f"the {self.carrier.value} cannot run in the mode {mode.value!r}")
        state = self._states.get(mode)
        if state is None:
            state = self._made(mode)
        if restored or self._mode is not mode:
            unknown = self._is_unknown
            state.restore(self._pending if self._mode is mode else None, thorough=unknown)
            if unknown and self._ran is mode:
                self._seen.add(self._ran)
        self._mode, self._ran, self._pending, self._clean = mode, mode, None, False
        return state

    @property
    def _is_unknown(self) -> bool:
        """Whether something ran that may have written past the versions of tensors."""
        return not self._clean and self._ran not in self._seen

    def _leave(self) -> None:
        """Forget what is known of the state: the next run restores all of it."""
        self._mode, self._ran, self._pending, self._clean = None, None, None, False

    def _made(self, mode: Mode) -> State:
        unknown = self._is_unknown
        self._leave()
        self._base.restore(thorough=unknown)
        try:
            if mode is Mode.INFERENCE:
                if not self._prepared.fixed:
                    self._model.eval()
            else:
                modes.train_norms(self._model, self.part)
        except Exception as error:
            raise run_error(error, None) from error
        changed = self._base.found(thorough=self._overrides_modes)
        state = self._base
        if changed.any():
            state = State(self._model, like=self._base, changed=changed, limit=self._limit)
        self._states[mode], self._clean = state, True
        return state

    def _training_form(self) -> TorchSession:
        """A session of a copy whose norms have their training form; it shares the parameters."""
        if self._training is None:
            self._leave()
            self._base.restore()
            with quiet(), torch.no_grad():
                copied = in_training_form(self._model)
            prepared = replace(self._prepared, model=copied, modes=frozenset({Mode.INFERENCE}))
            self._training = TorchSession(prepared, double=self._double, like=self._base)
        return self._training

    def _looked_at(self, state: State) -> tuple[Any, ...]:
        assert self._mode is not None
        # Only norms train then, whose kernels write no parameters; closing compares everything once more.
        thorough = self._mode not in self._seen and self._mode is not Mode.TRAINING_NORMS
        self._pending = state.found(thorough=thorough)
        self._seen.add(self._mode)
        return self._pending.described()

    def _inputs(self, batch: Batch) -> tuple[tuple[Any, ...], dict[str, Any]]:
        floating = torch.float64 if self._double else self._floating
        args: Any = to_tensors(tuple(batch.args), self._prepared.device, floating)
        kwargs: Any = to_tensors(dict(batch.kwargs), self._prepared.device, floating)
        return (args, kwargs) if self._prepared.arranged is None else self._prepared.arranged(args, kwargs)

    def _recorder(self, batch: Batch, watch: Watch, hold: tuple[Held, ...], pin: tuple[Pinned, ...]) -> Recorder:
        return Recorder(
            self._model,
            self._names,
            watch=watch,
            size=batch.size,
            anchors=batch.anchors,
            axis=batch.axis,
            hold=hold,
            pin=pin,
            entered=self.entered,
        )

    def _called(
        self,
        model: nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        recorder: Recorder | None,
        rounding: Rounding | None = None,
        *,
        eager: bool = False,
    ) -> Any:
        """What the model returns. Raises RunError; after any exception the state is not known."""
        dtype = torch.float64 if self._double else None
        rounded: AbstractContextManager[object] = nullcontext()
        if rounding is not None:
            rounded, args, kwargs = rounding, rounding.rounded(args), rounding.rounded(kwargs)
        watching: AbstractContextManager[object] = recorder if recorder is not None else nullcontext()
        try:
            with quiet(), kept_settings(dtype), eagerly(eager and self.has_production_form), rounded, watching:
                return model(*args, **kwargs)
        except (Exception, SystemExit) as error:
            self._leave()
            raise run_error(error, recorder.current if recorder is not None else None) from error
        except BaseException:
            self._leave()
            raise

    def _compute_dtype(self) -> str:
        return dtype_name(self._floating) if self._floating is not None else "float32"


def _quarter() -> int | None:
    there = available_bytes()
    return None if there is None else there // 4
