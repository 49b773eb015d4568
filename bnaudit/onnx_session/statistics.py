"""Statistics of batch norms inside an edited copy: moments of every sample, of the batch, and norms that use them.

Reduced in float64 about the mean itself, E[(x − m)²], never E[x²] − m², which cancels. The variance is biased.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray

from bnaudit.onnx_session.copies import Copy
from bnaudit.onnx_session.survey import NormNode

DOUBLE = onnx.TensorProto.DOUBLE
MEAN, VAR = 3, 4
"""Inputs of BatchNormalization."""


class Moments(NamedTuple):
    """Names of values in a copy."""

    mean: str
    """(samples, channels, 1)"""
    var: str


def sample_moments(copy: Copy, norm: NormNode) -> Moments:
    """Mean and biased variance of every sample and channel of what a norm over (N, C, …) receives."""
    before = norm.number
    wide = copy.cast(before, norm.data, DOUBLE)
    flat = copy.add(before, "Reshape", [wide, copy.constant([0, 0, -1])])
    mean = copy.mean(before, flat, 2)
    deviation = copy.add(before, "Sub", [flat, mean])
    var = copy.mean(before, copy.add(before, "Mul", [deviation, deviation]), 2)
    return Moments(mean, var)


def give_training_form(copy: Copy, norm: NormNode, moments: Moments) -> None:
    """Let an inference-form BatchNormalization normalize with the mean and biased variance of its batch.

    The node stays and its statistics become computed ones: onnxruntime's training form drifts from run to run where
    its gamma equals its variance, and fuses with other kernels.
    """
    before = norm.number
    mean = copy.mean(before, moments.mean, 0)
    deviation = copy.add(before, "Sub", [moments.mean, mean])
    spread = copy.add(before, "Add", [moments.var, copy.add(before, "Mul", [deviation, deviation])])
    var = copy.mean(before, spread, 0)
    _use(copy, copy.original(norm.number), norm, mean, var)


def hold(copy: Copy, norm: NormNode) -> tuple[Moments, str]:
    """Let everything behind a BatchNormalization see it in inference form with statistics that are given as inputs.

    Returns the names of the inputs, float64 (C,), and the one that the node's own result now has.
    """
    own = copy.original(norm.number)
    held = onnx.NodeProto()
    held.CopyFrom(own)
    name = own.output[0]
    own.output[0] = copy.fresh("own")
    held.name = copy.fresh("held")
    del held.output[1:]
    kept = [attribute for attribute in held.attribute if attribute.name not in ("training_mode", "is_test")]
    del held.attribute[:]
    held.attribute.extend(kept)
    held.output[0] = name
    given = Moments(*(copy.take_in(what, DOUBLE, [None]) for what in ("mean", "var")))
    _use(copy, held, norm, given.mean, given.var)
    copy.place(norm.number + 1, held)
    return given, own.output[0]


def _use(copy: Copy, node: onnx.NodeProto, norm: NormNode, mean: str, var: str) -> None:
    """Put float64 statistics of any shape in the place of a node's own, in their type."""
    for index, value in ((MEAN, mean), (VAR, var)):
        flat = copy.add(norm.number, "Reshape", [value, copy.constant([-1])])
        if copy.opset >= 15:
            node.input[index] = copy.add(norm.number, "CastLike", [flat, node.input[index]])
        else:
            node.input[index] = copy.cast(norm.number, flat, _dtype(norm))


def _dtype(norm: NormNode) -> int:
    """Of the statistics; before opset 15 all inputs of the node have one type."""
    stored = next((tensor.dtype for tensor in norm.layer.tensors), "float32")
    types = {"float16": onnx.TensorProto.FLOAT16, "float64": DOUBLE, "bfloat16": onnx.TensorProto.BFLOAT16}
    return int(types.get(stored, onnx.TensorProto.FLOAT))


def merged(mean: NDArray[np.float64], var: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and biased variance (channels,) of a batch from those of its samples (samples, channels), equally large."""
    whole = mean.mean(axis=0)
    return whole, var.mean(axis=0) + np.square(mean - whole).mean(axis=0)
