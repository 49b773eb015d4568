"""Some layers of one model are in training mode and others in eval mode.

## What it finds

A pickled module, script or graph in which at least one layer that depends on the mode (see BN201) is in training
mode and at least one other in eval mode. Both sets are listed. One note per model.

## Why it matters

The mixture is often intended: a backbone whose norms are kept in eval mode while the rest trains, or dropout left
on for Monte-Carlo sampling. It is also what an accident leaves behind: a conversion that rebuilt some layers (a new
module is in training mode by default), a `train()` override that forgets a branch, or `eval()` called on a part
of the model. The two lists show at a glance which one it is.

## Example

    model.eval()
    model.head = torch.nn.Sequential(torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 10))   # a new head
    torch.save(model, "model.pt")

Every module is born in training mode. The report says: *1 layer in training mode (head.0), 20 in eval mode
(layer{1..4}.{0,1}.bn{1,2}, …)*. One call of `model.eval()` after the surgery sets all of them.

## How to fix

Call `model.eval()` once, on the outermost module, after all changes to it and before saving or exporting. Where a
backbone's norms shall stay in eval mode during training, override `train()` so that they do:

    def train(self, mode=True):
        super().train(mode)
        for module in self.backbone.modules():
            if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
                module.eval()
        return self

## Limits

- LayerNorm, GroupNorm, RMSNorm, instance norm without running statistics and dropout with p = 0 have no modes and
  stand in neither list.
- A layer whose mode the file does not say stands in neither list.
- In a traced script and in a graph the constants of the graph count, not the flags.
- Layers that `eval()` cannot reach are left out; BN207 tells them.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import Part
from bnaudit.modes import fixed_or_stored_mode, mode_layers
from bnaudit.name_patterns import compress
from bnaudit.results import Hit, Severity
from bnaudit.rules import Case, rule

_PATTERNS_SHOWN = 4


@rule(id="BN206", severity=Severity.NOTE)
def mixed_modes(case: Case) -> Iterator[Hit]:
    """At most one hit per part."""
    for part in case.subject.parts:
        modes = {layer.name: fixed_or_stored_mode(part, layer) for layer in mode_layers(part) if not layer.hidden}
        training = [name for name, mode in modes.items() if mode is True]
        evaluating = [name for name, mode in modes.items() if mode is False]
        if training and evaluating:
            yield _hit(part, training, evaluating, list(modes))


def _hit(part: Part, training: list[str], evaluating: list[str], names: list[str]) -> Hit:
    noun = "layer" if len(training) == 1 else "layers"
    return Hit(
        message=f"{len(training)} {noun} in training mode ({_listed(training, names)}), "
        f"{len(evaluating)} in eval mode ({_listed(evaluating, names)})",
        advice="if the mixture is not intended, call eval() on the outermost module before saving",
        part=part.name,
        value=len(training),
        limit=0,
    )


def _listed(chosen: list[str], names: list[str]) -> str:
    patterns = compress(chosen, names)
    hidden = sum(len(members) for _, members in patterns[_PATTERNS_SHOWN:])
    shown = ", ".join(label or "the model itself" for label, _ in patterns[:_PATTERNS_SHOWN])
    return f"{shown} and {hidden} more" if hidden else shown
