"""BN207: a norm where eval(), state_dict() and to() do not reach it.

The norm is put into a module that calls it, and that keeps it in a plain list, tuple or dict, in an attribute of an
object that is no module, or where only `__setattr__` is gone round. Twins of these register it as well: healthy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from fault_matrix.faults.places import replace
from fault_matrix.faults.saved_state import WHOLE_MODULES
from fault_matrix.values import Facet, Fault, Planting, Scope
from torch import nn

from bnaudit.results import Question, Severity


class Holder:
    """No module."""

    def __init__(self, norm: nn.Module) -> None:
        self.norm = norm


class InList(nn.Module):
    """A module in a plain list."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.kept = [norm]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.kept[0](x)


class InTuple(nn.Module):
    """In a tuple, behind something that is no module."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.kept = ("norm", norm)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.kept[1](x)


class InDict(nn.Module):
    """In a dict."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.kept = {"norm": norm}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.kept["norm"](x)


class InObject(nn.Module):
    """In an attribute of an object that is no module."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.kept = Holder(norm)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.kept.norm(x)


class PastRegistration(nn.Module):
    """As `object.__setattr__` leaves it, which some use to keep a teacher out of the state dict."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        object.__setattr__(self, "kept", norm)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.kept(x)


class RegisteredToo(nn.Module):
    """In a plain list, and registered under another name."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.kept = [norm]
        self.norm = norm

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.kept[0](x)


WAYS: dict[str, type[nn.Module]] = {
    "a list": InList,
    "a tuple": InTuple,
    "a dict": InDict,
    "an object": InObject,
    "no register": PastRegistration,
}


def hide(planting: Planting, way: type[nn.Module], training: bool) -> None:
    """In these modules, in this mode; all else is in eval mode."""
    for name in planting.layers:
        norm = planting.net.get_submodule(name)
        replace(planting.net, name, way(norm).eval())
        norm.train(training)


def hidden(way: type[nn.Module], training: bool) -> Callable[[Planting], None]:
    return partial(hide, way=way, training=training)


def _fault(name: str, way: type[nn.Module], training: bool, scope: Scope) -> Fault:
    mode = "in training mode" if training else "in eval mode"
    return Fault(
        f"a norm in {name}, {mode}",
        "BN207",
        hidden(way, training),
        Severity.ERROR if training else Severity.WARNING,
        Question.EVAL_MODE if training else Question.BUFFERS,
        scope,
        needs=frozenset({Facet.CLASSES}),
        # Run, it is seen to use the batch, to move its statistics and to be behind the differences of the modes.
        also=("BN301", "BN303", "BN306", "BN401", "BN402", "BN403", "BN404") if training else (),
        # In eval mode it holds its mode for now: what is lost is its state, and that is no question of its own.
        leaves_open=not training,
        only=WHOLE_MODULES,
    )


FAULTS = [
    *(
        _fault(name, way, training, scope)
        for name, way in WAYS.items()
        for training in (True, False)
        for scope in ((Scope.ALL, Scope.ONE) if name == "a list" else (Scope.ONE,))
    ),
    *(
        Fault(
            "a norm in a list, registered too",
            "BN207",
            hidden(RegisteredToo, False),
            None,
            Question.EVAL_MODE,
            scope,
            unnoted=True,
            only=WHOLE_MODULES,
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
]
