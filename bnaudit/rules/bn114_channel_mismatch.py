"""The tensors of one norm layer disagree about the number of channels.

## What it finds

A batch norm whose weight, bias, running mean and running variance have different lengths, or another length than the
graph's channel axis (the size of axis 1). Where all four agree and only the module's `num_features` says another
number, there is a note: PyTorch does not use it to compute.

## Why it matters

The layer cannot run: PyTorch raises *running_mean should contain 57 elements not 64* at the first forward, other
runtimes read past a tensor or broadcast it. The usual cause is pruning that cut the convolution and only some of the
norm's tensors. Where a loader cuts or pads silently, statistics and weights of different channels are paired, and
the output is wrong without an error.

## Example

Seven of 64 channels are pruned, and the buffers are forgotten:

    keep = torch.arange(57)
    norm.weight = torch.nn.Parameter(norm.weight[keep])
    norm.bias = torch.nn.Parameter(norm.bias[keep])
    # norm.running_mean and norm.running_var still have 64 values

A single value broadcasts: with a running mean of length 1 and 64 channels, every channel is shifted by the same number.

## How to fix

Cut all four tensors with the same index, and tell the layer:

    for name in ("running_mean", "running_var"):
        setattr(norm, name, getattr(norm, name)[keep])
    norm.num_features = len(keep)

or load the statistics from the checkpoint before pruning and cut them with the indices that the pruning kept.

## Limits

- Tensors of more than one dimension are compared only when all but one of their sizes are 1: a 4-D weight is that of
  a convolution fused with the norm.
- Whether the convolution before the norm has as many outputs is not compared: a state dict does not say what feeds it.
- A tensor without elements is told by BN101.
- e3nn's batch norm has a weight and a variance for every channel, a bias and a mean for the scalar ones: silent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from bnaudit.description import Carrier, NormKind, NormLayer, Part
from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, rule

_NAMED_ONLY = (Carrier.MODULE, Carrier.SCRIPT)
"""Where the declared number is the attribute `num_features`."""


@rule(id="BN114", severity=Severity.ERROR, question=Question.BUFFERS)
def channel_mismatch(case: Case) -> Iterator[Hit]:
    """One hit per layer."""
    for part, layer in case.subject.layers:
        if not _is_concerned(layer):
            continue
        lengths, declared = _lengths(layer), layer.declared_channels
        if part.carrier not in _NAMED_ONLY and declared is not None:
            lengths = {"declared": declared, **lengths}
        if len(set(lengths.values())) > 1 and not _is_equivariant(layer, lengths):
            yield _mismatch(part, layer, lengths)
        elif len(set(lengths.values())) == 1 and declared not in (None, *lengths.values()):
            yield _misnamed(part, layer, declared, lengths.popitem()[1])


def _mismatch(part: Part, layer: NormLayer, lengths: dict[str, int]) -> Hit:
    return Hit(
        message="the layer's tensors disagree on the number of channels",
        advice="cut or load weight, bias, running_mean and running_var with the same channel indices",
        layer=layer.name,
        part=part.name,
        value=", ".join(f"{name} {length}" for name, length in lengths.items()),
    )


def _misnamed(part: Part, layer: NormLayer, declared: int | None, length: int) -> Hit:
    return Hit(
        message=f"num_features is {declared}, its tensors have {length} channels: it runs, a new one would not fit",
        advice="set num_features to the number of channels that pruning left",
        layer=layer.name,
        part=part.name,
        severity=Severity.NOTE,
    )


def _is_concerned(layer: NormLayer) -> bool:
    keeps_statistics = layer.running_mean is not None or layer.running_var is not None
    return layer.kind.is_batch or (layer.kind is NormKind.UNKNOWN and keeps_statistics)


def _is_equivariant(layer: NormLayer, lengths: dict[str, int]) -> bool:
    """e3nn's batch norm scales every irreducible representation and shifts the scalar ones alone, which are fewer."""
    scaled, shifted = ("weight", "running_var"), ("bias", "running_mean")
    if layer.metadata_version == 2 or not all(name in lengths for name in (*scaled, *shifted)):
        return False
    pairs = {(lengths[one], lengths[other]) for one, other in zip(scaled, shifted, strict=True)}
    return len(lengths) == 4 and len(pairs) == 1 and lengths["weight"] > lengths["bias"]


def _lengths(layer: NormLayer) -> dict[str, int]:
    """Channels by what says so; tensors that have no one channel axis say nothing."""
    lengths = {}
    named = (
        ("weight", layer.weight),
        ("bias", layer.bias),
        ("running_mean", layer.running_mean),
        ("running_var", layer.running_var),
    )
    for name, tensor in named:
        # A tensor without values has the shape that its file states, or none at all.
        if tensor is None or not tensor.shape or tensor.absence:
            continue
        length = math.prod(tensor.shape)
        if length and length == max(tensor.shape):
            lengths[name] = length
    return lengths
