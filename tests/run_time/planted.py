"""Defects planted in running networks: what each is, in which carriers it lives on, and what an audit must say."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from run_time import more_nets as more
from run_time.run_carriers import MODULES, SCRIPTS
from run_time.subjects_of_runs import Build, Inputs, fitted, images, middle, sentences, small_weights
from torch import nn

from sample_models import digit_defects as nets
from sample_models.digits import build_plain_list
from sample_models.small_digits import SmallNet, build_small

TORCH = (*MODULES, *SCRIPTS, "exported")
ALL = (*TORCH, "onnx")
EVERYWHERE = (*ALL, "onnx by dynamo")
CONSTANT_IN_CODE = ("BN202", "BN203", "BN204", "BN211")
"""What the file alone says where the mode is written in its code or graph."""


class Planted(NamedTuple):
    """One defect. Built in eval mode, on inputs that show it."""

    name: str
    build: Build
    rules: tuple[str, ...]
    """One of them must name the layer."""
    layer: str | None
    """The module, or a tensor's name; None: the whole artifact, or a place without a name."""
    fails: tuple[str, ...]
    """Questions that must fail; others may."""
    carriers: tuple[str, ...]
    symptom: str
    """What running it directly shows: `swap`, `repeat` (from the same state), `history`, `one` (a batch of one),
    `rows` (equal rows), `statistics`, `state`, `none`."""
    inputs: Callable[[], Inputs] = images
    alone: bool = False
    """Only the named layer may be named by these rules."""
    also: tuple[str, ...] = ()
    """Rules that may speak of what the defect brings with it; no other rule may, at warning or above."""
    nameless: tuple[str, ...] = ()
    """Carriers in which the place has no module's name."""


NEIGHBOURS = ("neighbours",)
EVAL_MODE = ("eval-mode",)
LEAK = ("eval-mode", "neighbours")
NAMELESS = (*SCRIPTS, "onnx by dynamo")
"""TorchScript shows no modules to those who watch it, and the newer exporter names nodes by their operators."""
GAP = ("train-eval-gap",)


def _stale(layer: str, sd: float = 0.0, factor: float = 1.0) -> nn.Module:
    net = fitted(build_small)
    norm = net.get_submodule(layer)
    norm.running_mean += sd * norm.running_var.sqrt()
    norm.running_var *= factor
    return net


def _quantized() -> nn.Module:
    return torch.ao.quantization.quantize_dynamic(fitted(build_small), {nn.Linear}, dtype=torch.qint8)


def _frozen_twin() -> nn.Module:
    return small_weights(nets.build_frozen_twin)


def _in_middle(name: str, module: Callable[[], nn.Module], rule: str, symptom: str, *carriers: str) -> Planted:
    return Planted(name, middle(module), (rule,), "middle", NEIGHBOURS, carriers or ALL, symptom, nameless=NAMELESS)


LEAKS = [
    Planted(
        "functional norm",
        partial(fitted, nets.build_functional),
        ("BN401", *CONSTANT_IN_CODE),
        "bn2",
        LEAK,
        ALL,
        "swap",
    ),
    Planted(
        "hand-made norm",
        partial(fitted, nets.build_hand_made),
        ("BN401", "BN301", *CONSTANT_IN_CODE),
        "bn2",
        NEIGHBOURS,
        (*TORCH, "onnx by dynamo"),
        "swap",
    ),
    Planted(
        "norm made in forward",
        partial(fitted, nets.build_norm_in_forward),
        ("BN401", *CONSTANT_IN_CODE),
        None,
        LEAK,
        (*MODULES, "traced", "exported", "onnx"),
        "swap",
        also=("BN307",),  # onnxruntime's optimizations get a variance wrong that equals gamma
    ),
    Planted(
        "train() overridden",
        partial(fitted, nets.build_stubborn),
        ("BN401", *CONSTANT_IN_CODE),
        "bn2",
        LEAK,
        (*MODULES, "traced", "exported", "onnx"),
        "swap",
    ),
    Planted(
        "norms in a plain list",
        partial(fitted, build_plain_list),
        ("BN401", "BN207"),
        "norms[1]",
        LEAK,
        MODULES,
        "swap",
    ),
    Planted(
        "untracked norm",
        partial(fitted, nets.build_one_untracked),
        ("BN301", "BN204", "BN211"),
        "bn2",
        NEIGHBOURS,
        (*TORCH, "onnx by dynamo"),
        "swap",
    ),
    Planted(
        "dropout without its flag",
        partial(fitted, nets.build_always_dropping),
        ("BN401", *CONSTANT_IN_CODE),
        "fc",
        EVAL_MODE,
        EVERYWHERE,
        "repeat",
    ),
]

MIXING = [
    _in_middle("softmax over the batch", lambda: nets.BatchSoftmax(32), "BN301", "swap", *EVERYWHERE),
    _in_middle("attention over the batch", lambda: nets.BatchAttention(32), "BN301", "swap"),
    _in_middle("cumulative mean over the batch", nets.RunningMean, "BN301", "swap"),
    _in_middle("LSTM along the batch", partial(nets.ReadAlongBatch), "BN301", "swap", *MODULES, "traced", "onnx"),
    _in_middle("scaled by the batch's largest", more.LargestOfBatch, "BN301", "swap"),
    _in_middle("centred by the batch", more.Centred, "BN301", "swap"),
    _in_middle("the row before", more.Rolled, "BN301", "swap"),
    _in_middle("the rank in the batch", more.Rank, "BN301", "swap", *TORCH),
    Planted(
        "minibatch spread",
        partial(fitted, nets.build_minibatch_spread),
        ("BN301",),
        "middle",
        NEIGHBOURS,
        ALL,
        "swap",
        nameless=NAMELESS,
    ),
    Planted("dynamic quantization", _quantized, ("BN301",), "fc", NEIGHBOURS, ("live",), "swap"),
    Planted(
        "the second answer mixes",
        partial(small_weights, partial(more.TwoAnswers, True)),
        ("BN301",),
        None,
        NEIGHBOURS,
        ("live", "pickled", "exported"),
        "none",
    ),
    Planted(
        "token ids taken for time",
        partial(small_weights, partial(more.Tokens, True)),
        ("BN301",),
        "encoder",
        NEIGHBOURS,
        MODULES,
        "swap",
        sentences,
    ),
]

RANDOM = [
    Planted("noise", partial(fitted, nets.build_noisy), ("BN302",), None, EVAL_MODE, ALL, "repeat"),
    Planted(
        "samples a mixture", middle(more.Sampled), ("BN302",), "middle", EVAL_MODE, (*MODULES, "exported"), "repeat"
    ),
    Planted(
        "random slopes",
        middle(more.RandomSlopes),
        ("BN302", "BN401", "BN202"),
        "middle",
        EVAL_MODE,
        (*MODULES, "exported"),
        "repeat",
        also=("BN301",),  # it draws for negative values only, so that companions decide what an anchor draws
    ),
]

SIZES = [
    Planted(
        "squeezed batch axis",
        partial(small_weights, nets.build_squeezing),
        ("BN303",),
        None,
        NEIGHBOURS,
        (*MODULES, "scripted"),
        "one",
    ),
    Planted("one is special", middle(more.OneIsSpecial), ("BN303",), None, NEIGHBOURS, (*MODULES, "scripted"), "one"),
    Planted(
        "one raises",
        middle(more.NormedByBatch),
        ("BN303", "BN401", "BN204"),
        None,
        NEIGHBOURS,
        (*MODULES, "scripted"),
        "one",
    ),
    _in_middle("the row's number", nets.RowNumber, "BN305", "rows")._replace(layer=None),
]

STATE = [
    Planted(
        "carried in an attribute",
        partial(small_weights, nets.build_carrying),
        ("BN306",),
        None,
        EVAL_MODE,
        (*MODULES, "scripted"),
        "history",
    ),
    Planted("calls counted", middle(more.CallCounter), ("BN306",), None, EVAL_MODE, MODULES, "history"),
    Planted(
        "a list that grows", middle(more.HistoryList), ("BN306",), None, EVAL_MODE, MODULES, "history", also=("BN301",)
    ),
    Planted(
        "a buffer that moves",
        partial(small_weights, nets.build_centering),
        ("BN402", "BN306"),
        None,
        EVAL_MODE,
        (*MODULES, "scripted", "exported"),
        "history",
    ),
    Planted(
        "a mean that adapts",
        partial(small_weights, lambda: SmallNet(second=more.AdaptingNorm)),
        ("BN402", "BN306"),
        "bn2",
        EVAL_MODE,
        MODULES,
        "history",
    ),
    Planted(
        "a weight that moves", middle(more.MovingWeight), ("BN402", "BN306"), "middle", EVAL_MODE, MODULES, "history"
    ),
]

STATISTICS = [
    Planted(
        f"{layer} {what}",
        partial(_stale, layer, sd, factor),
        ("BN404",),
        layer,
        GAP,
        carriers,
        "none",
        alone=True,
        also=("BN403",),
    )
    for layer, what, sd, factor, carriers in (
        ("bn1", "1 sd off", 1.0, 1.0, MODULES),
        ("bn2", "1 sd off", -1.0, 1.0, (*ALL, "onnx by dynamo")),
        ("bn1", "factor 4", 0.0, 4.0, ALL),
        ("bn2", "a quarter", 0.0, 0.25, MODULES),
    )
] + [
    Planted(
        "two populations",
        partial(fitted, nets.build_reused_norm),
        ("BN407", "BN404"),
        "bn1",
        GAP,
        ALL,
        "none",
        also=("BN403",),
    ),
    Planted(
        "one value per statistic", partial(fitted, nets.build_constant_gate), ("BN406",), "middle", (), ALL, "none"
    ),
    Planted("frozen twin", _frozen_twin, ("BN501",), "bn1", ("frozen",), MODULES, "none"),
]

PLANTED = [*LEAKS, *MIXING, *RANDOM, *SIZES, *STATE, *STATISTICS]
"""Every planted defect."""
