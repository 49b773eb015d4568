"""BN501 and BN502: weights of norms that do not train while their statistics move, and test-time adaptation."""

from __future__ import annotations

from functools import partial

import torch
from fault_matrix.faults.configuration import that_train
from fault_matrix.faults.places import replace
from fault_matrix.faults.saved_state import WHOLE_MODULES
from fault_matrix.values import Facet, Fault, Planting, Scope
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from bnaudit.results import Question, Severity

_MODES = ("BN201", "BN206")
_BEHIND = ("BN403", "BN404")
"""A norm that lost its weight gives other values to the layers behind it, whose statistics do not fit then."""
_RUN = ("BN301", "BN303", "BN401", "BN403", "BN404")


class Block(nn.Module):
    """A scale, which is a parameter of its own, and a norm without any."""

    def __init__(self, norm: _BatchNorm, trains: bool) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()), requires_grad=trains)
        self.norm = norm

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.scale * x)


def with_affine(net: nn.Module) -> list[str]:
    """Norms with statistics and a weight that train() puts into training mode: some backbones keep theirs in eval."""
    return [name for name in that_train(net) if net.get_submodule(name).weight is not None]


def beside_others(net: nn.Module) -> list[str]:
    """Those of a net that has other parameters that train."""
    norms = {id(value) for name in with_affine(net) for value in net.get_submodule(name).parameters()}
    others = any(value.requires_grad and id(value) not in norms for value in net.parameters())
    return with_affine(net) if others else []


def one_of_several(net: nn.Module) -> list[str]:
    """The same, of a net with two or more such norms."""
    return beside_others(net) if len(beside_others(net)) > 1 else []


def freeze(planting: Planting, training: bool) -> None:
    """`requires_grad_(False)` on norms, and nothing else."""
    planting.in_training_mode = training
    for norm in planting.modules:
        norm.requires_grad_(False)


def freeze_all(planting: Planting) -> None:
    """No parameter trains: an ordinary model, handed on in training mode."""
    planting.in_training_mode = True
    planting.net.requires_grad_(False)


def freeze_without_momentum(planting: Planting) -> None:
    """Frozen norms whose statistics are held by momentum 0."""
    freeze(planting, training=True)
    for norm in planting.modules:
        norm.momentum = 0.0


def freeze_in_eval(planting: Planting) -> None:
    """In training, but for the frozen norms, which stay in eval mode."""
    freeze(planting, training=False)
    planting.net.train()
    for norm in planting.modules:
        norm.eval()


def freeze_beside_a_fresh_head(planting: Planting) -> None:
    """After eval() one more norm was put in, in training mode as every module is born."""
    freeze(planting, training=False)
    fresh = next(name for name in reversed(beside_others(planting.net)) if name not in planting.layers)
    planting.net.get_submodule(fresh).train()


def in_a_block(planting: Planting, trains: bool) -> None:
    """A norm without weight and bias in a block whose parameter is frozen, or trains."""
    planting.in_training_mode = True
    for name, norm in zip(planting.layers, planting.modules, strict=True):
        norm.weight = norm.bias = None
        norm.affine = False
        replace(planting.net, name, Block(norm, trains))
    planting.located = tuple(f"{name}.norm" for name in planting.layers)


def adapting(planting: Planting) -> None:
    """As methods of test-time adaptation configure a net."""
    planting.net.requires_grad_(False)
    for norm in planting.modules:
        norm.requires_grad_(True)
        norm.track_running_stats = False
        norm.running_mean = norm.running_var = None


FAULTS = [
    *(
        Fault(
            "frozen weights, training mode",
            "BN501",
            partial(freeze, training=True),
            Severity.ERROR,
            Question.FROZEN,
            scope,
            targets=beside_others,
            needs=frozenset({Facet.CLASSES}),
            also=(*_MODES, "BN202"),
            only=WHOLE_MODULES | {"scripted", "traced", "state dict"},
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
    *(
        Fault(
            "frozen weights, saved in eval mode and run",
            "BN501",
            partial(freeze, training=False),
            Severity.ERROR,
            Question.FROZEN,
            scope,
            targets=beside_others,
            needs=frozenset({Facet.FLAGS}),  # a script that is loaded knows what trains, too
            measured=True,
            gone={"traced": "train() changes its flags, and no recorded call updates a statistic"},
            only=WHOLE_MODULES | {"scripted", "traced"},
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
    *(
        Fault(
            name,
            "BN501",
            plant,
            Severity.ERROR,
            Question.FROZEN,
            targets=targets,
            needs=frozenset(Facet),  # no file shows it: only train() would tell
            also=also,
            only=frozenset({"pickled module"}),
        )
        for name, plant, targets, also in (
            ("frozen weights, saved in eval mode", partial(freeze, training=False), beside_others, ()),
            ("frozen weights in eval mode beside a fresh head", freeze_beside_a_fresh_head, one_of_several, _MODES),
        )
    ),
    Fault(
        "a frozen block around a norm without weight",
        "BN501",
        partial(in_a_block, trains=False),
        Severity.ERROR,
        Question.FROZEN,
        targets=beside_others,
        needs=frozenset({Facet.CLASSES}),
        also=(*_MODES, *_BEHIND),
        only=WHOLE_MODULES,
    ),
    Fault(
        "a block that trains around a norm without weight",
        "BN501",
        partial(in_a_block, trains=True),
        None,
        Question.FROZEN,
        targets=beside_others,
        also=(*_MODES, *_BEHIND),
        unnoted=True,
        only=WHOLE_MODULES,
    ),
    Fault(
        "no parameter trains",
        "BN501",
        freeze_all,
        None,
        Question.FROZEN,
        Scope.ALL,
        targets=with_affine,
        also=_MODES,
        unnoted=True,
        only=WHOLE_MODULES | {"scripted"},
    ),
    Fault(
        "frozen weights and momentum 0",
        "BN501",
        freeze_without_momentum,
        None,
        Question.FROZEN,
        targets=beside_others,
        also=(*_MODES, "BN208"),
        unnoted=True,
        only=WHOLE_MODULES,
    ),
    Fault(
        "frozen norms kept in eval mode in training",
        "BN501",
        freeze_in_eval,
        None,
        Question.FROZEN,
        targets=beside_others,
        also=_MODES,
        unnoted=True,
        only=frozenset({"pickled module"}),  # a live one is asked to train(), which would switch them
    ),
    *(
        Fault(
            "set up for test-time adaptation",
            "BN502",
            adapting,
            Severity.NOTE,
            Question.NEIGHBOURS,
            scope,
            targets=with_affine,
            needs=frozenset({Facet.CLASSES}),
            instead=("BN301",),
            # The norms that are frozen move theirs while it adapts; of a SyncBatchNorm BN210 tells what BN204 would.
            also=("BN204", "BN210", "BN501", *_RUN),
            only=WHOLE_MODULES,
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
]
