"""A traced module says eval mode, but its recorded graph holds training mode.

## What it finds

A TorchScript file made by `torch.jit.trace` whose layer has `training = False` as an attribute, while the recorded
call of the same layer (`torch.batch_norm`, `torch.dropout`, …) holds the constant `True`. This is what a model
looks like that was traced in training mode and switched with `eval()` afterwards.

## Why it matters

Tracing writes the mode into the graph as a constant. `eval()` on the traced module changes the attribute and
nothing else: printing `model.training` shows `False`, every check of the mode passes, and the batch norms still
normalize with the batch.

## Example

    net = torch.nn.Sequential(torch.nn.BatchNorm1d(1))     # in training mode, as it was made
    traced = torch.jit.trace(net, torch.tensor([[6.0], [8.0]])).eval()
    traced.training                                        # False
    traced(torch.tensor([[6.0], [8.0]]))[0]                # −1.0
    traced(torch.tensor([[6.0], [4.0]]))[0]                # +1.0: the companion decides

The input 6 becomes −1 beside 8 (mean 7, variance 1) and +1 beside 4 (mean 5, variance 1).
`torch.jit.script(net).eval()` gives the same answer for both, because scripted code reads the attribute.

## How to fix

    net.eval()                                             # before tracing
    traced = torch.jit.trace(net, example)

or use `torch.jit.script`, which obeys `eval()`. Trace from the original model: every forward pass of the wrong file
has also moved its own copy of the statistics. If the model was traced in eval mode after all, a functional call in
its `forward` trains for ever: `F.dropout(x, p)` and `F.batch_norm(..., training=True)` need `training=self.training`.

## Limits

- Scripted modules obey `eval()` and are never reported.
- Instance norm without running statistics always runs with the constant `True`; it is not reported, and neither is
  a batch norm that has no statistics at all (BN204).
- A frozen file (`torch.jit.freeze`) has no attribute left that could contradict; BN202 tells its constants.
- A dropout with p = 0, or whose probability is not in the file, is not reported here.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import NormKind, Part
from bnaudit.modes import ModeLayer, keeps_buffers, mode_layers
from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, rule

_ADVICE = (
    "call model.eval() before torch.jit.trace, and pass training=self.training to F.dropout and F.batch_norm: "
    "eval() on a traced module changes the flag, not the graph"
)


@rule(id="BN203", severity=Severity.ERROR, question=Question.EVAL_MODE)
def mode_contradicts_graph(case: Case) -> Iterator[Hit]:
    """One hit per layer of a traced module whose attribute and constant disagree."""
    for part in case.subject.parts:
        if not part.traced:
            continue
        outside = _not_over_the_batch(part)
        for layer in mode_layers(part):
            if layer.training is False and layer.graph_training and layer.name not in outside:
                yield _hit(part, layer)


def _not_over_the_batch(part: Part) -> set[str]:
    batch = (NormKind.BATCH, NormKind.SYNC_BATCH)
    return {layer.name for layer in part.layers if layer.kind not in batch or not keeps_buffers(layer)}


def _hit(part: Part, layer: ModeLayer) -> Hit:
    return Hit(
        message=f"its flag says eval, its recorded graph says training: it {layer.doing}",
        advice=_ADVICE,
        layer=layer.name,
        part=part.name,
        value="training form",
        limit="inference form",
    )
