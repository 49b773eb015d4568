"""The state of a model, as it was at one moment: what a forward changed of it, and the way back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import nn

from bnaudit.session import NotPossibleError, StateChange
from bnaudit.torch_session.digests import digest
from bnaudit.torch_session.held_containers import MISSING, Container, Difference
from bnaudit.torch_session.held_tensors import HeldTensor, HeldTensors
from bnaudit.torch_session.object_graph import contents


class State:
    """Parameters, buffers (registered or not, persistent or not), modes, hooks and plain attributes of a model and of
    the modules that hide in it, bit for bit.

    `like` is another state of the same model, whose copies of large tensors are shared where the contents are equal:
    all but those that `changed` since, which None leaves to be found out.
    Beyond `limit` bytes large tensors are fingerprinted, not copied.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        like: State | None = None,
        changed: Changed | None = None,
        limit: int | None = None,
    ) -> None:
        self.model = model
        with torch.no_grad():
            found = contents(model)
            self._containers = found.containers
            self.modules = found.modules
            written = [entry.tensor for entry in changed.tensors] if changed is not None else None
            self._tensors: HeldTensors = HeldTensors(
                found.tensors, limit, like._tensors if like is not None else None, written
            )

    @property
    def is_copied(self) -> bool:
        """Whether every change can be undone."""
        return self._tensors.is_copied

    def found(self, thorough: bool = True) -> Changed:
        """Everything that is not as it was, objects replaced by equal ones counted.

        Not thorough: a large parameter counts as unchanged when its version is, which `.data` and `.numpy()` pass by.
        """
        with torch.no_grad():
            containers = [container for container in self._containers if container.is_changed()]
            return Changed(containers, list(self._tensors.changed(thorough)))

    def restore(self, changed: Changed | None = None, *, thorough: bool = True) -> None:
        """Put the model back, in place; `changed` is what `found` gave, None: it is not known.

        Raises NotPossibleError when a change was seen that cannot be undone.
        """
        changed = self.found(thorough) if changed is None else changed
        with torch.no_grad():
            for container in changed.containers:
                container.restore()
            lost = [entry for entry in changed.tensors if not entry.restore()]
        if lost:
            what = f"{lost[0].held.path} was overwritten by the model, and its memory is too large to be kept twice"
            raise NotPossibleError(what, remedy="run with more memory")


class Changed(NamedTuple):
    """What is not as it was in a state."""

    containers: list[Container]
    tensors: list[HeldTensor]

    def any(self) -> bool:
        """Whether there is something."""
        return bool(self.containers or self.tensors)

    def described(self) -> tuple[StateChange, ...]:
        """As values, tensors first, in the order of the model; objects replaced by equal ones are left out."""
        with torch.no_grad():
            replaced = [change for container in self.containers for change in _replaced(container)]
            named = {change.name for change in replaced}
            written = [_written(entry) for entry in self.tensors if entry.held.path not in named]
        return (*written, *replaced)


def _written(entry: HeldTensor) -> StateChange:
    held = entry.held
    return StateChange(
        name=held.path, kind=held.kind, persistent=held.persistent, owner=held.owner, digest=entry.digest()
    )


def _replaced(container: Container) -> Iterator[StateChange]:
    held = container.held
    for difference in container.differences():
        if _is_equal(difference):
            continue
        owner = difference.held or held
        key = difference.suffix.rpartition(".")[2]
        yield StateChange(
            name=held.entry(difference.suffix),
            kind=owner.kind,
            persistent=owner.persistent and key not in owner.transient,
            owner=owner.owner,
            digest=digest(difference.new),
        )


def _is_equal(difference: Difference) -> bool:
    """Whether the new object holds what the old one does."""
    old, new = difference.old, difference.new
    if old is MISSING or new is MISSING or type(old) is not type(new):
        return False
    return digest(old) == digest(new)
