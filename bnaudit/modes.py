"""Which layers compute something else in training mode than in eval mode, and what they do then.

Batch norm and instance norm with running statistics, dropout of any kind with p > 0, recurrent layers and
attention with dropout > 0, RReLU and stochastic depth depend on the mode. LayerNorm, GroupNorm, RMSNorm,
frozen batch norm and instance norm without running statistics do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bnaudit.description import Carrier, ModeDependent, NormKind, NormLayer, Part


class ModeLayer(NamedTuple):
    """A norm or another layer that depends on the mode."""

    name: str
    doing: str
    """What it does in training mode, to follow "it": `zeroes values at random`."""
    remedy: str
    """What eval mode makes of it, to follow "then": `nothing is dropped`."""
    training: bool | None
    graph_training: bool | None
    hidden: bool
    """In a module that eval() does not reach."""


_NORM_DOING = {
    NormKind.INSTANCE: "normalizes each sample with its own statistics instead of the stored ones",
    NormKind.UNKNOWN: "computes its statistics from the input instead of using the stored ones",
}
_BATCH_DOING = "normalizes with the batch instead of the stored statistics"
_OTHER_DOING = {
    "dropout": ("zeroes values at random", "nothing is dropped"),
    "recurrent": ("drops values between its layers at random", "nothing is dropped"),
    "attention": ("drops attention weights at random", "nothing is dropped"),
    "rrelu": ("draws its negative slopes at random", "the slope is fixed"),
    "stochastic-depth": ("skips its block at random", "no block is skipped"),
}


def mode_layers(part: Part) -> Iterator[ModeLayer]:
    """The layers of a part of which it is known that they depend on the mode, norms first."""
    out_of_reach = _hidden_paths(part)
    for layer in part.layers:
        if norm_depends_on_mode(layer):
            yield ModeLayer(
                layer.name,
                norm_in_training(layer.kind),
                "the stored statistics are used",
                layer.training,
                layer.graph_training,
                _is_within(layer.name, out_of_reach),
            )
    for entry in part.mode_dependent:
        if drops_at_random(entry):
            doing, remedy = other_in_training(entry)
            hidden = _is_within(entry.name, out_of_reach)
            yield ModeLayer(entry.name, doing, remedy, entry.training, entry.graph_training, hidden)


def norm_depends_on_mode(layer: NormLayer) -> bool | None:
    """Whether training mode changes what a norm computes; None when the artifact does not settle it.

    Batch norm with neither tracking nor buffers uses the batch in both modes; with buffers but tracking off, it
    uses them in eval mode only (PyTorch 1.6 and later).
    """
    if layer.kind in (NormKind.BATCH, NormKind.SYNC_BATCH):
        return True if keeps_buffers(layer) else layer.tracks_statistics
    if layer.kind is NormKind.INSTANCE:
        return layer.tracks_statistics
    if layer.kind is NormKind.UNKNOWN:
        return True if layer.tracks_statistics else None
    return False


def keeps_buffers(layer: NormLayer) -> bool:
    """Whether a running mean or variance is named, with or without values."""
    return layer.running_mean is not None or layer.running_var is not None


def updates_in_training(layer: NormLayer) -> bool:
    """Whether a batch norm (or one whose class does not say) will move its statistics as its flag stands."""
    return (
        layer.kind in (NormKind.BATCH, NormKind.SYNC_BATCH, NormKind.UNKNOWN)
        and layer.training is True
        and layer.graph_training is not False
        and layer.tracks_statistics is True
        and keeps_buffers(layer)
        and layer.momentum != 0
    )


def is_frozen(layer: NormLayer) -> bool:
    """Whether its parameters, or those of the block around one without any, are frozen."""
    return layer.requires_grad is False or layer.block_requires_grad is False


def is_frozen_but_updating(layer: NormLayer) -> bool:
    """Whether a frozen layer's statistics move."""
    return is_frozen(layer) and updates_in_training(layer)


def something_trains(part: Part) -> bool:
    """Whether any parameter of the model requires gradients."""
    return bool(part.trainable) or any(layer.requires_grad for layer in part.layers)


def drops_at_random(entry: ModeDependent) -> bool | None:
    """Whether a layer acts at random in training mode; None when its probability is not in the artifact."""
    if entry.kind == "rrelu":
        return True
    return None if entry.probability is None else entry.probability > 0


def norm_in_training(kind: NormKind) -> str:
    """What a norm does in training mode, to follow "it"."""
    return _NORM_DOING.get(kind, _BATCH_DOING)


def other_in_training(entry: ModeDependent) -> tuple[str, str]:
    """What another layer does in training mode, and what eval mode makes of it."""
    return _OTHER_DOING.get(entry.kind, ("acts at random", "it acts alike every time"))


def fixed_or_stored_mode(part: Part, layer: ModeLayer) -> bool | None:
    """The mode a layer will run in as saved: what the graph fixes, else the flag where flags are obeyed."""
    if layer.graph_training is not None:
        return layer.graph_training
    obeys_flag = part.carrier is Carrier.MODULE or (part.carrier is Carrier.SCRIPT and part.traced is not True)
    return layer.training if obeys_flag else None


def is_hidden(part: Part, name: str) -> bool:
    """Whether a layer stands in a module that eval(), state_dict() and to() do not reach."""
    return _is_within(name, _hidden_paths(part))


def _hidden_paths(part: Part) -> frozenset[str]:
    return frozenset(hidden.path for hidden in part.hidden)


def _is_within(name: str, paths: frozenset[str]) -> bool:
    """Whether a name is one of the paths or stands below one (`norms[1].bn` below `norms[1]`)."""
    if not paths:
        return False
    return name in paths or any(name[:at] in paths for at, sign in enumerate(name) if sign in ".[")
