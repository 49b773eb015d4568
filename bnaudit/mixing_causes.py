"""What usually makes an operator mix the samples of one batch, and what to do about it, by operator and class."""

from __future__ import annotations

import re
from typing import NamedTuple

from bnaudit.measurement import Mixing


class Cause(NamedTuple):
    """A usual cause of samples that meet."""

    doing: str
    """To follow what mixes: `a batch norm without statistics of its own normalizes with the batch`."""
    advice: str


BY_CONFIGURATION = Cause(
    "a norm without statistics of its own normalizes with the batch",
    "turn track_running_stats on and run update_bn on training data, or use GroupNorm",
)
FUNCTIONAL_NORM = Cause(
    "a norm in training form normalizes with the batch",
    "pass training=self.training to F.batch_norm, and keep running statistics in buffers",
)
UNKNOWN = Cause(
    "the samples of the batch meet in it",
    "look at what it does along axis 0, the batch: it may only work along the others",
)

_TABLE: tuple[tuple[str, Cause], ...] = (
    (
        r"lstm|gru|rnn",
        Cause(
            "a recurrent layer reads the batch as time",
            "pass batch_first=True, or give it (time, batch, features): it runs along axis 0",
        ),
    ),
    (
        r"quantize|qparams|fake_?quant|observer|_dynamic",
        Cause(
            "dynamic quantization takes its range from the whole batch",
            "quantize statically with calibrated ranges, or take the range per sample (per token)",
        ),
    ),
    (
        r"attention|transformer",
        Cause(
            "attention runs over the samples of the batch",
            "pass batch_first=True, or give it (length, batch, features); attend within one sample",
        ),
    ),
    (
        r"softmax|softmin",
        Cause(
            "a softmax runs over axis 0, the batch",
            "give the softmax the axis of the classes: dim=1 or dim=-1",
        ),
    ),
    (
        r"cumsum|cumprod|cummax|cummin|logcumsumexp|sort|topk|median|quantile|unique|kthvalue",
        Cause(
            "it sorts or accumulates along axis 0, the batch",
            "give it the axis inside one sample: dim=1 or dim=-1",
        ),
    ),
    (
        r"batch_?norm",
        FUNCTIONAL_NORM,
    ),
    (
        r"mean|\bvar\b|var_mean|\bstd\b|std_mean|stddev|reducesum|\bsum\b|moments|minibatch",
        Cause(
            "statistics of the whole batch enter each sample",
            "store the value that it has on training data as a buffer and use that in eval mode, or reduce per sample",
        ),
    ),
    (
        r"amax|amin|aminmax|\bmax\b|\bmin\b|reducemax|reducemin|norm",
        Cause(
            "a range or norm of the whole batch scales each sample",
            "reduce over the axes inside one sample (dim=1 and above), not over the whole tensor",
        ),
    ),
    (
        r"\b(?:add|sub|rsub|mul|div|true_divide|pow|addcmul|addcdiv|lerp|cat|concat|stack|where|clamp|gather|expand)_?\b",
        Cause(
            "a value computed from the whole batch enters each sample",
            "store the value that it has on training data as a buffer and use that in eval mode, or reduce per sample",
        ),
    ),
    (
        r"matmul|\bmm\b|\bbmm\b|einsum|addmm|gemm|baddbmm|\bdot\b",
        Cause(
            "a matrix product runs over the samples of the batch",
            "compare with stored references instead of the batch, or multiply within one sample (bmm)",
        ),
    ),
)
"""Patterns over class and operator, the more specific first; compiled when something mixes, not at every start."""


def usual_cause(mixing: Mixing) -> Cause:
    """The usual cause at this place; UNKNOWN where operator and class say nothing."""
    if mixing.is_norm:
        return BY_CONFIGURATION if mixing.by_configuration else FUNCTIONAL_NORM
    # Overloads (`aten.mean.dim`) and underscores are no part of the name.
    text = f"{mixing.place.class_name} {mixing.place.operator}".lower().replace(".", " ")
    return next((cause for pattern, cause in _TABLE if re.search(pattern, text)), UNKNOWN)
