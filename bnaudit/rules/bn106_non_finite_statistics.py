"""NaN or infinity in running statistics.

## What it finds

A running mean or running variance with a value that is NaN or infinite, in any norm layer that keeps statistics. The
finding names the first such layer in the order of the file or graph: NaN spreads forward, so that is where to look.

## Why it matters

In eval mode the channel's output is NaN for every input (or, for an infinite variance, constant), and the next
convolution carries it into all channels. **Training mode hides it completely**: it does not read the buffer, so that
loss and gradients stay finite while the file is already dead.

## Worked arithmetic

One batch with a single NaN value, momentum 0.1, a running mean of 5:

    0.9 · 5 + 0.1 · NaN = NaN          and from then on
    0.9 · NaN + 0.1 · 5 = NaN          for ever: no later batch repairs it

A variance overflows in the same way: activations of 1e20 have a variance of 1e40, which is inf in float32, and
gamma · (x − mean) / √inf = 0 for every x.

## How to fix

Find the batch (`torch.autograd.set_detect_anomaly` does not look at buffers; check them after each step):

    bad = [name for name, buffer in model.named_buffers() if not torch.isfinite(buffer).all()]

Then go back to a checkpoint from before, or reset and measure: `torch.optim.swa_utils.update_bn(loader, model)` on
inputs that are finite. Usual causes: overflow in float16 activations, division by n − 1 with one value per channel
in a hand-written norm, NaN in the data, a learning-rate search whose steps were not undone.

## Limits

- A finite value that would overflow in float16 is told by BN109, a non-finite weight or bias by BN115.
- Tensors that were not read are a gap (BN118), not a finding here.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.finiteness import non_finite
from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, rule

_CHANNELS_SHOWN = 16


@rule(id="BN106", severity=Severity.ERROR, question=Question.BUFFERS, limits={"channels": 0})
def non_finite_statistics(case: Case) -> Iterator[Hit]:
    """One hit per layer; each names the first layer of its part."""
    for part in case.subject.parts:
        for found in non_finite(
            part, lambda layer: (("running_mean", layer.mean), ("running_var", layer.var)), case.limits["channels"]
        ):
            yield Hit(
                message=f"channels with NaN or inf in {found.tensors}; first in order: {found.first}",
                advice="go back to an earlier checkpoint, or measure the statistics with update_bn on finite inputs",
                layer=found.layer.name,
                part=part.name,
                value=len(found.channels),
                limit=case.limits["channels"],
                channels=found.channels[:_CHANNELS_SHOWN],
            )
