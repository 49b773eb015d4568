"""The tensors of one norm layer disagree about the number of channels.

## What it finds

A batch norm whose weight, bias, running mean and running variance have different lengths, or another length than its
class or the graph's channel axis declares (`num_features`, the size of axis 1).

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
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from bnaudit.description import NormKind, NormLayer
from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, rule


@rule(id="BN114", severity=Severity.ERROR, question=Question.BUFFERS)
def channel_mismatch(case: Case) -> Iterator[Hit]:
    """One hit per layer."""
    for part, layer in case.subject.layers:
        lengths = _lengths(layer) if _is_concerned(layer) else {}
        if len(set(lengths.values())) > 1:
            yield Hit(
                message="the layer's tensors disagree on the number of channels",
                advice="cut or load weight, bias, running_mean and running_var with the same channel indices",
                layer=layer.name,
                part=part.name,
                value=", ".join(f"{name} {length}" for name, length in lengths.items()),
            )


def _is_concerned(layer: NormLayer) -> bool:
    keeps_statistics = layer.running_mean is not None or layer.running_var is not None
    return layer.kind.is_batch or (layer.kind is NormKind.UNKNOWN and keeps_statistics)


def _lengths(layer: NormLayer) -> dict[str, int]:
    """Channels by what says so; tensors that have no one channel axis say nothing."""
    lengths = {} if layer.declared_channels is None else {"declared": layer.declared_channels}
    named = (
        ("weight", layer.weight),
        ("bias", layer.bias),
        ("running_mean", layer.running_mean),
        ("running_var", layer.running_var),
    )
    for name, tensor in named:
        # A tensor without values has the shape that its file states, or none at all.
        if tensor is None or not tensor.shape or (tensor.values is None and tensor.absence):
            continue
        length = math.prod(tensor.shape)
        if length and length == max(tensor.shape):
            lengths[name] = length
    return lengths
