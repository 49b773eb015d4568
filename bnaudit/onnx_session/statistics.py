"""Statistics of batch norms inside an edited copy: moments of every sample, of the batch, and norms that use them.

Reduced in float64 about the mean itself, E[(x − m)²], never E[x²] − m², which cancels. The variance is biased.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray

from bnaudit.onnx_session.bodies import MEAN, VAR, Body
from bnaudit.onnx_session.copies import Copy
from bnaudit.onnx_session.survey import NormNode

DOUBLE = onnx.TensorProto.DOUBLE


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


def hold_body(copy: Copy, norm: NormNode, body: Body) -> tuple[Moments, dict[str, str]]:
    """The same for a norm that is spelled out: its nodes stay, and a second set of them works with what is given.

    Returns the names of the inputs, and for every value of the norm the name that its own result now has.
    """
    own = {name: copy.fresh("own") for number in body.numbers for name in copy.original(number).output if name}
    given = Moments(*(copy.take_in(what, DOUBLE, [None]) for what in ("mean", "var")))
    replaced = {body.mean: given.mean, body.var: given.var}
    for number in body.numbers:
        node = copy.original(number)
        held = onnx.NodeProto()
        held.CopyFrom(node)
        node.input[:] = [own.get(name, name) for name in node.input]
        node.output[:] = [own.get(name, name) for name in node.output]
        name = held.output[0]
        if name in replaced:
            typed = _typed(copy, number + 1, norm, replaced[name], own[name])
            shape = copy.add(number + 1, "Shape", [own[name]])
            held = onnx.helper.make_node("Reshape", [typed, shape], [name])
        held.name = copy.fresh("held")
        copy.place(number + 1, held)
    return given, own


def _use(copy: Copy, node: onnx.NodeProto, norm: NormNode, mean: str, var: str) -> None:
    """Put float64 statistics of any shape in the place of a node's own, in their type."""
    for index, value in ((MEAN, mean), (VAR, var)):
        flat = copy.add(norm.number, "Reshape", [value, copy.constant([-1])])
        node.input[index] = _typed(copy, norm.number, norm, flat, node.input[index])


def _typed(copy: Copy, before: int, norm: NormNode, value: str, like: str) -> str:
    """A value in the type of another; before opset 15 all inputs of a norm have the type of its parameters."""
    if copy.opset >= 15:
        return copy.add(before, "CastLike", [value, like])
    stored = next((tensor.dtype for tensor in norm.layer.tensors), "float32")
    types = {"float16": onnx.TensorProto.FLOAT16, "float64": DOUBLE, "bfloat16": onnx.TensorProto.BFLOAT16}
    return copy.cast(before, value, int(types.get(stored, onnx.TensorProto.FLOAT)))


def merged(mean: NDArray[np.float64], var: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and biased variance (channels,) of a batch from those of its samples (samples, channels), equally large."""
    whole = mean.mean(axis=0)
    return whole, var.mean(axis=0) + np.square(mean - whole).mean(axis=0)
