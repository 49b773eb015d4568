"""Healthy networks that look odd when they run, or odd ones whose oddness is meant: nothing may be said aloud."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from run_time import more_nets as more
from run_time.run_carriers import MODULES, SCRIPTS
from run_time.subjects_of_runs import Build, Inputs, digits, fitted, images, middle, sentences, small_weights
from torch import nn
from torch.nn.utils import prune

from sample_models import digit_controls as nets
from sample_models import digit_defects as defects
from sample_models.digits import build, build_group_norm
from sample_models.small_digits import SmallNet, build_small
from sample_models.write_running_controls import with_perfect_statistics

TORCH = (*MODULES, *SCRIPTS, "exported")
ALL = (*TORCH, "onnx")
EVERYWHERE = (*ALL, "onnx by dynamo")
FREE = (*TORCH, "onnx by dynamo")
"""The older exporter wants the batch size of an instance norm that tracks its statistics."""


class Control(NamedTuple):
    """One model, in eval mode unless it says otherwise."""

    name: str
    build: Build
    carriers: tuple[str, ...]
    inputs: Callable[[], Inputs] = images
    intended: tuple[tuple[str, str], ...] = ()
    run: tuple[tuple[str, Any], ...] = ()
    """More options of the run."""
    open: tuple[str, ...] = ()
    """Questions that may stay undecided, beside those that the carrier leaves open."""
    quiet: bool = True
    """It has no symptom at all when it runs by itself; False: one that is meant."""


def _norms(net: nn.Module) -> list[nn.BatchNorm2d]:
    return [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]


def _perfect(statistics_of: Build = build_small) -> Any:
    net = fitted(statistics_of)
    with_perfect_statistics(net, digits().inputs)
    return net


def _dead_channels() -> Any:
    net = fitted(build_small)
    for norm in _norms(net):
        norm.weight.data[:2] = 0
        norm.bias.data[:2] = 0
    net.conv1.weight.data[2] = 0
    net.conv1.bias.data[2] = 0
    with_perfect_statistics(net, digits().inputs)
    return net


def _pruned() -> Any:
    net = fitted(build_small)
    for module in (net.conv1, net.conv2):
        prune.l1_unstructured(module, "weight", 0.3)
        prune.remove(module, "weight")
    with_perfect_statistics(net, digits().inputs)
    return net


def _absorbed() -> Any:
    """Converted as Caffe2's frozen norms are: mean 0, variance 1, and what they were in weight and bias."""
    net = fitted(build_small)
    for norm in _norms(net):
        gain = norm.weight.data / (norm.running_var + norm.eps).sqrt()
        norm.bias.data -= norm.running_mean * gain
        norm.weight.data = gain * (1 + norm.eps) ** 0.5
        norm.running_mean.zero_()
        norm.running_var.fill_(1)
        norm.num_batches_tracked = None
    return net


def _zero_gammas() -> Any:
    return fitted(_zero_gamma_net)


def _zero_gamma_net() -> nn.Module:
    return SmallNet(second=_second_of_zero)


def _second_of_zero(channels: int) -> nn.Module:
    return nn.Sequential(nn.BatchNorm2d(channels), more.LearnableScale())


def _instance(affine: bool, tracking: bool) -> Build:
    return _INSTANCE[affine, tracking]


def _instance_net(affine: bool, tracking: bool) -> nn.Module:
    return SmallNet(partial(nn.InstanceNorm2d, affine=affine, track_running_stats=tracking))


_INSTANCE = {
    (affine, tracking): partial(_instance_net, affine, tracking)
    for affine in (False, True)
    for tracking in (False, True)
}


def _in(dtype: torch.dtype, factory: Build) -> Any:
    return fitted(factory).to(dtype)


def _images_in(dtype: torch.dtype) -> Inputs:
    return (images()[0].to(dtype),)


def _spelled() -> nn.Module:
    net = SmallNet()
    net.conv2 = more.SpelledStandardizedConv2d(8, 8, 3, stride=2, padding=1)
    return net


def _two_inputs() -> Inputs:
    return (*images(), torch.randn(48, 2, generator=torch.Generator().manual_seed(1)))


def _compiled_away() -> Any:
    """Folded by hand: identity norms."""
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    net = fitted(build)
    net.conv1, net.bn1 = fuse_conv_bn_eval(net.conv1, net.bn1), nn.Identity()
    for block in (net.layer1[0], net.layer2[0]):
        block.conv1, block.bn1 = fuse_conv_bn_eval(block.conv1, block.bn1), nn.Identity()
        block.conv2, block.bn2 = fuse_conv_bn_eval(block.conv2, block.bn2), nn.Identity()
    shortcut = net.layer2[0].downsample
    net.layer2[0].downsample = fuse_conv_bn_eval(shortcut[0], shortcut[1])
    return net


def _encoder() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(2), nn.TransformerEncoderLayer(64, 4, 64, batch_first=True), nn.Flatten(), nn.Linear(64, 10)
    )


GAP = ("train-eval-gap",)

CONTROLS = [
    Control("small", partial(fitted, build_small), EVERYWHERE),
    Control("residual", partial(fitted, build), ALL),
    Control("folded", _compiled_away, ("live", "scripted", "onnx"), open=("buffers", *GAP)),
    Control("without norms", partial(fitted, more.WithoutNorms), EVERYWHERE),
    Control("group norm", partial(fitted, build_group_norm), ALL),
    Control("weight standardization", partial(fitted, nets.build_standardized), EVERYWHERE),
    Control("weight standardization, spelled", partial(fitted, _spelled), ALL),
    *(
        Control(
            f"instance norm{', affine' * affine}{', tracking' * tracking}",
            partial(fitted, _instance(affine, tracking)),
            FREE if tracking else EVERYWHERE,
        )
        for affine, tracking in _INSTANCE
    ),
    Control("rotary transformer", partial(fitted, nets.build_rotary), (*MODULES, "traced", "exported", "onnx")),
    Control("encoder", partial(fitted, _encoder), (*MODULES, "exported")),
    Control("mixture of experts", partial(fitted, nets.build_experts), (*MODULES, "scripted", "onnx")),
    Control("wide experts", middle(more.WideExperts), ("live", "scripted", "onnx")),
    Control("LSTM", partial(fitted, nets.build_reading), ALL),
    Control("shared head", partial(fitted, nets.build_shared_head), ALL),
    Control("frozen backbone", partial(small_weights, nets.build_frozen_backbone), MODULES),
    Control("zero-init gammas", _zero_gammas, ALL),
    Control("dead channels", _dead_channels, ALL),
    Control("pruned", _pruned, ("live", "onnx")),
    Control("absorbed statistics", _absorbed, ("live", "onnx", "onnx by dynamo"), open=("buffers", *GAP)),
    *(
        Control(f"perfect statistics, batch {size}", _perfect, ("live", "onnx"), run=(("batch_size", size),), open=GAP)
        for size in (4, 8, 16, 32)
    ),
    *(
        Control(
            f"{str(dtype).removeprefix('torch.')}, {name}",
            partial(_in, dtype, factory),
            ("live", "scripted"),
            partial(_images_in, dtype),
            open=GAP,
        )
        for dtype in (torch.float16, torch.bfloat16)
        for name, factory in (("small", build_small), ("residual", build), ("group norm", build_group_norm))
    ),
    Control("float64", partial(_in, torch.float64, build), ("live",), partial(_images_in, torch.float64)),
    Control(
        "Monte-Carlo dropout, intended",
        partial(fitted, nets.build_monte_carlo),
        ALL,
        intended=(("BN302", "*"), ("BN401", "*"), ("BN202", "middle*"), ("BN203", "middle*")),
        quiet=False,
    ),
    Control(
        "streaming, intended",
        partial(small_weights, defects.build_carrying),
        (*MODULES, "scripted"),
        intended=(("BN306", "*"),),
        quiet=False,
    ),
    Control("counts its forwards", partial(small_weights, more.CallsInBuffer), MODULES),
    Control("tokens with padding", partial(small_weights, more.Tokens), MODULES, sentences),
    Control("packed sequences", partial(small_weights, more.Packed), MODULES, sentences),
    Control("labels only", partial(small_weights, more.Labels), ALL, open=("neighbours", *GAP)),
    Control("scores and labels", partial(small_weights, more.Detector), ALL),
    Control("a dict of answers", partial(small_weights, partial(more.TwoAnswers, False)), (*MODULES, "exported")),
    Control("two inputs", partial(small_weights, more.PixelAndPlace), EVERYWHERE, _two_inputs),
    Control("fresh", lambda: build_small().eval(), ("live",), open=("buffers", *GAP)),
]
"""Every control."""
