"""The tensors of pickled modules: those of norm layers are read, the others only counted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from bnaudit.description import Gap, StoredTensor
from bnaudit.errors import UnreadableError
from bnaudit.reading.modules.objects import PickledModule
from bnaudit.reading.modules.walk import Located
from bnaudit.reading.pickles.stand_ins import Call
from bnaudit.reading.tensors.tensor_refs import TensorRef, stored

_VARIABLES = ("torch.nn.parameter.Parameter", "torch.autograd.variable.Variable")
"""PyTorch before 0.4 pickled parameters and buffers as a call with the data and the state (requires_grad, volatile,
hooks), before 0.2 as one without arguments and the state (data, creator, hooks, requires_grad, volatile)."""


class Tensors(Protocol):
    """What recognises tensors among stand-ins: TorchTensors."""

    def tensor(self, value: object) -> TensorRef | None:
        """The tensor that a stand-in stands for, None when it stands for something else."""


class ModuleTensors:
    """Reads tensors of modules and keeps a Gap for each that could not be read."""

    __slots__ = ("_tensors", "gaps")

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors
        self.gaps: list[Gap] = []

    def ref(self, value: object) -> TensorRef | None:
        """The tensor of a parameter or buffer of any version of PyTorch, None when it is no tensor."""
        if not isinstance(value, Call) or value.callee_name not in _VARIABLES:
            return self._tensors.tensor(value)
        state = value.state if isinstance(value.state, tuple) else ()
        data = value.args[0] if value.args else state[0] if state else None
        ref = self._tensors.tensor(data)
        flag = next((entry for entry in state if isinstance(entry, bool)), None)
        if ref is not None:
            ref.requires_grad = flag
            ref.is_parameter = value.callee_name == _VARIABLES[0]
        return ref

    def read(self, name: str, value: object) -> StoredTensor:
        """One tensor of a norm layer under its stored name."""
        ref = self.ref(value)
        if ref is None:
            why = "an object that is no tensor stands in the place of one"
            self.gaps.append(Gap(where=name, why=why, hides_norms=False))
            return StoredTensor(name=name, dtype="unknown", shape=(), values=None, absence=why, unread=True)
        tensor, why = stored(name, ref)
        if why:
            self.gaps.append(Gap(where=name, why=why, hides_norms=False))
        return tensor

    def count(self, value: object) -> int | None:
        """The value of a counter such as `n_averaged`, None when there is none to read."""
        ref = self.ref(value)
        if ref is None or ref.absence or any(size != 1 for size in ref.shape) or "int" not in ref.dtype:
            return None
        try:
            return int(ref.load().reshape(-1)[0])
        except UnreadableError:
            return None


class Census(NamedTuple):
    """All tensors of a model."""

    tensors: int
    floating_dtypes: tuple[str, ...]
    """Sorted."""


def census(located: Iterable[Located], tensors: ModuleTensors) -> Census:
    """Count the parameters and buffers of modules; none is read."""
    number, dtypes = 0, set()
    for entry in located:
        for value in _entries(entry.module, "_parameters", "_buffers"):
            number += 1
            ref = tensors.ref(value)
            if ref is not None and "float" in ref.dtype:
                dtypes.add(ref.dtype)
    return Census(number, tuple(sorted(dtypes)))


def trainable_and_frozen(located: Iterable[Located], tensors: ModuleTensors) -> tuple[int | None, int | None]:
    """How many parameters of the modules require gradients and how many do not, shared ones once.

    (None, None) when there are parameters and nothing is known of any of them.
    """
    parameters = {id(value): value for entry in located for value in _entries(entry.module, "_parameters")}
    refs = [tensors.ref(value) for value in parameters.values()]
    flags = [ref.requires_grad for ref in refs if ref is not None and ref.requires_grad is not None]
    if refs and not flags:
        return None, None
    return flags.count(True), flags.count(False)


def identities(located: Iterable[Located], tensors: ModuleTensors) -> frozenset[object]:
    """The identities of all parameters and buffers of the modules that have one."""
    values = (value for entry in located for value in _entries(entry.module, "_parameters", "_buffers"))
    return frozenset(ref.identity for ref in map(tensors.ref, values) if ref is not None and ref.identity is not None)


def _entries(module: PickledModule, *sections: str) -> Iterable[object]:
    return (value for section in sections for _, value in module.section(section) if value is not None)
