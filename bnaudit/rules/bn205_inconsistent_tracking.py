"""The tracking flag of a batch norm and its buffers disagree.

## What it finds

A batch norm in a pickled module or a script with `track_running_stats = False` that nevertheless has running
statistics, or with `track_running_stats = True` and none. PyTorch never builds such a layer; somebody changed the
attribute or the buffers afterwards, usually a trainer's `freeze` function.

## Why it matters

With tracking off and buffers present, training normalizes with the batch and never updates the buffers, while eval
uses the old buffers: the layer computes one function in training and another when it is deployed, and the gap grows
as long as the weights before it move. PyTorch before 1.6 read the same combination differently (eval used the
batch), so that the answer also depends on the version.

The other way round, eval has no statistics to use and normalizes with the batch.

## Worked arithmetic

Stored mean 0.97, variance 1.19, momentum 0.1, no affine. After `norm.track_running_stats = False`:

    training, batch (6, 8)   6 → (6 − 7) / √(1 + 1e-5)         = −1.00, the buffers stay 0.97 and 1.19
    eval                     6 → (6 − 0.97) / √(1.19 + 1e-5)   =  4.61

A layer frozen with `eval()` gives 4.61 in both.

## How to fix

Freeze a batch norm with its mode, not with its flag, and do so again after each `model.train()`:

    norm.track_running_stats = True
    norm.eval()
    norm.requires_grad_(False)

or replace it by `torchvision.ops.FrozenBatchNorm2d`. If the model went on training with the flag off, measure the
statistics again (`torch.optim.swa_utils.update_bn`) after switching it on.

## Limits

- The verdict it fails is *frozen means frozen*: in eval the old buffers are used consistently, but training uses
  something else.
- Buffers that the class promises and that are missing are told by BN101 where it can prove that, a test-time
  adaptation by BN502.
- Instance norm is not reported: it reads its buffers in eval mode only where tracking is on.
- A subclass whose name says neither batch nor instance: medium confidence.
- Pickles from before PyTorch 0.4 lack the flag: unknown, and silent.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import NormKind, NormLayer, Part
from bnaudit.modes import keeps_buffers
from bnaudit.results import Confidence, Hit, Question, Severity
from bnaudit.rules import Case, rule

_KINDS = (NormKind.BATCH, NormKind.SYNC_BATCH, NormKind.UNKNOWN)


@rule(
    id="BN205",
    severity=Severity.WARNING,
    question=Question.FROZEN,
    yields_to=("BN101", "BN502"),
)
def inconsistent_tracking(case: Case) -> Iterator[Hit]:
    """One hit per layer whose flag and buffers disagree."""
    for part, layer in case.subject.layers:
        tracks = layer.tracks_statistics
        if layer.kind in _KINDS and tracks is not None and tracks is not keeps_buffers(layer):
            yield _without_buffers(part, layer) if tracks else _with_buffers(part, layer)


def _with_buffers(part: Part, layer: NormLayer) -> Hit:
    unknown = layer.kind is NormKind.UNKNOWN
    return Hit(
        message="tracking is off but running statistics exist"
        + ("" if unknown else ": training uses the batch and never updates them, eval uses the old ones"),
        advice="freeze with norm.eval() after every model.train() and set track_running_stats back to True",
        layer=layer.name,
        part=part.name,
        value="track_running_stats=False",
        limit="no running statistics",
        confidence=Confidence.MEDIUM if unknown else Confidence.HIGH,
    )


def _without_buffers(part: Part, layer: NormLayer) -> Hit:
    return Hit(
        message="tracking is on but there are no running statistics: eval has none to use",
        advice="restore running_mean and running_var from a complete checkpoint, or measure them with update_bn",
        layer=layer.name,
        part=part.name,
        value="track_running_stats=True",
        limit="running mean and variance",
        confidence=Confidence.MEDIUM if layer.kind is NormKind.UNKNOWN else Confidence.HIGH,
        settles=False,
    )
