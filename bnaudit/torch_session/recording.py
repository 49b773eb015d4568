"""Watching one forward: every operator that PyTorch dispatches, with its module, arguments and results."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, TracebackType
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

from bnaudit.session import Held, NormCall, OperatorCall, Pinned, Place, RandomCall, Watch
from bnaudit.torch_session import operators
from bnaudit.torch_session.attribution import ModuleStack, called_from, raised_at
from bnaudit.torch_session.module_names import LayerNames, Named
from bnaudit.torch_session.norm_readings import Reading
from bnaudit.torch_session.norm_records import NormRecords
from bnaudit.torch_session.operators import Operator, operator
from bnaudit.torch_session.random_records import RandomRecords
from bnaudit.torch_session.row_records import RowRecords

__all__ = ["LayerNames", "Recorder"]


class Recorder:
    """A context around one forward under torch.no_grad(), in the thread that runs it.

    size, anchors, axis: samples of the batch, rows that are fingerprinted (Watch.ROWS), batch axis of the inputs.
    hold: statistics to normalize with instead of the batch's. pin: see `Session.run`. What the recorder shows is
    complete when the context is left, also by an error. It changes nothing of the model and leaves no hook behind. Its
    own arithmetic takes no random numbers. entered: told the name of each module that begins to run.
    """

    def __init__(
        self,
        model: object,
        layers: LayerNames,
        *,
        watch: Watch,
        size: int,
        anchors: tuple[int, ...],
        axis: int = 0,
        hold: tuple[Held, ...] = (),
        pin: tuple[Pinned, ...] = (),
        entered: Callable[[str], None] | None = None,
    ) -> None:
        self._names = layers
        self._told = entered
        self._without_operator = layers.without_operator()
        self._entered: FrameType | None = None
        self._raised = ""
        watched = bool(self._without_operator)
        self._stack = ModuleStack(self._enters if watched or entered else None, self._leaves if watched else None)
        moments = watch in (Watch.MOMENTS, Watch.ROWS)
        self._norms = NormRecords(layers, size, moments=moments, hold=hold, shortens=watch is Watch.MOMENTS)
        self._randoms = RandomRecords(self._place)
        self._rows = RowRecords(layers, size, anchors, axis, pin) if watch is Watch.ROWS else None
        self._open: list[tuple[int, int]] = []
        self._dtypes: set[torch.dtype] = set()
        self._mode = _Mode(self._with_rows if self._rows is not None else self._call, self)
        self.operator_count = 0
        """Operators that ran."""

    def __enter__(self) -> Recorder:
        self._entered = sys._getframe(1)
        self._names.forward_begins()
        self._stack.__enter__()
        try:
            self._mode.__enter__()  # type: ignore[no-untyped-call]
        except BaseException:
            self._stack.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._mode.__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        finally:
            self._stack.__exit__(kind, error, trace)
            self._entered = None
            self._raised = raised_at(trace)

    @property
    def norm_calls(self) -> tuple[NormCall, ...]:
        """In the order in which they ran."""
        return self._norms.calls

    @property
    def random_calls(self) -> tuple[RandomCall, ...]:
        """In the order in which they ran."""
        return tuple(self._randoms.calls)

    @property
    def operators(self) -> tuple[OperatorCall, ...]:
        """With Watch.ROWS: those that compute something from tensors; views and empty memory are left out."""
        return tuple(self._rows.calls) if self._rows is not None else ()

    @property
    def pinned(self) -> tuple[Pinned, ...]:
        """What was to be pinned and could be, with the rows."""
        return tuple(self._rows.pinned) if self._rows is not None else ()

    @property
    def compute_dtype(self) -> str:
        """The coarsest floating dtype of the parameters and of what operators returned; float32 when there is none."""
        floating = [
            dtype for dtype in {*self._dtypes, *self._names.dtypes} if dtype.is_floating_point or dtype.is_complex
        ]
        coarsest = max(floating, key=lambda dtype: torch.finfo(dtype).eps, default=torch.float32)
        return str(coarsest).removeprefix("torch.")

    @property
    def current(self) -> Place:
        """Where the forward is, or where it was when the model raised."""
        named = self._names.innermost(self._stack.modules)
        return _place(named, self._raised, "")

    def _call(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run one operator that is watched, and record it."""
        return self._run(operator(function), function, args, kwargs)[0]

    def _run(
        self, known: Operator, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any, Any, int | None]:
        """What is returned, what it would be without `hold`, and the index of the norm call that it is."""
        if known.norm is not None:
            return self._norm(known, function, args, kwargs)
        if known.name in operators.FUSED:
            self._fused(known, known.read(args, kwargs))
        result = function(*args, **kwargs)
        if known.random is not None:
            self._randoms.record(known, known.read(args, kwargs), result)
        elif known.name in operators.REPEATS:
            self._norms.repeated(args[0], result)
        else:
            self._randoms.follow(known, args)
        return result, result, None

    def _norm(
        self, known: Operator, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any, Any, int]:
        running = self._stack.running()
        module = running[-1] if running else None
        kind = self._names.kind(module) if module is not None else None
        values = known.read(args, kwargs)
        reading = self._norms.read(known, values, kind)
        place = self._place(known.name, _needs_line(reading))
        returned, plain = self._norms.run(known, function, args, kwargs, reading, place)
        return returned, plain, len(self._norms) - 1

    def _fused(self, known: Operator, values: Mapping[str, Any]) -> None:
        place = self._place(known.name, False)
        for weight in ("norm_weight_1", "norm_weight_2"):
            self._norms.record_fused(values["src"], values[weight], values["eps"], place)

    def _with_rows(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        known = operator(function)
        rows = self._rows
        assert rows is not None
        place = self._place(known.name, True)
        return rows.run(known, args, kwargs, place, lambda: self._run(known, function, args, kwargs))

    def _place(self, name: str, line: bool) -> Place:
        origin = called_from(self._names, self._stack, self._entered, line)
        return _place(origin.module, origin.source, name)

    def _enters(self, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        if self._told is not None and (named := self._names.module(module)) is not None:
            self._told(named.name)
        if id(module) in self._without_operator:
            self._open.append((id(module), len(self._norms)))

    def _leaves(self, module: torch.nn.Module, args: tuple[Any, ...], result: Any) -> None:
        if self._open and self._open[-1][0] == id(module):
            _, before = self._open.pop()
            if len(self._norms) == before and isinstance(result, torch.Tensor):
                self._norms.record_module(module, self._without_operator[id(module)], result, self._place("", False))


def _needs_line(reading: Reading) -> bool:
    """Lines take time to find, and are of use where samples may meet."""
    return reading.uses_batch and (reading.kind.is_batch or reading.extent.mixes is not False)


_SMALL_OUTPUTS = (tuple, list)


def _place(named: Named, source: str, name: str) -> Place:
    return Place(module=named.name, class_name=named.class_name, hidden=named.hidden, source=source, operator=name)


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operator of its thread; hands on those that are watched and calls the others."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled under it; the guard against it costs a microsecond per operator."""
        return False

    def __init__(self, watched: Callable[[Any, Sequence[Any], Mapping[str, Any]], Any], recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._watched = watched
        self._recorder = recorder
        self._handles = _Handles(everything=recorder._rows is not None)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        recorder = self._recorder
        recorder.operator_count += 1
        if isinstance(func, HigherOrderOperator):
            return func(*map(self._looked_into, args), **(kwargs or _NOTHING))
        if recorder._randoms.pending is not None or self._handles[func]:
            result = self._watched(func, args, kwargs or _NOTHING)
        elif kwargs:
            result = func(*args, **kwargs)
        else:
            result = func(*args)
        if isinstance(result, torch.Tensor):
            recorder._dtypes.add(result.dtype)
        elif isinstance(result, _SMALL_OUTPUTS):
            for item in result:
                if isinstance(item, torch.Tensor):
                    recorder._dtypes.add(item.dtype)
        return result

    def _looked_into(self, argument: Any) -> Any:
        """A branch or body of control flow, run under this mode: it is left while an operator runs."""
        if isinstance(argument, torch.Tensor) or not callable(argument):
            return argument

        @functools.wraps(argument)
        def watched(*args: Any, **kwargs: Any) -> Any:
            with self:
                return argument(*args, **kwargs)

        return watched


_NOTHING: dict[str, Any] = {}


class _Handles(dict[Any, bool]):
    """Operator → whether it is watched, found out when it is first met."""

    def __init__(self, everything: bool) -> None:
        super().__init__()
        self._everything = everything

    def __missing__(self, function: Any) -> bool:
        found = self[function] = self._everything or operators.is_watched(function)
        return found
