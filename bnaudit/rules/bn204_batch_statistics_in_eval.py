"""A batch norm keeps no statistics and normalizes with the batch in eval mode too.

## What it finds

A batch norm whose tracking is off (`track_running_stats=False`) and that has neither running mean nor running
variance. PyTorch then uses the statistics of the batch whatever the mode. Read from pickled modules, TorchScript
and exported programs.

## Why it matters

`eval()` has no effect on such a layer. A prediction depends on the other inputs that happen to stand in the batch,
so that an image alone, in a batch of 8 and in a batch of 64 gets three answers. With one value per channel (a batch
of one behind a pooling or linear layer) PyTorch raises an error.

## Example

    norm = torch.nn.BatchNorm1d(1, affine=False, track_running_stats=False).eval()
    norm(torch.tensor([[6.0], [8.0]]))[0]    # −1.0   mean 7, variance 1
    norm(torch.tensor([[6.0], [4.0]]))[0]    # +1.0   mean 5, variance 1
    norm(torch.tensor([[6.0]]))              # ValueError: Expected more than 1 value per channel

## How to fix

Give the layer statistics and measure them on training data:

    norm = torch.nn.BatchNorm1d(1, affine=False)           # tracking is on by default
    torch.optim.swa_utils.update_bn(training_loader, model)

or, if the model is meant to use the input's own statistics, use a norm that does not look at the neighbours:
GroupNorm, InstanceNorm or LayerNorm. Models that use the batch on purpose (few-shot learning, test-time adaptation)
can be marked as intended.

## Limits

- InstanceNorm without tracking is healthy and never reported: it looks at one sample only.
- A subclass whose name says neither batch nor instance has the same attributes in both cases: a note, and verdict 3
  stays open, unless a run showed that no samples mix in it.
- A state dict shows an affine-only layer and cannot say which of the three it is: see BN101.
- Where the model was run and its samples were seen to mix in the layer, BN301 tells it, with the size of the effect.
- When only the norms train (test-time adaptation), BN502 speaks; a SyncBatchNorm is told by BN210.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import NormKind, NormLayer, Part
from bnaudit.modes import keeps_buffers
from bnaudit.results import Confidence, Hit, Question, Severity
from bnaudit.rules import Case, rule
from bnaudit.run_proofs import mixes_samples

_ADVICE = "turn track_running_stats on and run update_bn on training data, or use GroupNorm"


@rule(
    id="BN204",
    severity=Severity.WARNING,
    question=Question.NEIGHBOURS,
    yields_to=("BN210", "BN211", "BN301", "BN502"),
)
def batch_statistics_in_eval(case: Case) -> Iterator[Hit]:
    """One hit per batch norm that has nothing to normalize with but the batch."""
    for part, layer in case.subject.layers:
        if layer.tracks_statistics is not False or keeps_buffers(layer):
            continue
        if layer.kind in (NormKind.BATCH, NormKind.SYNC_BATCH):
            yield _batch(part, layer)
        elif layer.kind is NormKind.UNKNOWN and mixes_samples(case.measured, part.name, layer.name) is not False:
            yield _unknown(part, layer)


def _batch(part: Part, layer: NormLayer) -> Hit:
    return Hit(
        message="no statistics to use: eval mode normalizes with the batch, and a batch of one may fail",
        advice=_ADVICE,
        layer=layer.name,
        part=part.name,
        value="no tracking",
        limit="running mean and variance",
    )


def _unknown(part: Part, layer: NormLayer) -> Hit:
    return Hit(
        message="no statistics to use; the class does not say whether it normalizes over the batch or each sample",
        advice="look at the class: over the batch, predictions depend on the neighbours",
        layer=layer.name,
        part=part.name,
        value="no tracking",
        severity=Severity.NOTE,
        confidence=Confidence.LOW,
        undecided="a norm layer without statistics may be batch or instance norm",
    )
