"""BN401: norms that still use the batch after eval(), and dropouts that still drop."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from fault_matrix.faults.places import (
    NOT_DYNAMO,
    NOT_OLDER_ONNX,
    NOT_SCRIPTED,
    Symptom,
    always,
    differs_in_a_row,
    layers,
    moves_anchors,
    plant_where_it_shows,
    put_behind,
    replace,
    runs,
    without_padding,
)
from fault_matrix.values import OF_IMAGES, Facet, Fault, Planting, Scope, tracked
from torch import nn

from bnaudit.results import Question, Severity

_RUNS = frozenset({Facet.FORWARD, Facet.RUNS})
IN_THE_CODE = ("BN202", "BN203", "BN211")
"""What the file alone says where the mode is written into its code or graph."""

_WRITTEN_ANEW = {"ONNX by dynamo": "the exporter writes every norm that has statistics in inference form"}


class _Functional:
    """Calls batch norm by hand, and always with training=True."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, True, self.momentum, self.eps
        )


class Functional1d(nn.BatchNorm1d):
    forward = _Functional.forward


class Functional2d(nn.BatchNorm2d):
    forward = _Functional.forward


class _Blended:
    """A ten-thousandth of the batch's own normalization in what eval mode gives."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        mean, var = self.running_mean, self.running_var
        y = F.batch_norm(x, mean, var, self.weight, self.bias, False, self.momentum, self.eps)
        z = F.batch_norm(x, mean.clone(), var.clone(), self.weight, self.bias, True, self.momentum, self.eps)
        return y + 1e-4 * (z - y)


class Blended1d(nn.BatchNorm1d):
    forward = _Blended.forward


class Blended2d(nn.BatchNorm2d):
    forward = _Blended.forward


class _Stubborn:
    """Its train() ignores what it is told."""

    def train(self: Any, mode: bool = True) -> Any:
        return nn.Module.train(self, True)


class Stubborn1d(_Stubborn, nn.BatchNorm1d):
    pass


class Stubborn2d(_Stubborn, nn.BatchNorm2d):
    pass


class MadeInForward(nn.Module):
    """Makes a norm anew in every forward, out of eval()'s reach; gamma and beta stay."""

    def __init__(self, norm: Any) -> None:
        super().__init__()
        shape = (-1, *[1] * (2 if isinstance(norm, OF_IMAGES) else 0))
        self.gain, self.offset = (nn.Parameter(value.detach().reshape(shape)) for value in (norm.weight, norm.bias))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.ndim == 3:
            return nn.BatchNorm1d(x.shape[1], affine=False)(x) * self.gain.unsqueeze(1) + self.offset.unsqueeze(1)
        kind = nn.BatchNorm2d if x.ndim == 4 else nn.BatchNorm1d
        return kind(x.shape[1], affine=False)(x) * self.gain + self.offset


class Hidden(nn.Module):
    """Holds its norm in a plain list, where eval() does not find it."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norms = [norm.train().requires_grad_(False)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norms[0](x)


class AlwaysDropping(nn.Module):
    """Dropout called without its flag, whose default is True."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, self.share)


class AlwaysDroppingChannels(nn.Module):
    """Dropout of whole channels without its flag, each feature a channel of one value."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout1d(x.flatten(1).unsqueeze(2), 0.05, True).reshape(x.shape)


class NormOfEachSample(nn.Module):
    """The operator of batch norm in training form, on (1, N, F): each sample by itself."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1e-3 * F.batch_norm(x.unsqueeze(0), None, None, None, None, True).squeeze(0)


class ScaledByItsWeight(nn.Module):
    """Standardizes a weight with the operator of batch norm in training form."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = F.batch_norm(self.weight.unsqueeze(0), None, None, None, None, True)
        return x * (1 + 1e-3 * rows.mean())


def using_statistics(net: nn.Module) -> list[str]:
    """The plain batch norms with statistics whose gain lets their answer depend on what they receive."""
    norms = ((name, net.get_submodule(name)) for name in tracked(net))
    return [
        name
        for name, norm in norms
        if type(norm) in (nn.BatchNorm1d, nn.BatchNorm2d) and norm.weight is not None and bool(norm.weight.any())
    ]


def becoming(one: type[nn.Module], two: type[nn.Module], shows: Symptom = always) -> Callable[[Planting], None]:
    """The chosen norms become of these classes, for (N, C) or (N, C, L) and for (N, C, H, W).

    One chosen norm is the next where it shows: behind some a gain of 0 hides it from the outputs.
    """

    def plant(planting: Planting) -> None:
        names = using_statistics(planting.net)
        if planting.scope is Scope.ALL:
            planting.net = _become(planting.net, names, one, two)
            return
        plant_where_it_shows(planting, names, lambda name: _become(planting.net, [name], one, two), shows)

    return plant


def _become(net: nn.Module, names: Iterable[str], one: type[nn.Module], two: type[nn.Module]) -> nn.Module:
    damaged = copy.deepcopy(net)
    for name in names:
        norm: Any = damaged.get_submodule(name)
        norm.__class__ = two if isinstance(norm, OF_IMAGES) else one
    return damaged.eval()


def made_in_forward(planting: Planting) -> None:
    for name in planting.layers:
        replace(planting.net, name, MadeInForward(planting.net.get_submodule(name)))
    if planting.carrier.holds(Facet.CLASSES):
        planting.located = tuple(f"<made in forward of {name}>" for name in planting.layers)


def hidden(planting: Planting) -> None:
    for name in planting.layers:
        replace(planting.net, name, Hidden(planting.net.get_submodule(name)))
    if planting.carrier.holds(Facet.CLASSES):
        planting.located = tuple(f"{name}.norms[0]" for name in planting.layers)


def behind(make: Callable[[], nn.Module], shows: Symptom) -> Callable[[Planting], None]:
    return lambda planting: put_behind(planting, lambda shape: make(), shows)


def _norm(name: str, plant: Callable[[Planting], None], *, scope: Scope = Scope.ONE, **more: Any) -> Fault:
    fields = {
        "question": Question.EVAL_MODE,
        "needs": _RUNS,
        "measured": True,
        "instead": IN_THE_CODE,
        "gone": _WRITTEN_ANEW,
        **more,
    }
    return Fault(name, "BN401", plant, Severity.ERROR, scope=scope, targets=using_statistics, **fields)


def _dropping(
    name: str, make: Callable[[], nn.Module], severity: Severity | None, shows: Symptom | None = None, **more: Any
) -> Fault:
    return Fault(
        name,
        "BN401",
        behind(make, shows or (differs_in_a_row if severity else always)),
        severity,
        Question.EVAL_MODE,
        needs=_RUNS,
        measured=True,
        # An exporter that spells dropout out writes a comparison with random numbers, which BN302 tells.
        instead=(*IN_THE_CODE, "BN302") if severity else (),
        **{"targets": layers, **more},
    )


FAULTS = [
    *(
        _norm(f"training=True{words}", becoming(Functional1d, Functional2d, shows), scope=scope, question=question)
        for scope in (Scope.ALL, Scope.ONE)
        for words, question, shows in (
            ("", Question.EVAL_MODE, always),
            (", beside its neighbours", Question.NEIGHBOURS, moves_anchors),
        )
    ),
    *(
        _norm(
            "training=True, a ten-thousandth",
            becoming(Blended1d, Blended2d),
            scope=scope,
            also=("BN302",),  # onnxruntime's training form moves, in its session, the statistics that both forms share
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
    *(
        _norm(
            "train() overridden",
            becoming(Stubborn1d, Stubborn2d),
            scope=scope,
            also=("BN501",),  # where weights are frozen, that is a norm in training mode
            instead=(*IN_THE_CODE, "BN201"),  # a script has the flag, but not the method: there eval() works
        )
        for scope in (Scope.ALL, Scope.ONE)
    ),
    _norm(
        "norm made in forward",
        made_in_forward,
        only=NOT_SCRIPTED & NOT_DYNAMO,  # dynamo writes an inference form with the statistics of a fresh norm
        also=("BN307",),  # onnxruntime's optimizations get a variance wrong that equals gamma
    ),
    _norm("norm in a plain list", hidden, only=NOT_SCRIPTED & NOT_DYNAMO, instead=(*IN_THE_CODE, "BN207")),
    _dropping("dropout without its flag", partial(AlwaysDropping, 0.05), Severity.ERROR),
    _dropping("channels dropped without a flag", AlwaysDroppingChannels, Severity.ERROR, only=NOT_OLDER_ONNX),
    _dropping("dropout without its flag at p = 0", partial(AlwaysDropping, 0.0), None),
    _dropping(
        "batch norm's operator on each sample by itself",
        NormOfEachSample,
        None,
        shows=runs,
        targets=without_padding,
        only=NOT_OLDER_ONNX,  # "batch_norm for unknown channel size"
    ),
    _dropping("batch norm's operator on a weight", ScaledByItsWeight, None),
]
