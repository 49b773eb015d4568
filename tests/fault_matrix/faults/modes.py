"""BN201, BN203, BN206 and, for what fixes its mode when it is written, BN202: saved, traced, exported in training mode.

Which modules depend on the mode is written out here by class, from what PyTorch's own documentation says of them.
"""

from __future__ import annotations

from typing import Any

import torch
from fault_matrix.faults.places import layers, replace
from fault_matrix.values import Facet, Fault, Planting, Scope
from run_time.run_carriers import quiet
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm

from bnaudit.results import Question, Severity

SAVED = frozenset({"pickled module", "scripted", "live module"})
"""They keep the flag of every module, and what they compute obeys it."""
WITHOUT_FLAGS = frozenset({"state dict", "safetensors"})
FIXING = frozenset({"traced", "exported", "ONNX", "ONNX, folded"})
"""They write the mode into the code or graph. ONNX by dynamo writes norms in inference form whatever their mode is."""
RATE = 0.3


def mode_dependent(net: nn.Module) -> list[str]:
    """Names of the modules that compute something else in training mode."""
    return [name for name, module in net.named_modules() if _depends_on_mode(module)]


def _depends_on_mode(module: Any) -> bool:
    if isinstance(module, (_BatchNorm, _InstanceNorm)):
        return bool(module.track_running_stats) and module.running_mean is not None
    if isinstance(module, _DropoutNd):
        return module.p > 0
    if isinstance(module, nn.RNNBase):
        return module.num_layers > 1 and module.dropout > 0
    if isinstance(module, nn.MultiheadAttention):
        return module.dropout > 0
    return isinstance(module, nn.RReLU) or any(_rate(module, name) > 0 for name in ("rate", "dropout"))


def _rate(module: nn.Module, name: str) -> float:
    """With which probability one of the architectures' own modules drops in training mode: DropPath and Attention."""
    rate = module.__dict__.get(name, 0.0)
    return rate if isinstance(rate, float) else 0.0


def norms_with_modes(net: nn.Module) -> list[str]:
    """Those of them that are batch norms."""
    return [name for name in mode_dependent(net) if isinstance(net.get_submodule(name), _BatchNorm)]


def one_of_several(net: nn.Module) -> list[str]:
    """Those of a net with two or more: one in training mode is then mixed with others in eval mode."""
    names = norms_with_modes(net)
    return names if len(names) > 1 else []


def without_modes(net: nn.Module) -> list[str]:
    """Names of PyTorch's own layers that compute the same in both modes."""
    alike = (nn.Conv1d, nn.Conv2d, nn.Linear, nn.LayerNorm, nn.GroupNorm, nn.ReLU, nn.Identity)
    return [name for name, module in net.named_modules() if type(module) in alike]


def plain_linear(net: nn.Module) -> list[str]:
    """Names of convolutions and linear layers that another module can be put in front of."""
    return [name for name in layers(net) if type(net.get_submodule(name)) in (nn.Conv1d, nn.Conv2d, nn.Linear)]


def in_training_mode(planting: Planting) -> None:
    """`torch.save(model)` in the middle of a training; train() as the net has it, which may keep some norms in eval."""
    planting.in_training_mode = True
    net = planting.net.train()
    planting.located = tuple(
        name
        for name in mode_dependent(net)
        if net.get_submodule(name).training and not (planting.carrier.name == "traced" and _draws_itself(net, name))
    )


def _draws_itself(net: nn.Module, name: str) -> bool:
    """Whether what it drops with is not in a trace, where it is an operator that draws: told at medium confidence."""
    return net.get_submodule(name).__dict__.get("rate") is not None


def left_in_training_mode(planting: Planting) -> None:
    """A layer that was put into the net after eval()."""
    planting.keeps_modes = True
    for module in planting.modules:
        module.train()


def flag_alone(planting: Planting) -> None:
    """Layers that have no modes, never switched to eval."""
    for module in planting.modules:
        module.training = True


def dropout_in_front(planting: Planting, rate: float, training: bool) -> None:
    planting.keeps_modes = True
    for name in planting.layers:
        layer = planting.net.get_submodule(name)
        replace(planting.net, name, nn.Sequential(nn.Dropout(rate).train(training), layer))
    planting.located = tuple(f"{name}.0" for name in planting.layers)


def dropping(planting: Planting) -> None:
    """A dropout left on."""
    dropout_in_front(planting, RATE, training=True)


def dropout_of_nothing(planting: Planting) -> None:
    """A dropout with p = 0, left on."""
    dropout_in_front(planting, 0.0, training=True)


def dropout_at_rest(planting: Planting) -> None:
    """A dropout in eval mode."""
    dropout_in_front(planting, RATE, training=False)


def switched_after_tracing(planting: Planting) -> None:
    """`torch.jit.trace(model.train(), x).eval()`: the flags say eval, the constants say training."""
    for module in planting.modules:
        module.train()
    example = tuple(value[:8].clone() for value in planting.inputs)
    with quiet():
        made: Any = (
            torch.jit.trace(planting.net, example, check_trace=False)
            if planting.carrier.name == "traced"
            else torch.jit.script(planting.net)
        )
    planting.net = made.eval()


_LOADED_AS_IT_IS = {"scripted": Severity.ERROR}
"""A script is the artifact that is served; nothing in it calls eval()."""
_SEEN = ("BN301", "BN302", "BN303", "BN306", "BN401", "BN402", "BN403", "BN404")
"""What a run shows of a graph that trains: it mixes samples, drops, moves statistics, fails for a batch of one."""

FAULTS = [
    *(
        Fault(
            name,
            "BN201",
            plant,
            Severity.WARNING,
            Question.EVAL_MODE,
            scope,
            targets=targets,
            needs=frozenset({Facet.FLAGS}),
            severity_in=_LOADED_AS_IT_IS,
            only=SAVED | WITHOUT_FLAGS,
        )
        for name, plant, scope, targets in (
            ("saved in training mode", in_training_mode, Scope.ALL, mode_dependent),
            ("one module left in training mode", left_in_training_mode, Scope.ONE, mode_dependent),
            ("dropout left on", dropping, Scope.ONE, plain_linear),
        )
    ),
    Fault(
        "layers without modes in training mode",
        "BN201",
        flag_alone,
        None,
        Question.EVAL_MODE,
        Scope.ALL,
        targets=without_modes,
        unnoted=True,
        only=SAVED | FIXING,
    ),
    *(
        Fault(
            name,
            "BN201",
            plant,
            None,
            Question.EVAL_MODE,
            targets=plain_linear,
            unnoted=True,
            only=SAVED | FIXING | {"ONNX by dynamo"},
        )
        for name, plant in (
            ("dropout of nothing left on", dropout_of_nothing),
            ("dropout in eval mode", dropout_at_rest),
        )
    ),
    Fault(
        "written in training mode",
        "BN202",
        in_training_mode,
        Severity.ERROR,
        Question.EVAL_MODE,
        Scope.ALL,
        targets=norms_with_modes,
        only=frozenset({"traced", "exported"}),  # ONNX has no operator for every kind of dropout: norms alone, below
    ),
    Fault(
        "all norms in training form",
        "BN202",
        left_in_training_mode,
        Severity.ERROR,
        Question.EVAL_MODE,
        Scope.ALL,
        targets=norms_with_modes,
        only=FIXING,
    ),
    Fault(
        "one norm in training form",
        "BN202",
        left_in_training_mode,
        Severity.ERROR,
        Question.EVAL_MODE,
        Scope.ONE,
        targets=norms_with_modes,
        only=FIXING,
    ),
    Fault(
        "dropout in training form",
        "BN202",
        dropping,
        Severity.ERROR,
        Question.EVAL_MODE,
        Scope.ONE,
        targets=plain_linear,
        only=FIXING | {"ONNX by dynamo"},
    ),
    *(
        Fault(
            "traced in training mode, then eval()",
            "BN203",
            switched_after_tracing,
            Severity.ERROR,
            Question.EVAL_MODE,
            scope,
            targets=norms_with_modes,
            gone={"scripted": "scripted code reads the flag, so that eval() is obeyed"},
            only=frozenset({"traced", "scripted"}),
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
    *(
        Fault(
            f"{name}, and run",
            rule,
            plant,
            severity,
            Question.EVAL_MODE,
            Scope.ALL,
            targets=norms_with_modes,
            measured=True,
            severity_in=_LOADED_AS_IT_IS,
            also=_SEEN,
            only=only,
        )
        for name, rule, plant, severity, only in (
            ("saved in training mode", "BN201", in_training_mode, Severity.WARNING, SAVED),
            ("all norms in training form", "BN202", left_in_training_mode, Severity.ERROR, FIXING),
            (
                "traced in training mode, then eval()",
                "BN203",
                switched_after_tracing,
                Severity.ERROR,
                frozenset({"traced"}),
            ),
        )
    ),
    Fault(
        "one module in training mode, others in eval mode",
        "BN206",
        left_in_training_mode,
        Severity.NOTE,
        None,
        Scope.ONE,
        targets=one_of_several,
        also=("BN201", "BN202"),
        whole=True,
        only=SAVED | FIXING,
    ),
]
