"""What usually makes an operator mix the samples of one batch, and what to do about it, by operator and class."""

from __future__ import annotations

import re
from typing import NamedTuple

from bnaudit.description import NormKind
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
    "a norm normalizes with statistics of the batch",
    "pass training=self.training to F.batch_norm, and change the running statistics in training mode only",
)
MISARRANGED_NORM = Cause(
    "a norm meant for each sample gets several samples as one",
    "hand it the batch on axis 0 alone: look at the transpose or reshape before it",
)
REARRANGED = Cause(
    "its input holds the samples along another axis than 0",
    "look at the reshape: view() and reshape() keep the order of the elements, so after a transpose they mix samples",
)
UNSEEN = Cause(
    "samples met before this, in no operator that was seen",
    "look for NumPy, custom kernels or state outside of the model: they may work along axis 0, the batch",
)
UNKNOWN = Cause(
    "the samples of the batch meet in it",
    "look at what it does along axis 0, the batch: it may only work along the others",
)

_RECURRENT = Cause(
    "a recurrent layer reads the batch as time",
    "pass batch_first=True, or give it (time, batch, features): it runs along axis 0",
)
_QUANTIZED = Cause(
    "dynamic quantization takes its range from the whole batch",
    "quantize statically with calibrated ranges, or take the range per sample (per token)",
)
_ATTENTION = Cause(
    "attention runs over the samples of the batch",
    "pass batch_first=True, or give it (length, batch, features); attend within one sample",
)
OF_LAYOUT = (_RECURRENT, _ATTENTION)
"""Right or wrong by which axis of a sequence holds the samples."""
_STATISTICS = Cause(
    "statistics of the whole batch enter each sample",
    "store the value that it has on training data as a buffer and use that in eval mode, or reduce per sample",
)
_VALUE = Cause("a value computed from the whole batch enters each sample", _STATISTICS.advice)

_CLASSES: tuple[tuple[str, str, Cause], ...] = (
    (r"(?:LSTM|GRU|RNN)(?:Cell)?", "quantize", _QUANTIZED),
    (r"(?:LSTM|GRU|RNN)(?:Cell)?", "", _RECURRENT),
    (r".*(?:[Qq]uanti[sz]|FakeQuant|Observer|QParams).*", "", _QUANTIZED),
    (r".*(?:[Aa]ttention|Attn|Transformer).*", r"mm|matmul|softmax|einsum|attention|linear|transformer", _ATTENTION),
    (r".*[Mm]ini[Bb]atch.*", "", _STATISTICS),
)
"""Patterns of the whole class name and within the operator's. Classes of the user's own say what they are made of only
together with an operator."""

_OPERATORS: tuple[tuple[str, Cause], ...] = (
    (r"quantize|qparams|fake_?quant|observer|_dynamic", _QUANTIZED),
    (r"lstm|\bgru|rnn", _RECURRENT),
    (r"attention|transformer", _ATTENTION),
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
    (r"\b(?:_unsafe_)?view\b|reshape|as_strided", REARRANGED),
    (r"batch_?norm", FUNCTIONAL_NORM),
    (r"(?:layer|group|instance|rms)_?norm", MISARRANGED_NORM),
    (
        r"conv",
        Cause(
            "a convolution slides over the samples of the batch",
            "give it (batch, channels, places): it reads fewer axes as one sample, and their first as channels",
        ),
    ),
    (
        r"roll|flip|\bindex|index_select|take",
        Cause(
            "a sample gets values of another one",
            "move values along the axes inside one sample (dim=1 and above), not along axis 0",
        ),
    ),
    (r"mean|\bvar\b|var_mean|\bstd\b|std_mean|reducesum|\bsum\b|moments|logsumexp|bincount|histc", _STATISTICS),
    (
        r"amax|amin|aminmax|\bmax\b|\bmin\b|reducemax|reducemin|norm",
        Cause(
            "a range or norm of the whole batch scales each sample",
            "reduce over the axes inside one sample (dim=1 and above), not over the whole tensor",
        ),
    ),
    (
        r"matmul|\bmm\b|\bbmm\b|einsum|addmm|gemm|baddbmm|\bdot\b|cdist|pdist",
        Cause(
            "a product or distance is taken between the samples of the batch",
            "compare with stored references instead of the batch, or multiply within one sample (bmm)",
        ),
    ),
    (
        r"\b(?:add|sub|rsub|mul|div|true_divide|pow|addcmul|addcdiv|lerp|cat|concat|stack|where|clamp|gather|expand"
        r"|gt|lt|ge|le|eq|ne|greater|less|equal|greaterorequal|lessorequal|maximum|minimum|masked_fill)_?\b",
        _VALUE,
    ),
)
"""Patterns of operators, the more specific first; compiled when something mixes, not at every start."""
_OWN_SAMPLE = (NormKind.LAYER, NormKind.GROUP, NormKind.RMS, NormKind.INSTANCE)


def usual_cause(mixing: Mixing) -> Cause:
    """The usual cause at this place; UNKNOWN where operator and class say nothing."""
    if mixing.unseen:
        return UNSEEN
    if mixing.is_norm:
        return MISARRANGED_NORM if mixing.kind in _OWN_SAMPLE else _of_batch_norm(mixing)
    return _by_class(mixing) or (REARRANGED if mixing.arranged is not None else _by_operator(mixing))


def _of_batch_norm(mixing: Mixing) -> Cause:
    return BY_CONFIGURATION if mixing.by_configuration else FUNCTIONAL_NORM


def _by_class(mixing: Mixing) -> Cause | None:
    name, operator = mixing.place.class_name, _plain(mixing.place.operator)
    for pattern, within, cause in _CLASSES:
        if re.fullmatch(pattern, name) and re.search(within, operator):
            return cause
    return None


def _by_operator(mixing: Mixing) -> Cause:
    """By the operator that gathered the samples, which says more than the one that its value enters."""
    for place in filter(None, (mixing.gathered, mixing.place)):
        operator = _plain(place.operator)
        for pattern, cause in _OPERATORS:
            if re.search(pattern, operator):
                return cause
    return UNKNOWN


def _plain(operator: str) -> str:
    """Overloads (`aten.mean.dim`) and underscores are no part of the name."""
    return operator.lower().replace(".", " ")
