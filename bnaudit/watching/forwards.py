"""Sees the forwards of a model without leaving anything on it.

The hooks are PyTorch's global ones for all modules of the process: the model, its copies and what is pickled of it
carry nothing. A hook looks at which module is called and at its `training`, never at inputs or outputs.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from weakref import WeakSet

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.hooks import RemovableHandle

from bnaudit.watching.judging import InTraining
from bnaudit.watching.layers import (
    Layout,
    WatchedLayer,
    inner_of_wrapper,
    is_compiled_in_place,
    keeps_statistics,
    layout_of,
)
from bnaudit.watching.statistics import Change, Snapshot, changes, joined, taken

_MOST_OUTSIDE = 1000
"""Layers of other models, and such that nothing registers, for which the model is looked through."""

Judge = Callable[[list[tuple[WatchedLayer, Change]], InTraining | None], None]
"""Takes what changed, see Verdicts.judged; None where it did between two steps, in which no forward could be seen."""


class Window:
    """One outermost call of the model or of a module in it: statistics and modes before it, then after it."""

    __slots__ = ("_in_training", "after", "before", "handled", "layers", "opener", "thread")

    def __init__(self, opener: nn.Module, layers: tuple[WatchedLayer, ...]) -> None:
        self.opener = opener
        self.layers = layers
        self.thread = threading.get_ident()
        self.handled = sys.exc_info()[1]
        """What the user's code handles at the moment, in which case it is not the forward that raised."""
        self._in_training = {id(layer.module) for layer in layers if layer.module.training}
        self.before = taken(layers)
        self.after: list[Snapshot] = []

    def ran(self, module: nn.Module) -> None:
        """A module ran in the window; in which mode may be set for this forward only."""
        if module.training:
            self._in_training.add(id(module))

    def close(self) -> None:
        """The call is over."""
        self._in_training |= {id(layer.module) for layer in self.layers if layer.module.training}
        self.after = taken(self.layers)

    def in_training(self, layer: WatchedLayer) -> bool:
        """Whether the layer was in training mode when it ran, or before or after the window."""
        return id(layer.module) in self._in_training


class Forwards:
    """Opens and closes windows while it is attached.

    A call of the model is settled when it returns. Calls of single modules in it (`model.encode(x)`) are collected and
    settled at the optimizer's step, or when one of their layers runs again, so that a device is waited for once a step.
    """

    def __init__(self, model: nn.Module, judge: Judge, every: int) -> None:
        self.layout: Layout = layout_of(model)
        self.seen = 0
        """Calls of the model, or settled collections of calls of its modules, or steps where no call was seen."""
        self._model = model
        self._judge = judge
        self._every = every
        self._open: Window | None = None
        self._waiting: list[Window] = []
        """They are over; no layer occurs in two of them."""
        self._ran = False
        """A call was seen since the last step of an optimizer."""
        self._last: list[Snapshot] | None = None
        """At the last step of an optimizer or the beginning, when no call was seen since."""
        self._outside: WeakSet[nn.Module] = WeakSet()
        self._handles: list[RemovableHandle] = []

    def attach(self) -> None:
        """Begin to see."""
        self._ran, self._last = False, taken(self.layout.layers)
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, always_call=True),
            register_optimizer_step_post_hook(self._stepped),
        ]

    def detach(self) -> None:
        """See no more. Nothing of it remains in the process."""
        for handle in self._handles:
            handle.remove()
        self._handles, self._open, self._waiting, self._last = [], None, [], None

    def finish(self) -> None:
        """Hand on all that there is."""
        self.settle()
        if not self.seen:
            self._compare(step=False)

    def settle(self) -> None:
        """Hand on the windows that wait."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        if not self._is_whole(waiting[0].layers):
            self.seen += 1
            if self.seen % self._every:
                return
        before = joined([snap for window in waiting for snap in window.before])
        after = joined([snap for window in waiting for snap in window.after])
        self._judge(changes(before, after), lambda layer: any(window.in_training(layer) for window in waiting))

    def _before(self, module: nn.Module, args: object) -> None:
        if torch.compiler.is_compiling():
            return  # what is traced here would be part of the compiled code
        window = self._open
        if window is None or module is window.opener:  # the latter: its last call was broken off
            self._begin(module)
        elif window.thread == threading.get_ident():
            window.ran(module)
            self._look_at(module)

    def _begin(self, module: nn.Module) -> None:
        self._open = None
        layers = self._layers_below(module)
        if not layers or _is_traced():
            return
        self._ran, self._last = True, None
        if self._is_whole(layers):
            self.seen += 1
            layers = () if self.seen % self._every else layers  # a window without layers covers the calls inside
        self._make_room(layers)
        self._open = Window(module, layers)
        self._open.ran(module)

    def _is_whole(self, layers: tuple[WatchedLayer, ...]) -> bool:
        return len(layers) == len(self.layout.layers)

    def _layers_below(self, module: nn.Module) -> tuple[WatchedLayer, ...]:
        self._look_at(module)
        entry = self.layout.reached.get(id(module))
        inner = inner_of_wrapper(module) if entry is None else None
        if inner is not None:
            entry = self.layout.reached.get(id(inner))
        return entry[1] if entry is not None else ()

    def _look_at(self, module: nn.Module) -> None:
        """Learn of a layer that was put into the model since the watch began."""
        if not keeps_statistics(module) or id(module) in self.layout.reached or module in self._outside:
            return
        if len(self._outside) < _MOST_OUTSIDE:
            self.layout = layout_of(self._model, self.layout)
            if id(module) not in self.layout.reached:
                self._outside.add(module)

    def _make_room(self, layers: Iterable[WatchedLayer]) -> None:
        waiting = {id(layer) for window in self._waiting for layer in window.layers}
        if any(id(layer) in waiting for layer in layers):
            self.settle()

    def _after(self, module: nn.Module, args: object, output: object) -> None:
        if torch.compiler.is_compiling():
            return
        window = self._open
        if window is None or module is not window.opener or window.thread != threading.get_ident():
            return
        self._open = None
        if sys.exc_info()[1] is not window.handled:
            return  # the forward raised: how far it came is unknown
        if not window.layers:
            return
        window.close()
        self._waiting.append(window)
        if self._is_whole(window.layers):
            self.settle()

    def _stepped(self, optimizer: object, args: object, kwargs: object) -> None:
        if torch.compiler.is_compiling() or _is_traced():
            return
        if self._open is not None and self._open.thread != threading.get_ident():
            return  # another thread trains another model while this one runs
        self._open = None
        self.settle()
        self._compare(step=True)

    def _compare(self, step: bool) -> None:
        """Look at the time since the last step in the whole where no call was seen in it.

        In a compiled function, `torch.compile(lambda x: model(x))`, calls go unseen too.
        """
        unseen = self.layout.unseen or is_compiled_in_place(self._model)
        ran, self._ran = self._ran, False
        if ran and not unseen:
            return
        before, self._last = self._last, taken(self.layout.layers)
        found = changes(before, self._last) if before is not None else []
        if any(change.changed for _, change in found) or (step and unseen and before is not None):
            self.seen += 1
            self._judge(found, None)


def _is_traced() -> bool:
    """Whether reading values is impossible or would be recorded: TorchScript tracing, torch.func, CUDA graphs."""
    functorch = getattr(torch._C, "_functorch", None)
    level: Callable[[], int | None] = getattr(functorch, "maybe_current_level", lambda: None)
    cuda = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    capturing = cuda and torch.cuda.is_current_stream_capturing()
    return torch._C._get_tracing_state() is not None or level() is not None or capturing
