"""A layer that depends on the mode was saved in training mode.

## What it finds

A pickled module or a TorchScript file stores the `training` flag of every module. This rule reports each layer
that computes something else in training mode (batch norm, instance norm with running statistics, dropout with
p > 0, recurrent layers and attention with dropout, RReLU, stochastic depth) and whose flag is true.

It is a warning in a pickled module, because most code calls `model.eval()` after loading, and an error in
TorchScript, because a deployed script is usually run as it was saved. In a traced file the flag has no effect;
there the constants in the code count (BN202, BN203).

## Why it matters

`torch.load` and `torch.jit.load` give the model back in the mode in which it was saved. In training mode a batch
norm ignores its stored statistics, so that a prediction depends on the other inputs of the batch, and every
forward pass, also under `torch.no_grad()`, changes the running statistics. Dropout makes predictions random. Where the
model was run in both modes, the finding says how far the outputs moved.

## Worked arithmetic

A batch norm (momentum 0.1, no affine) saw the batches (2, 4) and (6, 8):

    running mean      0.9·(0.9·0 + 0.1·3) + 0.1·7 = 0.97
    running variance  0.9·(0.9·1 + 0.1·2) + 0.1·2 = 1.19

The input 6 in the batch (6, 8) then becomes

    in eval mode      (6 − 0.97) / √(1.19 + 1e-5) =  4.61
    in training mode  (6 − 7) / √(1 + 1e-5)       = −1.00

## How to fix

    model = torch.load("model.pt", weights_only=False)
    model.eval()                       # after loading, always
    torch.save(model, "model.pt")      # and saved in eval mode, it stays right

For TorchScript call `scripted.eval()` before `torch.jit.save`. Dropout that samples on purpose (Monte-Carlo
dropout) can be marked as intended in the settings.

## Limits

- A state dict holds no flags: the rule is silent there.
- The rule sees what was saved, not whether your code calls `eval()` after loading.
- A dropout whose probability is not in the file is not reported: with p = 0 it would do nothing.
- A layer in a module that `eval()` cannot reach is told by BN207, a frozen batch norm that keeps updating by BN501.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import Carrier, Part
from bnaudit.measurement import AsSaved
from bnaudit.modes import ModeLayer, mode_layers
from bnaudit.results import Confidence, Hit, Question, Severity
from bnaudit.rules import Case, rule
from bnaudit.shift_wording import amount, flips

_ADVICE = {
    Carrier.MODULE: "call model.eval() before torch.save, and after torch.load",
    Carrier.SCRIPT: "call eval() before torch.jit.save, or after torch.jit.load",
}


@rule(
    id="BN201",
    severity=Severity.WARNING,
    question=Question.EVAL_MODE,
    yields_to=("BN202", "BN203", "BN207", "BN401", "BN501"),
)
def saved_in_training_mode(case: Case) -> Iterator[Hit]:
    """One hit per mode-dependent layer whose stored flag says training and is obeyed."""
    for part in case.subject.parts:
        if part.carrier not in _ADVICE or part.traced is True:
            continue
        for layer in mode_layers(part):
            if layer.training and layer.graph_training is None and not layer.hidden:
                yield _hit(part, layer, _moved(case, part))


def _moved(case: Case, part: Part) -> str:
    """What running it as saved showed, against eval mode."""
    if case.measured is None or case.measured.part != part.name:
        return ""
    found = [saved for saved in case.measured.of(AsSaved) if not saved.shift.exact]
    if not found:
        return ""
    size = f"{amount(found[0].shift)}{flips(found[0].shift)}"
    random = ", and are random" if found[0].random else ""
    return f"; as saved, the outputs differ from those in eval mode {size}{random}"


def _hit(part: Part, layer: ModeLayer, moved: str) -> Hit:
    script = part.carrier is Carrier.SCRIPT
    return Hit(
        message=f"saved in training mode: it {layer.doing}{moved}",
        advice=f"{_ADVICE[part.carrier]}; then {layer.remedy}",
        layer=layer.name,
        part=part.name,
        value="training",
        limit="eval",
        severity=Severity.ERROR if script else Severity.WARNING,
        # Whether a TorchScript file was traced decides whether the flag means anything.
        confidence=Confidence.MEDIUM if script and part.traced is None else Confidence.HIGH,
    )
