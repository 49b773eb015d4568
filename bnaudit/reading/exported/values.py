"""Where a value of an exported graph comes from: a stored tensor, and through which views."""

from __future__ import annotations

from bnaudit.reading.exported.graph import Node, Scope, Value
from bnaudit.reading.exported.sizes import Size

_LONGEST_CHAIN = 100
"""Copies between a view and the call that uses it; exporters write one or two."""

_SHAPED = ("view", "reshape", "_unsafe_view", "unsqueeze", "flatten", "expand")
_COPIED = ("clone", "contiguous", "alias", "detach", "to", "_to_copy")
_ALSO_SAME = ("repeat", "squeeze", "detach_", "lift_fresh", "lift_fresh_copy")
_VIEWS = frozenset(f"aten.{name}" for name in _SHAPED)
_TRANSPARENT = frozenset(f"aten.{name}" for name in _COPIED)
_SAME_VALUES = _VIEWS | _TRANSPARENT | {f"aten.{name}" for name in _ALSO_SAME}
"""Operators whose output holds the values of their first argument, tiled, cast or shaped."""

_PERMUTES = frozenset(f"aten.{name}" for name in ("permute", "transpose", "movedim", "swapaxes", "t", "mT"))

_UPDATED_STATISTICS = {
    "aten._native_batch_norm_legit_functional": {3: "running_mean", 4: "running_var"},
    "aten._batch_norm_with_update_functional": {4: "running_mean", 5: "running_var"},
}
"""Outputs that stand for the buffers after an update: a module called twice reads them the second time."""


class Origins:
    """Follows values back to the program's state; what was found once is remembered, so that all walks stay linear."""

    __slots__ = ("_from_state", "_root", "_state", "_stored")

    def __init__(self, root: Scope, state: dict[str, str]) -> None:
        self._root = root
        self._state = state
        self._stored: dict[Value, str | None] = {}
        self._from_state: dict[Value, bool] = {}

    def stored_name(self, scope: Scope, name: str | None) -> str | None:
        """The fully qualified name of the parameter, buffer or constant whose values these are, else None."""
        if name is None:
            return None
        value, met = scope.outermost(name), list[Value]()
        while value not in self._stored:
            self._stored[value] = self._state.get(value.name) if value.scope is self._root else None
            met.append(value)
            producer = value.scope.producers.get(value.name)
            previous = None if producer is None else _same_values(producer, value.name)
            if self._stored[value] is not None or producer is None or previous is None:
                break
            value = producer.scope.outermost(previous)
        found = self._stored[value]
        self._stored.update(dict.fromkeys(met, found))
        return found

    def is_from_state_alone(self, scope: Scope, name: str) -> bool:
        """Whether the value is computed from parameters, buffers and constants without any user input."""
        start = scope.outermost(name)
        pending = [start] if start not in self._from_state else []
        opened: set[Value] = set()
        while pending:
            value = pending[-1]
            sources = self._sources(value)
            if value in opened or not sources:
                pending.pop()
                # A source that is still open closes a circle, which only a damaged graph has.
                fed = [self._from_state.get(source, False) for source in sources]
                self._from_state[value] = all(fed) if sources else self._is_state(value)
            else:
                opened.add(value)
                pending += [source for source in sources if source not in self._from_state and source not in opened]
        return self._from_state[start]

    def _sources(self, value: Value) -> list[Value]:
        producer = value.scope.producers.get(value.name)
        return [] if producer is None else [producer.scope.outermost(name) for name in producer.tensors()]

    def _is_state(self, value: Value) -> bool:
        """Whether a value that nothing feeds is the program's own: its state, or made from plain numbers."""
        if value.name in value.scope.producers:
            return True
        return value.scope is self._root and value.name in self._state


def _same_values(producer: Node, output: str) -> str | None:
    if producer.op in _SAME_VALUES:
        return producer.tensor("self", "input")
    updated = _UPDATED_STATISTICS.get(producer.op)
    if updated is None or output not in producer.outputs:
        return None
    argument = updated.get(producer.outputs.index(output))
    return producer.tensor(argument) if argument else None


class InputView:
    """The input of a normalization call, seen through the view in front of it."""

    __slots__ = ("channels", "is_per_sample")

    def __init__(self, node: Node, origins: Origins, named_batch_norm: bool) -> None:
        self.channels: int | None = None
        """Channels of the layer: axis 1 in front of a view that merged batch and channels."""
        self.is_per_sample = False
        """A view made the batch axis 1 and kept the samples apart: InstanceNorm and weight standardization.

        InstanceNorm decomposes to batch norm on (1, N·C, …), weight standardization to (1, C, K).
        """
        name = node.tensor("input", "self")
        sizes = node.scope.sizes(name) if name else None
        if name is None or sizes is None or len(sizes) < 2:
            return
        self.channels = _plain(sizes[1])
        view = _view_before(node.scope, name)
        source = view.tensor("self", "input") if view is not None else None
        if view is None or source is None or sizes[0].value != 1:
            return
        before = view.scope.sizes(source)
        if origins.is_from_state_alone(view.scope, source):
            self.is_per_sample = True
        elif before is not None and len(before) >= 2:
            self.is_per_sample = _keeps_samples_apart(view.scope, source, before, sizes, named_batch_norm)
            self.channels = _plain(before[1]) if self.is_per_sample else self.channels


def _plain(size: Size) -> int | None:
    return size.value if isinstance(size.value, int) else None


def _view_before(scope: Scope, name: str) -> Node | None:
    value = scope.outermost(name)
    for _ in range(_LONGEST_CHAIN):
        producer = value.scope.producers.get(value.name)
        if producer is None or producer.op in _VIEWS:
            return producer
        source = producer.tensor("self", "input") if producer.op in _TRANSPARENT else None
        if source is None:
            return None
        value = producer.scope.outermost(source)
    return None


def _keeps_samples_apart(
    scope: Scope, source: str, before: tuple[Size, ...], after: tuple[Size, ...], named_batch_norm: bool
) -> bool:
    """Whether (N, C, …) seen as (1, M, …) has whole samples in each of the M channels: N divides M, N is the batch."""
    batch, channels = before[0], after[1]
    if batch.value == 1:  # a fixed batch of one: only InstanceNorm writes a view that changes nothing
        return not named_batch_norm and [size.value for size in before] == [size.value for size in after]
    if batch.is_symbolic:
        return channels.is_symbolic and _divides(batch.hint, channels.hint)
    if any(size.is_symbolic for size in before):
        return False  # the free axis is elsewhere: the batch was moved
    return _divides(batch.hint, channels.hint) and not _first_axis_moved(scope, source)


def _divides(part: int | None, whole: int | None) -> bool:
    return part is None or whole is None or (part > 0 and whole % part == 0)


def _first_axis_moved(scope: Scope, name: str) -> bool:
    value = scope.outermost(name)
    for _ in range(_LONGEST_CHAIN):
        producer = value.scope.producers.get(value.name)
        if producer is None:
            return False
        if producer.op in _PERMUTES:
            axes = producer.integers("dims")
            swapped = {producer.number("dim0", "axis0"), producer.number("dim1", "axis1")}
            return axes[0] != 0 if axes else 0 in swapped or swapped == {None}
        source = producer.tensor("self", "input") if producer.op in _TRANSPARENT else None
        if source is None:
            return False
        value = producer.scope.outermost(source)
    return False
