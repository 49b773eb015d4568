"""Recognises the state of optimizers, which is no model, and reads how many steps they made."""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.errors import UnreadableError
from bnaudit.reading.pickles.stand_ins import Call, PickleDict
from bnaudit.reading.tensors.tensor_refs import TensorRef
from bnaudit.reading.tensors.torch_tensors import TorchTensors

_MOST_SEARCHED = 10_000
_MOST_READ = 64
"""Step counts that are tensors are 4 bytes each in their own storage: enough of them are read to see a disagreement."""


def is_optimizer(value: object, pairs: PickleDict | None) -> bool:
    """Whether an object is an optimizer or its state_dict(): it has a `state` and `param_groups`."""
    if pairs is not None and _has_groups(pairs):
        return True
    state = value.state if isinstance(value, Call) else None
    return isinstance(state, PickleDict) and _has_groups(state)


def names_optimizer(key: str) -> bool:
    """Whether a key of a checkpoint speaks of an optimizer (`optimizer_state_dict`, `optim`, `optimizer_states`)."""
    lowered = key.lower()
    return "optimizer" in lowered or lowered in ("optim", "optims") or lowered.endswith("_optim")


def holds_state(value: object, tensors: TorchTensors) -> bool:
    """Whether an optimizer's state or a tensor is in it: a trainer's settings are called `optimizer` too."""
    stack, seen = [value], set[int]()
    while stack and len(seen) < _MOST_SEARCHED:
        item = stack.pop()
        if not isinstance(item, (PickleDict, Call, list, tuple)) or id(item) in seen:
            continue
        seen.add(id(item))
        pairs = item if isinstance(item, PickleDict) else item.items if isinstance(item, Call) else None
        if is_optimizer(item, pairs) or tensors.tensor(item) is not None:
            return True
        if isinstance(item, Call):
            stack.append(item.state)
        inner = (held for _, held in pairs.pairs()) if pairs is not None else item
        stack.extend(inner if not isinstance(inner, (Call, PickleDict)) else ())
    return False


def steps(optimizers: list[object], tensors: TorchTensors) -> int | None:
    """The number of steps on which all parameters of all optimizers agree; None when they do not or none is there."""
    agreed: int | None = None
    read = 0
    for value in _step_values(optimizers):
        ref = tensors.tensor(value) if isinstance(value, Call) else None
        if ref is not None:
            if read >= _MOST_READ:
                continue
            read += 1
            value = _scalar(ref)
        step = whole(value)
        if step is None or (agreed is not None and step != agreed):
            return None
        agreed = step
    return agreed


def whole(value: object) -> int | None:
    """A number that counts something: an integer or a float without fraction, not negative."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not 0 <= value < 2**53 or value != int(value):
        return None
    return int(value)


def _step_values(optimizers: list[object]) -> Iterator[object]:
    """`step` of every parameter: optimizers stand alone, in lists, or in dicts by name."""
    seen: set[int] = set()
    for value in optimizers:
        for pairs in _states(value, 3, seen):
            for _, parameter in pairs.pairs():
                if isinstance(parameter, PickleDict) and "step" in parameter:
                    yield parameter.get("step")


def _states(value: object, depth: int, seen: set[int]) -> Iterator[PickleDict]:
    """The states in an optimizer or in a container of some, each once: lists may hold one another many times."""
    if not isinstance(value, (PickleDict, Call, list, tuple)) or id(value) in seen:
        return
    seen.add(id(value))
    pairs = value if isinstance(value, PickleDict) else None
    if isinstance(value, Call):
        pairs = value.items or (value.state if isinstance(value.state, PickleDict) else None)
    if pairs is not None and _has_groups(pairs):
        state = pairs.get("state")
        state = state.items if isinstance(state, Call) else state
        if isinstance(state, PickleDict):
            yield state
    elif depth > 0:
        inner = [item for _, item in pairs.pairs()] if pairs is not None else value
        for item in inner if isinstance(inner, (list, tuple)) else ():
            yield from _states(item, depth - 1, seen)


def _has_groups(pairs: PickleDict) -> bool:
    return "state" in pairs and isinstance(pairs.get("param_groups"), list)


def _scalar(ref: TensorRef) -> object:
    if ref.absence or any(size != 1 for size in ref.shape):
        return None
    try:
        return ref.load().reshape(-1)[0].item()
    except UnreadableError:
        return None
