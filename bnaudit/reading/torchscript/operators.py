"""The operators of TorchScript code that this reader knows, and the names of their arguments.

Names and order are those of PyTorch's schemas (aten/src/ATen/native/native_functions.yaml, torch 2.13); TorchScript
prints arguments by position and leaves out trailing ones that have their default.
"""

from __future__ import annotations

from typing import NamedTuple

from bnaudit.description import NormKind


class Signature(NamedTuple):
    """What an operator does and what its arguments are called."""

    role: str
    """norm, dropout, rrelu, recurrent, attention, draw, convolution, linear or packed"""
    arguments: tuple[str, ...]
    kind: NormKind = NormKind.UNKNOWN
    fixed_training: bool | None = None
    """Operators that exist for one mode only."""


_AFFINE = ("input", "weight", "bias")
_STATISTICS = (*_AFFINE, "running_mean", "running_var")
_BATCH = (*_STATISTICS, "training", "momentum", "eps")
_CELLS = ("input", "hx", "params", "has_biases", "num_layers", "dropout", "training")
_CONVOLUTION = Signature("convolution", (*_AFFINE, "stride", "padding", "dilation", "groups"))
_TRANSPOSED = Signature("convolution", (*_AFFINE, "stride", "padding", "output_padding", "groups", "dilation"))
_ANY_CONVOLUTION = Signature(
    "convolution", (*_AFFINE, "stride", "padding", "dilation", "transposed", "output_padding", "groups")
)
_DROPOUT = Signature("dropout", ("input", "p", "training"))
_RECURRENT = Signature("recurrent", _CELLS)


def _batch(*arguments: str, fixed: bool | None = None) -> Signature:
    return Signature("norm", arguments or _BATCH, NormKind.BATCH, fixed)


_SIGNATURES = {
    "batch_norm": _batch(),
    "native_batch_norm": _batch(),
    "cudnn_batch_norm": _batch(),
    "miopen_batch_norm": _batch(),
    "_batch_norm_impl_index": _batch(),
    "_native_batch_norm_legit": _batch(),
    "_native_batch_norm_legit_no_training": _batch(*_STATISTICS, "momentum", "eps", fixed=False),
    "_batch_norm_with_update": _batch(*_STATISTICS, "momentum", "eps", fixed=True),
    "_batch_norm_no_update": _batch(*_STATISTICS, "momentum", "eps", fixed=False),
    "quantized.batch_norm": _batch(*_STATISTICS, "eps", fixed=False),
    "quantized.batch_norm1d": _batch(*_STATISTICS, "eps", fixed=False),
    "quantized.batch_norm2d": _batch(*_STATISTICS, "eps", fixed=False),
    "quantized.batch_norm3d": _batch(*_STATISTICS, "eps", fixed=False),
    "quantized.batch_norm_relu": _batch(*_STATISTICS, "eps", fixed=False),
    "quantized.batch_norm1d_relu": _batch(*_STATISTICS, "eps", fixed=False),
    "quantized.batch_norm2d_relu": _batch(*_STATISTICS, "eps", fixed=False),
    "quantized.batch_norm3d_relu": _batch(*_STATISTICS, "eps", fixed=False),
    "instance_norm": Signature("norm", _BATCH, NormKind.INSTANCE),
    "quantized.instance_norm": Signature("norm", (*_AFFINE, "eps"), NormKind.INSTANCE),
    "layer_norm": Signature("norm", ("input", "normalized_shape", "weight", "bias", "eps"), NormKind.LAYER),
    "native_layer_norm": Signature("norm", ("input", "normalized_shape", "weight", "bias", "eps"), NormKind.LAYER),
    "quantized.layer_norm": Signature("norm", ("input", "normalized_shape", "weight", "bias", "eps"), NormKind.LAYER),
    "group_norm": Signature("norm", ("input", "num_groups", "weight", "bias", "eps"), NormKind.GROUP),
    "native_group_norm": Signature("norm", (*_AFFINE, "n", "c", "hxw", "num_groups", "eps"), NormKind.GROUP),
    "quantized.group_norm": Signature("norm", ("input", "num_groups", "weight", "bias", "eps"), NormKind.GROUP),
    "rms_norm": Signature("norm", ("input", "normalized_shape", "weight", "eps"), NormKind.RMS),
    "_fused_rms_norm": Signature("norm", ("input", "normalized_shape", "weight", "eps"), NormKind.RMS),
    "dropout": _DROPOUT,
    "native_dropout": _DROPOUT,
    "feature_dropout": _DROPOUT,
    "alpha_dropout": _DROPOUT,
    "feature_alpha_dropout": _DROPOUT,
    "rrelu": Signature("rrelu", ("input", "lower", "upper", "training")),
    "rrelu_with_noise": Signature("rrelu", ("input", "noise", "lower", "upper", "training")),
    "lstm": _RECURRENT,
    "gru": _RECURRENT,
    "rnn_tanh": _RECURRENT,
    "rnn_relu": _RECURRENT,
    "scaled_dot_product_attention": Signature("attention", ("query", "key", "value", "mask", "p")),
    "bernoulli": Signature("draw", ("input", "kept")),
    "rand": Signature("draw", ("size",)),
    "conv1d": _CONVOLUTION,
    "conv2d": _CONVOLUTION,
    "conv3d": _CONVOLUTION,
    "conv_transpose1d": _TRANSPOSED,
    "conv_transpose2d": _TRANSPOSED,
    "conv_transpose3d": _TRANSPOSED,
    "convolution": _ANY_CONVOLUTION,
    "_convolution": _ANY_CONVOLUTION,
    "prim.mkldnn_convolution": _CONVOLUTION,
    "linear": Signature("linear", _AFFINE),
    "prim.ConstantMKLDNNTensor": Signature("packed", ()),
}

EPSILON = 1e-5
"""The default of layer_norm and group_norm, which TorchScript does not print."""


def short_operator(name: str) -> str:
    """`torch.dropout_` -> `dropout`, `ops.quantized.batch_norm2d` -> `quantized.batch_norm2d`, else ""."""
    if name.startswith("torch."):
        short = name[6:]
    elif name.startswith("ops."):
        short = name[4:].removeprefix("aten.")
    else:
        return ""
    return short[:-1] if short.endswith("_") and not short.endswith("__") else short


def signature(operator: str) -> Signature | None:
    """The signature of an operator by its short name, None when this reader has no question about it."""
    return _SIGNATURES.get(operator)


def argument_names(operator: str, found: Signature, fourth_is_flag: bool) -> tuple[str, ...]:
    """The names of the positional arguments, where the fourth tells two overloads apart.

    A recurrent call on a packed sequence has the batch sizes second, so that its fourth argument is the list of
    weights; `_native_batch_norm_legit.no_stats` has no statistics, so that its fourth is the training flag.
    """
    if found.role == "recurrent" and not fourth_is_flag:
        return ("input", "batch_sizes", *found.arguments[1:])
    if operator == "_native_batch_norm_legit" and fourth_is_flag:
        return (*_AFFINE, "training", "momentum", "eps")
    return found.arguments
