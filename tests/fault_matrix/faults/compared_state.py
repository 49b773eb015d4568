"""BN601, BN602, BN603, BN604, BN607, BN608: what a comparison with the healthy net says of norms that moved.

Each is compared in its own kind of file; what all of them hold also with a state dict, as it was trained, and with a
pickled module. A live module is run beside its baseline, so that its outputs differ, too (BN606).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from fault_matrix.faults.configuration import momentum, synchronized, that_train, without_statistics
from fault_matrix.faults.modes import left_in_training_mode
from fault_matrix.faults.places import replace
from fault_matrix.faults.saved_state import STATES, several
from fault_matrix.values import Facet, Fault, Planting, Scope, with_trained_affines
from torch import nn

from bnaudit.results import Severity

MODULES = frozenset({"pickled module", "scripted", "traced", "live module"})
FILES = frozenset({"state dict", "safetensors", "pickled module", "scripted", "traced", "exported", "ONNX"})
_VALUES = frozenset({Facet.STATISTICS, Facet.NAMES})
_BASELINES = {"": "same", " against a state dict": "state dict", " against a pickled module": "pickled module"}
_EVERYWHERE = (Scope.ALL, Scope.ONE, Scope.CHANNEL)


def wide(net: nn.Module) -> list[str]:
    """Norms with trained affines of three channels or more: of fewer nobody tells a common factor from drift."""
    return [name for name in with_trained_affines(net) if net.get_submodule(name).num_features > 2]


def with_telling_gamma(net: nn.Module) -> list[str]:
    """Those whose gamma is not 1 to rounding in half precision."""
    return [name for name in with_trained_affines(net) if (net.get_submodule(name).weight - 1).abs().max() > 0.02]


def trained_that_train(net: nn.Module) -> list[str]:
    """Norms with trained affines that train() puts into training mode."""
    return [name for name in with_trained_affines(net) if name in that_train(net)]


def move_statistics(planting: Planting, deviations: float, ratio: float) -> None:
    for norm in planting.modules:
        at = planting.channels(norm)
        norm.running_mean[at] += deviations * (norm.running_var[at] + 1e-5).sqrt()
        norm.running_var[at] *= ratio


def move_slightly(planting: Planting, name: str, steps: int) -> None:
    """By so many steps of float32 in every channel. Up to two are what two ways to compute the same leave."""
    for norm in planting.modules:
        at, values = planting.channels(norm), getattr(norm, name).data
        values[at] *= 1.0 + steps * 2.0**-23


def stray_forward(planting: Planting) -> None:
    """One batch in training mode without an optimizer step; whatever moved by it must be named."""
    norms = {name: planting.net.get_submodule(name) for name in that_train(planting.net)}
    before = {name: norm.running_var.clone() for name, norm in norms.items() if _has_trained(norm)}
    planting.net.train()
    with torch.no_grad():
        planting.net(*(value[:16] for value in planting.inputs))
    planting.net.eval()
    moved = (name for name, var in before.items() if not torch.equal(var, planting.net.get_submodule(name).running_var))
    planting.located = tuple(moved)
    planting.also_at = tuple(norms.keys() - before.keys())  # moved, too, and less is known of them: a warning


def _has_trained(norm: Any) -> bool:
    """Whether gamma or beta is not as it was initialised: only then does it show that training ended."""
    return norm.weight is not None and bool((norm.weight != 1).any() or (norm.bias != 0).any())


def lose_buffers(planting: Planting) -> None:
    for norm in planting.modules:
        norm.reset_running_stats()


def swap_buffers(planting: Planting) -> None:
    """A conversion that took one for the other."""
    for norm in planting.modules:
        norm.running_mean, norm.running_var = norm.running_var, norm.running_mean


def add_epsilon(planting: Planting) -> None:
    for norm in planting.modules:
        norm.running_var += 1e-3


def count_on(planting: Planting) -> None:
    """The counter alone."""
    for norm in planting.modules:
        norm.num_batches_tracked += 3


def round_statistics(planting: Planting, dtype: torch.dtype) -> None:
    """A copy in half precision, back in float32."""
    for norm in planting.modules:
        norm.running_mean.copy_(norm.running_mean.to(dtype))
        norm.running_var.copy_(norm.running_var.to(dtype))


def move_affines(planting: Planting) -> None:
    for norm in planting.modules:
        at = planting.channels(norm)
        norm.weight.data[at] *= 1.3
        norm.bias.data[at] += 0.2


def move_all(planting: Planting) -> None:
    """What further training does."""
    move_statistics(planting, 0.4, 1.3)
    move_affines(planting)


def start_anew(planting: Planting) -> None:
    """As built: nothing was loaded into it."""
    for norm in planting.modules:
        norm.reset_parameters()


def scale_statistics(planting: Planting, factor: float) -> None:
    for norm in planting.modules:
        norm.running_mean *= factor
        norm.running_var *= factor


def ignore_gamma(planting: Planting) -> None:
    for norm in planting.modules:
        nn.init.ones_(norm.weight)


def prefix(planting: Planting, text: str) -> None:
    def edit(state: dict[str, Any]) -> None:
        for name in list(state):
            state[f"{text}{name}"] = state.pop(name)

    planting.state_edits.append(edit)


def rename(planting: Planting) -> None:
    """One norm has another name."""
    (layer,) = planting.layers

    def edit(state: dict[str, Any]) -> None:
        for name in list(state):
            if name.startswith(f"{layer}."):
                state[f"{layer}_other{name.removeprefix(layer)}"] = state.pop(name)

    planting.state_edits.append(edit)


def leave_out(planting: Planting) -> None:
    def edit(state: dict[str, Any]) -> None:
        for name in list(state):
            if any(name.startswith(f"{layer}.") for layer in planting.layers):
                del state[name]

    planting.state_edits.append(edit)


def put_in(planting: Planting) -> None:
    """A norm that the baseline does not have."""
    norm = nn.BatchNorm1d(5)
    norm.running_mean.fill_(0.5)
    planting.state_edits.append(
        lambda state: state.update({f"planted.{name}": value for name, value in norm.state_dict().items()})
    )
    planting.located = ("planted",)


def scale_epsilon(planting: Planting, factor: float) -> None:
    for norm in planting.modules:
        norm.eps *= factor


def as_instance_norms(planting: Planting) -> None:
    """The other kind with the same tensors."""
    kinds = {nn.BatchNorm1d: nn.InstanceNorm1d, nn.BatchNorm2d: nn.InstanceNorm2d}
    for name, norm in zip(planting.layers, planting.modules, strict=True):
        other = kinds[type(norm)](norm.num_features, norm.eps, norm.momentum, affine=True, track_running_stats=True)
        other.load_state_dict(norm.state_dict())
        replace(planting.net, name, other.eval())


def of_two_kinds(net: nn.Module) -> list[str]:
    """Batch norms that have an instance norm of the same dimensions and the same tensors."""
    norms = ((name, net.get_submodule(name)) for name in with_trained_affines(net))
    return [name for name, norm in norms if type(norm) in (nn.BatchNorm1d, nn.BatchNorm2d)]


def widen(planting: Planting) -> None:
    """One channel more."""
    for name, norm in zip(planting.layers, planting.modules, strict=True):
        wider = type(norm)(norm.num_features + 1, norm.eps, norm.momentum)
        for key, own in wider.state_dict().items():
            other = norm.state_dict()[key]
            (own[: norm.num_features] if own.dim() else own).copy_(other)
        replace(planting.net, name, wider.eval())


Plant = Callable[[Planting], None]


def _against(
    name: str,
    rule: str,
    plant: Plant,
    severity: Severity | None,
    scopes: tuple[Scope, ...] = (Scope.ALL, Scope.ONE),
    baselines: tuple[str, ...] = tuple(_BASELINES),
    **more: Any,
) -> Iterator[Fault]:
    """The fault in every scope, against every baseline."""
    also = (*more.pop("also", ()), "BN606")
    for words in baselines:
        for scope in scopes:
            shared: dict[str, Any] = {"unnoted": severity is None, **more, "baseline": _BASELINES[words]}
            if words:  # a carrier is not compared with itself twice
                shared["only"] = shared.get("only", frozenset(FILES)) - {_BASELINES[words]}
            yield Fault(f"{name}{words}", rule, plant, severity, scope=scope, also=also, **shared)


def _slightly(name: str, rule: str, field: str, steps: int, severity: Severity | None) -> Iterator[Fault]:
    plant = partial(move_slightly, name=field, steps=steps)
    scope = Scope.ONE if severity is None else Scope.CHANNEL
    return _against(name, rule, plant, severity, (scope,), _BOTH, **_VALUED)


_VALUED: dict[str, Any] = {"targets": with_trained_affines, "needs": _VALUES}
_SAME = ("",)
_BOTH = ("", " against a state dict")
_TOLD = FILES | {"ONNX by dynamo", "live module"}

FAULTS = [
    *_against(
        "statistics moved",
        "BN601",
        partial(move_statistics, deviations=0.5, ratio=1.5),
        Severity.ERROR,
        _EVERYWHERE,
        **_VALUED,
    ),
    *(
        fault
        for name in ("running_mean", "running_var")
        for fault in (
            *_slightly(f"{name} moved by 16 steps of float32", "BN601", name, 16, Severity.ERROR),
            *_slightly(f"{name} moved by one step of float32", "BN601", name, 1, None),
        )
    ),
    *_against(
        "a stray forward in training mode",
        "BN601",
        stray_forward,
        Severity.ERROR,
        (Scope.ALL,),
        **{**_VALUED, "targets": trained_that_train},
    ),
    *_against("statistics lost", "BN601", lose_buffers, Severity.ERROR, baselines=_BOTH, **_VALUED),
    *_against(
        "mean and variance changed places", "BN601", swap_buffers, Severity.ERROR, (Scope.ONE,), _BOTH, **_VALUED
    ),
    *_against("an epsilon in the variance", "BN601", add_epsilon, Severity.ERROR, (Scope.ONE,), _BOTH, **_VALUED),
    *_against("the counter alone", "BN601", count_on, None, baselines=_BOTH, only=_TOLD | STATES),
    *(
        fault
        for dtype in (torch.float16, torch.bfloat16)
        for fault in _against(
            f"statistics rounded to {str(dtype).removeprefix('torch.')}",
            "BN601",
            partial(round_statistics, dtype=dtype),
            None,
            baselines=_BOTH,
            only=_TOLD,
        )
    ),
    *_against("weight and bias moved", "BN602", move_affines, Severity.WARNING, _EVERYWHERE, **_VALUED),
    *_slightly("weight moved by 16 steps of float32", "BN602", "weight", 16, Severity.WARNING),
    *_slightly("weight moved by one step of float32", "BN602", "weight", 1, None),
    *_against("all moved", "BN607", move_all, Severity.NOTE, **_VALUED),
    *_against("as built, nothing loaded", "BN607", start_anew, Severity.WARNING, baselines=_BOTH, **_VALUED),
    *_against(
        "keys with another prefix",
        "BN603",
        partial(prefix, text="backbone."),
        Severity.ERROR,
        (Scope.ALL,),
        _SAME,
        only=STATES,
        whole=True,
    ),
    *_against(
        "one norm renamed",
        "BN603",
        rename,
        Severity.ERROR,
        (Scope.ONE,),
        _SAME,
        targets=several,
        only=STATES,
        whole=True,
    ),
    *_against("norms left out", "BN603", leave_out, Severity.ERROR, (Scope.ONE,), _BOTH, targets=several, only=STATES),
    *_against("a norm too many", "BN603", put_in, Severity.ERROR, (Scope.ALL,), _BOTH, only=STATES),
    *(
        fault
        for text in ("module.", "_orig_mod.", "model.", "module._orig_mod.model.")
        for fault in _against(
            f"prefix {text}", "BN603", partial(prefix, text=text), None, (Scope.ALL,), _BOTH, only=STATES
        )
    ),
    *_against(
        "another epsilon than the baseline",
        "BN604",
        partial(scale_epsilon, factor=100.0),
        Severity.ERROR,
        baselines=("", " against a pickled module"),
        needs=frozenset({Facet.EPSILON}),
        only=_TOLD,  # and not of a folded graph, which keeps the epsilon of the norms that it did not fold
    ),
    *_against(
        "an epsilon larger by a tenth",
        "BN604",
        partial(scale_epsilon, factor=1.1),
        Severity.ERROR,
        (Scope.ONE,),
        ("", " against a pickled module"),
        needs=frozenset({Facet.EPSILON}),
        only=MODULES | {"exported", "ONNX", "ONNX by dynamo", "state dict"},
    ),
    *_against(
        "the baseline's epsilon as a float32",
        "BN604",
        partial(scale_epsilon, factor=1.0 - 2e-8),
        None,
        (Scope.ALL,),
        ("", " against a pickled module"),
        only=MODULES | {"exported", "ONNX", "ONNX by dynamo"},
    ),
    *_against(
        "no tracking where the baseline tracks",
        "BN604",
        without_statistics,
        Severity.ERROR,
        targets=with_trained_affines,
        only=MODULES | STATES | {"exported"},
    ),
    *_against(
        "an instance norm for a batch norm",
        "BN604",
        as_instance_norms,
        Severity.ERROR,
        (Scope.ALL, Scope.ONE),
        _SAME,
        targets=of_two_kinds,
        only=frozenset({"pickled module", "scripted"}),
    ),
    *_against(
        "a channel more",
        "BN604",
        widen,
        Severity.ERROR,
        (Scope.ONE,),
        _SAME,
        targets=of_two_kinds,
        only=STATES | {"pickled module"},
    ),
    *_against(
        "another momentum",
        "BN604",
        partial(momentum, value=0.3, training=False),
        Severity.NOTE,
        (Scope.ALL, Scope.ONE),
        _SAME,
        only=MODULES,
    ),
    *_against(
        "SyncBatchNorm for BatchNorm",
        "BN604",
        synchronized,
        Severity.NOTE,
        (Scope.ONE,),
        _SAME,
        targets=of_two_kinds,
        only=frozenset({"pickled module"}),
    ),
    *_against(
        "left in training mode",
        "BN604",
        left_in_training_mode,
        Severity.NOTE,
        (Scope.ONE,),
        _SAME,
        only=frozenset({"pickled module", "scripted"}),
    ),
    *_against(
        "in training form",
        "BN604",
        left_in_training_mode,
        Severity.ERROR,
        (Scope.ALL, Scope.ONE),
        _SAME,
        also=("BN601",),  # the forward that traces or exports it moves the statistics of the file
        only=frozenset({"traced", "exported", "ONNX"}),
    ),
    *(
        fault
        for factor in (16.0, 2.2, 0.4)
        for fault in _against(
            f"statistics times {factor:g}",
            "BN608",
            partial(scale_statistics, factor=factor),
            Severity.WARNING,
            baselines=_BOTH,
            targets=wide,
            needs=_VALUES,
        )
    ),
    *_against(
        "statistics times 1.9",
        "BN608",
        partial(scale_statistics, factor=1.9),
        None,
        (Scope.ONE,),
        _BOTH,
        targets=wide,
        also=("BN601",),  # a factor below 2 is not told from drift, and what moved is still told
        only=_TOLD,
    ),
    *_against(
        "gamma ignored",
        "BN608",
        ignore_gamma,
        Severity.WARNING,
        baselines=_BOTH,
        **{**_VALUED, "targets": with_telling_gamma},
    ),
]
