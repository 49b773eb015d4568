"""Only norm weights train, and without statistics: the model is set up for test-time adaptation.

## What it finds

A pickled module in which every parameter outside the norm layers is frozen, while a batch norm's weight or bias
trains and the layer has no running statistics. This is how test-time adaptation methods (TENT and its relatives)
configure a network. One note per layer.

## Why it matters

Such a model is meant to be adapted while it predicts: it normalizes with the batch it is given, and its norm weights
are trained on the test data itself. Predictions depend on the batch and on everything that was predicted before. In
a deployed file that is usually a leftover of an experiment. It is a note, because it is a known configuration and not
an accident of saving; the verdict on neighbours fails all the same.

## Example

    model.train().requires_grad_(False)
    for norm in model.modules():
        if isinstance(norm, torch.nn.BatchNorm2d):
            norm.requires_grad_(True)
            norm.track_running_stats = False
            norm.running_mean = norm.running_var = None

The input 6 becomes −1.00 in the batch (6, 8) and +1.00 in the batch (6, 4), in training and in eval mode. The
counter `num_batches_tracked` usually stays behind.

## How to fix

To deploy the model as it was before the adaptation, load the original checkpoint into a fresh model:

    model = Net()
    model.load_state_dict(torch.load("original.pt", weights_only=True))
    model.eval()

To deploy the adapted one as a fixed function, give its batch norms statistics again, measure them with
`torch.optim.swa_utils.update_bn` and freeze all parameters.

## Limits

- Linear probing and other recipes that train other parameters as well are not this configuration.
- A batch norm standing alone, without any frozen parameter beside it, is not reported.
- Flags that the file does not say stay unknown, and the rule silent.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import Carrier, NormKind, NormLayer, Part
from bnaudit.modes import keeps_buffers
from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, rule

_KINDS = (NormKind.BATCH, NormKind.SYNC_BATCH, NormKind.UNKNOWN)


@rule(id="BN502", severity=Severity.NOTE, question=Question.NEIGHBOURS)
def adaptation_configuration(case: Case) -> Iterator[Hit]:
    """One hit per batch norm that trains without statistics in an otherwise frozen model."""
    for part in case.subject.parts:
        if part.carrier is Carrier.MODULE and part.trainable == 0 and part.frozen:
            for layer in part.layers:
                if layer.kind in _KINDS and layer.requires_grad and not keeps_buffers(layer):
                    yield _hit(part, layer)


def _hit(part: Part, layer: NormLayer) -> Hit:
    certain = layer.kind is not NormKind.UNKNOWN
    return Hit(
        message="only norm weights train and there are no running statistics: set up for test-time adaptation",
        advice="to deploy it, load the original checkpoint into a fresh model and call eval()",
        layer=layer.name,
        part=part.name,
        value="no running statistics",
        settles=certain,
        undecided="" if certain else "a norm layer without statistics may be batch or instance norm",
    )
