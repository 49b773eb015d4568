"""Which ATen operators normalize, draw random numbers or only look at memory, and how their arguments are read.

Names are those of PyTorch 2.4 to 2.13 (native_functions.yaml, torch/ao/nn/quantized). An operator is classified once
per process, when it is first met, so that one that an older PyTorch lacks costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

import torch

from bnaudit.description import NormKind


class Statistics(Enum):
    """What a batch normalization operator normalizes with."""

    BY_FLAG = "as its `training` says"
    BATCH = "always the batch's"
    STORED = "always stored ones"
    GIVEN = "the batch's, computed by an operator before (SyncBatchNorm)"


class Normalization(NamedTuple):
    """How a normalization operator is to be read."""

    kind: NormKind
    statistics: Statistics = Statistics.BATCH


class Randomness(NamedTuple):
    """How an operator that draws random numbers is to be read."""

    is_dropout: bool = False
    probability: str = ""
    """Argument that holds the probability of a drop; 0 in it draws nothing."""
    keeps: bool = False
    """It is the probability of keeping a value."""
    active: str = ""
    """Argument without which nothing is drawn: `train`, `training`."""


class Operator(NamedTuple):
    """An operator and what is known of it."""

    name: str
    """`aten.native_batch_norm`, without the overload."""
    arguments: tuple[str, ...]
    defaults: Mapping[str, object]
    norm: Normalization | None
    random: Randomness | None
    is_view: bool
    """Looks at the memory of its argument, or makes memory with nothing in it."""
    written: tuple[str, ...]
    """Arguments that it writes to, as far as the schema says."""
    reduces: bool
    """Has arguments `dim` and `keepdim`."""

    def read(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments by name; those of normalizations as `native_batch_norm` calls them."""
        values = {**self.defaults, **dict(zip(self.arguments, args, strict=False))}
        for name, value in kwargs.items():
            values[_CALLED.get(name, name) if self.norm is not None else name] = value
        return values


_BY_FLAG = Normalization(NormKind.BATCH, Statistics.BY_FLAG)
_OF_BATCH = Normalization(NormKind.BATCH)
_STORED = Normalization(NormKind.BATCH, Statistics.STORED)
_GIVEN = Normalization(NormKind.SYNC_BATCH, Statistics.GIVEN)
_LAYER, _GROUP, _RMS = (Normalization(kind) for kind in (NormKind.LAYER, NormKind.GROUP, NormKind.RMS))
_INSTANCE = Normalization(NormKind.INSTANCE, Statistics.BY_FLAG)

_NORMS = {
    "aten.native_batch_norm": _BY_FLAG,
    "aten.cudnn_batch_norm": _BY_FLAG,
    "aten.miopen_batch_norm": _BY_FLAG,
    "aten._native_batch_norm_legit": _BY_FLAG,
    "aten._native_batch_norm_legit_functional": _BY_FLAG,
    "aten._native_batch_norm_legit_no_training": _STORED,
    "aten._batch_norm_with_update": _OF_BATCH,
    "aten._batch_norm_with_update_functional": _OF_BATCH,
    "aten._batch_norm_no_update": _STORED,
    "aten._batch_norm_impl_index": _BY_FLAG,
    "aten.batch_norm": _BY_FLAG,
    "aten.batch_norm_elemt": _GIVEN,
    "aten.quantized_batch_norm": _STORED,
    **{f"quantized.batch_norm{suffix}{fused}": _STORED for suffix in ("", "1d", "2d", "3d") for fused in ("", "_relu")},
    "onednn.qbatch_norm2d": _STORED,
    "aten.instance_norm": _INSTANCE,
    "quantized.instance_norm": Normalization(NormKind.INSTANCE),
    "aten.native_layer_norm": _LAYER,
    "aten.layer_norm": _LAYER,
    "quantized.layer_norm": _LAYER,
    "aten.native_group_norm": _GROUP,
    "aten.group_norm": _GROUP,
    "quantized.group_norm": _GROUP,
    "aten.rms_norm": _RMS,
    "aten._fused_rms_norm": _RMS,
}

_DROPOUT = {
    "aten.native_dropout": Randomness(True, "p", active="train"),
    "aten._fused_dropout": Randomness(True, "p", keeps=True),
    "aten.dropout": Randomness(True, "p", active="train"),
    "aten.dropout_": Randomness(True, "p", active="train"),
    "aten.alpha_dropout": Randomness(True, "p", active="train"),
    "aten.alpha_dropout_": Randomness(True, "p", active="train"),
    "aten.feature_dropout": Randomness(True, "p", active="train"),
    "aten.feature_dropout_": Randomness(True, "p", active="train"),
    "aten.feature_alpha_dropout": Randomness(True, "p", active="train"),
    "aten.feature_alpha_dropout_": Randomness(True, "p", active="train"),
    "quantized.dropout": Randomness(True, "p", active="training"),
    "aten.rrelu_with_noise": Randomness(True, active="training"),
    "aten.rrelu_with_noise_": Randomness(True, active="training"),
    "aten.rrelu_with_noise_functional": Randomness(True, active="training"),
}
_DRAWS_NOTHING = ("aten._fused_sdp_choice", "aten._nested_tensor_softmax_with_shape")
"""Tagged as random all the same."""
_LOOKS = frozenset(
    f"aten.{name}"
    for name in (
        *("_unsafe_view", "_reshape_alias", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk", "lift"),
        *("transpose_", "t_", "swapdims_", "swapaxes_", "squeeze_", "unsqueeze_", "as_strided_", "detach_"),
    )
)
_EMPTY = ("aten.empty", "aten.new_empty", "aten._empty")

_CALLED = {
    "exponential_average_factor": "momentum",
    "epsilon": "eps",
    "qx": "input",
    "mean": "running_mean",
    "var": "running_var",
    "use_input_stats": "training",
    "num_groups": "group",
}
"""What other normalizations call the arguments of `native_batch_norm` and `native_group_norm`."""

_known: dict[object, Operator] = {}


def operator(function: object) -> Operator:
    """What is known of an OpOverload (or of a higher-order operator: its name alone)."""
    found = _known.get(function)
    if found is None:
        found = _known[function] = _classify(function)
    return found


def is_watched(function: object) -> bool:
    """Whether it normalizes, draws, or repeats a layer's tensors: all others are only counted."""
    known = operator(function)
    return known.norm is not None or known.random is not None or known.name in REPEATS or known.name in FUSED


REPEATS = frozenset({"aten.repeat"})
"""Instance norm hands a repeated copy of a layer's tensors to batch norm."""
FUSED = frozenset({"aten._transformer_encoder_layer_fwd"})
"""Operators with layer norms inside: the fast path of nn.TransformerEncoderLayer."""


def _classify(function: object) -> Operator:
    schema = getattr(function, "_schema", None)
    if schema is None:
        return Operator(str(function), (), {}, None, None, False, (), False)
    name = schema.name.replace("::", ".")
    arguments = schema.arguments
    names = tuple(argument.name for argument in arguments)
    norm = _NORMS.get(name)
    called = {argument: _CALLED.get(argument, argument) if norm is not None else argument for argument in names}
    return Operator(
        name=name,
        arguments=tuple(called.values()),
        defaults={called[each.name]: each.default_value for each in arguments if each.has_default_value()},
        norm=norm,
        random=_randomness(name, names, getattr(function, "tags", ())),
        is_view=_is_view(name, schema),
        written=tuple(arg.name for arg in arguments if arg.alias_info is not None and arg.alias_info.is_write),
        reduces="keepdim" in names,
    )


def _randomness(name: str, names: tuple[str, ...], tags: Sequence[torch.Tag]) -> Randomness | None:
    if name in _DROPOUT:
        return _DROPOUT[name]
    if torch.Tag.nondeterministic_seeded not in tags or name in _DRAWS_NOTHING:
        return None
    active = next((flag for flag in ("training", "train") if flag in names), "")
    for probability in ("dropout_p", "dropout"):
        if probability in names:
            return Randomness(True, probability, active=active)
    return Randomness(False, active=active)


def _is_view(name: str, schema: Any) -> bool:
    if name in _LOOKS or name.startswith(_EMPTY):
        return True
    aliases = [returned.alias_info for returned in schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)
