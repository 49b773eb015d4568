"""A SyncBatchNorm, made for training on several devices, stands in an artifact that one process loads.

## What it finds

A pickled module or script with `SyncBatchNorm` layers. A note when they have running statistics, an error when they
have none. A checkpoint with optimizer state beside the model is a training checkpoint: with running statistics it is
not reported.

## Why it matters

With running statistics, a SyncBatchNorm in eval mode computes what BatchNorm computes. In training mode inside a
process group it waits for the other processes, and raises on a CPU; early versions of PyTorch waited in eval mode
too, so that a validation on one process never returned.

Without running statistics it normalizes with the batch, now with the small batch of a single process where training
used the batches of all of them together: predictions depend on the neighbours, and a batch of one may fail.

## Example

    norm = torch.nn.SyncBatchNorm(1, affine=False, track_running_stats=False).eval()
    norm(torch.tensor([[6.0], [8.0]]))[0]     # −1.0
    norm(torch.tensor([[6.0], [4.0]]))[0]     # +1.0

Training on 8 devices with 4 inputs each normalized over 32; serving one request normalizes over 1.

## How to fix

PyTorch has `convert_sync_batchnorm`, but nothing for the way back. Copy the tensors:

    def revert(module):
        for name, child in module.named_children():
            if isinstance(child, torch.nn.SyncBatchNorm):
                norm = torch.nn.BatchNorm2d(child.num_features, child.eps, child.momentum, child.affine)
                norm.load_state_dict(child.state_dict())
                setattr(module, name, norm.train(child.training))
            revert(child)

or load the state dict into the model as it was before the conversion: the names are the same.

## Limits

- Only pickled modules and scripts show the class; a state dict of the two is identical.
- Whether a process group exists where the model runs is not in the file.
- Statistics that the flags promise and that are missing are told by BN101.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import Carrier, NormKind
from bnaudit.modes import keeps_buffers
from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, rule

_CARRIERS = (Carrier.MODULE, Carrier.SCRIPT)


@rule(id="BN210", severity=Severity.NOTE, question=Question.NEIGHBOURS, yields_to=("BN101",))
def sync_norm_at_serving(case: Case) -> Iterator[Hit]:
    """One hit per SyncBatchNorm."""
    for part, layer in case.subject.layers:
        if layer.kind is not NormKind.SYNC_BATCH or part.carrier not in _CARRIERS:
            continue
        if not keeps_buffers(layer):
            yield Hit(
                message="a SyncBatchNorm without running statistics normalizes with the batch of one process",
                advice="replace it by BatchNorm and measure its statistics with update_bn",
                layer=layer.name,
                part=part.name,
                value="SyncBatchNorm",
                severity=Severity.ERROR,
            )
        elif not case.subject.has_optimizer:
            yield Hit(
                message="a SyncBatchNorm: alike in eval mode, but made for several processes",
                advice="replace it by BatchNorm with the same tensors before serving",
                layer=layer.name,
                part=part.name,
                value="SyncBatchNorm",
            )
