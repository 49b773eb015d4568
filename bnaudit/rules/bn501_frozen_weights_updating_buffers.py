"""The weights of a batch norm are frozen, but its running statistics keep moving.

## What it finds

In a pickled module, or in a model that was run: a batch norm that tracks statistics, is in training mode, and whose
weight and bias have `requires_grad = False`, while other parameters of the model train. A batch norm without weight
and bias counts as frozen when the module that directly holds it has parameters and none of them, at any depth, trains.

The file shows the modes at the moment of saving. A run decides instead where there is one: `model.train()` is called
as the user wrote it, and the modes after it count.

## Why it matters

`requires_grad_(False)` stops gradients. It does not stop the running statistics: in training mode every forward pass
replaces a share (the momentum) of them by the new data's, also under `torch.no_grad()`. A backbone "frozen" this way
drifts away from what it was during fine-tuning, a second model that shares it gets other features, and nothing in
the list of trained parameters shows it.

## Worked arithmetic

A frozen batch norm (momentum 0.1), statistics 0 and 1, is fed batches with mean 5 and unbiased variance 4:

    after  1 forward    mean 5·(1 − 0.9)     = 0.5     variance 4 − 3·0.9     = 1.3
    after 20 forwards   mean 5·(1 − 0.9^20)  = 4.39    variance 4 − 3·0.9^20  = 3.64

No optimizer step was taken, and `weight` and `bias` are bit for bit the same.

## How to fix

A frozen batch norm has to be in eval mode while the rest trains, after *each* `model.train()`:

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()             # norms of the frozen part use and keep their statistics
        return self

or replace it by `torchvision.ops.FrozenBatchNorm2d`. If the statistics have moved already, restore them from the
checkpoint that the frozen weights came from.

## Limits

- Without a run (`--trust-pickle`, `--model`), a model saved in eval mode is not reported. With one, it is when its
  `train()` switches frozen norms to training, and a backbone whose own `train()` keeps them in eval is silent.
- When no parameter of the model trains, it is an ordinary model in training mode (BN201).
- A batch norm without weight and bias that stands in a block with parameters that train, or in one without any, is
  not reported: nothing says that it is meant to be frozen.
- Momentum 0 keeps the statistics and is told by BN208. Instance norm is not reported.
- A subclass whose name says neither batch nor instance: medium confidence.
- Unknown flags (files from before PyTorch 0.4) stay silent.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import Carrier, NormKind, NormLayer, Part
from bnaudit.measurement import Trained
from bnaudit.modes import is_frozen_but_updating, something_trains
from bnaudit.results import Confidence, Hit, Question, Severity
from bnaudit.rules import Case, rule


@rule(id="BN501", severity=Severity.ERROR, question=Question.FROZEN)
def frozen_weights_updating_buffers(case: Case) -> Iterator[Hit]:
    """One hit per frozen batch norm in training mode in a model that trains."""
    trained = case.measured.of(Trained) if case.measured is not None else ()
    if case.measured is not None and trained:
        for found in trained:
            yield from _part(found.part, case.measured.part or found.part.name, live=True)
        return
    for part in case.subject.parts:
        if part.carrier is Carrier.MODULE:
            yield from _part(part, part.name, live=False)


def _part(part: Part, name: str, live: bool) -> Iterator[Hit]:
    if something_trains(part):
        for layer in part.layers:
            if is_frozen_but_updating(layer):
                yield _hit(name, layer, live)


def _hit(part: str, layer: NormLayer, live: bool) -> Hit:
    mode = "model.train() puts it in training mode" if live else "it is in training mode"
    frozen = "weight and bias are" if layer.block_requires_grad is None else "the block around it is"
    return Hit(
        message=f"{frozen} frozen, but {mode}: every forward pass moves its statistics",
        advice="put frozen norms in eval mode after every model.train(), or use FrozenBatchNorm2d",
        layer=layer.name,
        part=part,
        value="training",
        limit="eval",
        confidence=Confidence.MEDIUM if layer.kind is NormKind.UNKNOWN else Confidence.HIGH,
    )
