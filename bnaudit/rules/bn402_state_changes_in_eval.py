"""A prediction in eval mode changes a parameter or a stored buffer of the model.

## What it finds

Parameters and persistent buffers are compared bit for bit before and after a forward in eval mode. What differs, by a
value that depends on the input, is an error. It is a note when the value is the same after another input of the same
shape: a cache (rotary tables, anchor grids), or a counter that counts predictions as training batches.

Observers of quantization that still learn their ranges are named as such.

## Why it matters

The model is not the same after a prediction as before. What is saved, hashed or copied to other replicas depends on
which requests were answered before, and sooner or later so do the predictions.

## Example

    class ActNorm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(1))
            self.initialized = False                     # no buffer: lost in every state dict

        def forward(self, x):
            if not self.initialized:
                self.scale.data.fill_(1 / x.std().item())
                self.initialized = True
            return x * self.scale

    norm = ActNorm().eval()
    norm.scale.data.fill_(3.0)                           # trained, saved, loaded again
    norm(torch.tensor([1.0, 3.0, 5.0]))                  # the scale is 0.5 now

## How to fix

Write in training only, and keep the flag in a buffer so that it is saved:

    self.register_buffer("initialized", torch.tensor(False))
    if self.training and not self.initialized: ...

For observers: `torch.ao.quantization.disable_observer(module)` (`model.apply` it), or convert the model. For a cache:
register it with `persistent=False`, so that state_dict() does not hold it.

## Limits

- Batch norm writes its running statistics without bumping PyTorch's version counter, and so do `.data` and
  `.numpy()`: so values are compared, not counters.
- Buffers that are not persistent and plain attributes are not reported here; where they change predictions, BN306
  tells.
- A norm in training mode after eval() is told by BN401 (BN202, BN203, BN207), what carries over into the next
  prediction by BN306.
- Where no second input could be tried, it is a note and the verdict stays open.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.measurement import StateInEval
from bnaudit.places import by_place, holder_of, trains_hidden
from bnaudit.results import Confidence, Hit, Question, Severity
from bnaudit.rules import Case, rule

_WRITE_IN_TRAINING = "write it in training mode only (if self.training:)"
_STOP_OBSERVERS = "stop the observers before serving: model.apply(torch.ao.quantization.disable_observer), or convert"
_NOT_PERSISTENT = "nothing to do for predictions; register a cache with persistent=False"
_TRY_TWO = "run two different inputs and compare the state after them"
_NAMES_SHOWN = 3


@rule(
    id="BN402",
    severity=Severity.ERROR,
    question=Question.EVAL_MODE,
    needs=("eval_mode",),
    yields_to=("BN202", "BN203", "BN306", "BN401"),
)
def state_changes_in_eval(case: Case) -> Iterator[Hit]:
    """One hit per module whose stored state changes."""
    if case.measured is None:
        return
    stored = [state for state in case.measured.of(StateInEval) if _is_stored(state)]
    for name, found in by_place((_holder(state), state) for state in stored).items():
        if trains_hidden(case.subject, name):
            continue
        if learning := [state for state in found if state.depends_on_data]:
            yield _learns(name, learning)
        elif unknown := [state for state in found if state.depends_on_data is None]:
            yield _cannot_tell(name, unknown)
        else:
            yield _cache(name, found)


def _is_stored(state: StateInEval) -> bool:
    return state.change.kind == "parameter" or (state.change.kind == "buffer" and state.change.persistent)


def _holder(state: StateInEval) -> str:
    return state.layer if state.layer is not None else holder_of(state.change)


def _learns(name: str | None, found: list[StateInEval]) -> Hit:
    observer = any(state.is_observer for state in found)
    subject = "an observer still learns its range from predictions" if observer else "a prediction in eval mode changes"
    return Hit(
        message=f"{subject}: {_named(found)}" if observer else f"{subject} {_named(found)}, by what the input holds",
        advice=_STOP_OBSERVERS if observer else _WRITE_IN_TRAINING,
        layer=name,
        value="changed",
        limit="unchanged",
    )


def _cannot_tell(name: str | None, found: list[StateInEval]) -> Hit:
    return Hit(
        message=f"a prediction in eval mode changes {_named(found)}; whether by the input's values was not found out",
        advice=_TRY_TWO,
        layer=name,
        value="changed",
        limit="unchanged",
        severity=Severity.NOTE,
        confidence=Confidence.MEDIUM,
        undecided="a prediction in eval mode changes stored state, perhaps a cache",
    )


def _cache(name: str | None, found: list[StateInEval]) -> Hit:
    counts = all(state.change.name.endswith("num_batches_tracked") for state in found)
    reading = "counts predictions as training batches" if counts else "the same value after any input, as a cache has"
    return Hit(
        message=f"a prediction in eval mode changes {_named(found)}: {reading}",
        advice=_WRITE_IN_TRAINING if counts else _NOT_PERSISTENT,
        layer=name,
        value="changed",
        limit="unchanged",
        severity=Severity.NOTE,
    )


def _named(found: list[StateInEval]) -> str:
    names = [state.change.name for state in found]
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
