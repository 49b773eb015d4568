"""A module stands where eval(), state_dict() and to() do not reach it.

## What it finds

In a pickled module: a module inside a plain list, tuple, dict, set or foreign object that is an attribute of another
module, and that is not registered anywhere else. PyTorch registers what is assigned directly to an attribute of a
module and what stands in ModuleList, ModuleDict or Sequential, nothing else. The file is read without running it:
two references to one object are recognised by the pickle's own memo.

It is an error when a layer that depends on the mode (batch norm, dropout, …) in it is in training mode, otherwise a
warning.

## Why it matters

`model.eval()` visits registered modules only. A batch norm in a plain list stays in training mode for ever: it
normalizes with the batch, and each prediction moves its statistics. `state_dict()` does not contain it, so that its
weights and statistics are lost when the model is saved that way; `parameters()` does not either, so that the
optimizer never trains it.

## Example

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = [torch.nn.BatchNorm1d(1), torch.nn.BatchNorm1d(1)]      # a plain list

    net = Net().eval()
    net.training               # False
    net.norms[0].training      # True
    net.state_dict()           # empty

After `eval()` the input 6 still becomes −1 beside 8 and +1 beside 4.

## How to fix

    self.norms = torch.nn.ModuleList([torch.nn.BatchNorm1d(1), torch.nn.BatchNorm1d(1)])

(ModuleDict for a dict). The keys of the state dict become `norms.0.weight`, …; a state dict saved before does not
hold them, so take the values from the pickled module. A teacher that is hidden on purpose has to be put in eval mode
by its owner; mark it as intended in the settings.

## Limits

- Only pickled modules show it. A state dict simply lacks the layers.
- The same object that is also registered somewhere is not reported.
- A deliberately hidden module in eval mode stays a warning: the file cannot say that it was meant.
- Modules that are made inside `forward` or held by a closure are not in the file.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import HiddenModule, Part
from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, rule

_ADVICE = "register it: ModuleList or ModuleDict in place of a list or dict, or assign it to an attribute of the module"


@rule(id="BN207", severity=Severity.ERROR, question=Question.EVAL_MODE)
def unregistered_module(case: Case) -> Iterator[Hit]:
    """One hit per module that is only reachable through something that PyTorch does not visit."""
    for part in case.subject.parts:
        for hidden in part.hidden:
            yield _hit(part, hidden)


def _hit(part: Part, hidden: HiddenModule) -> Hit:
    class_name = hidden.class_name.rpartition(".")[2]
    unknown = bool(hidden.mode_dependent) and not hidden.in_training
    return Hit(
        message=f"a {class_name} that eval(), state_dict() and to() do not reach{_mode(hidden)}",
        advice=_ADVICE,
        layer=hidden.path,
        part=part.name,
        value="not registered",
        limit="registered",
        severity=Severity.ERROR if hidden.in_training else Severity.WARNING,
        # What is not in training mode holds its mode for now; what is lost is its state.
        settles=hidden.in_training,
        undecided="the mode of a module that eval() does not reach is not in the file" if unknown else "",
    )


def _mode(hidden: HiddenModule) -> str:
    if hidden.in_training:
        return ", in training mode"
    return "; its mode is not in the file" if hidden.mode_dependent else ""
