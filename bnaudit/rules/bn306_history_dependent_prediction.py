"""A prediction depends on the batches that were run before it.

## What it finds

The same batch is run twice in a row, and the second answer is another one. Run a second time from the restored state,
it is the first answer again, bit for bit: nothing is random, something was carried over. The buffers, parameters and
attributes that the first forward left changed are named with the module that holds them.

An answer, or a part of one, that is kept and given again for the next batch is the same twice in a row. So where
something was left behind that depends on the data, the batch is also run after another one.

## Why it matters

A prediction depends on which requests a server answered before, on the order of the test set, and on how many
replicas share the load. It cannot be reproduced from the input alone.

## Worked arithmetic

A module keeps a moving average of what it sees, in eval mode too, and subtracts it:

    self.average = 0.9 · self.average + 0.1 · mean(x);   return x − self.average

    first call   x = 10    average 0.9·0 + 0.1·10 = 1       answer 10 − 1   = 9
    second call  x = 10    average 0.9·1 + 0.1·10 = 1.9     answer 10 − 1.9 = 8.1

## How to fix

Update in training only:

    if self.training:
        self.average.mul_(0.9).add_(0.1 * x.mean())
    return x - self.average

A streaming model that is meant to remember (speech, control) has to be reset between inputs that do not belong
together, or take its state as an input and return it. Mark it as intended, then it is a note:

    bnaudit inspect vad.jit --run --intended 'BN306=*'

## Limits

- Where repeats differ also from the restored state, the model is random (BN302) and history cannot be told from it.
- A difference below 64 rounding steps is a note.
- Everything that changed is named; which of it the prediction reads is not measured. Running statistics of a norm
  that normalizes with the batch are not read, and are left out where something else changed.
- State that is reachable neither as a buffer, a parameter nor an attribute (a closure, a file) is found by its
  effect and not named.
- State that changes without any effect on the repeat is told by BN402.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.measurement import EvalNorm, Repeat, Shift, StateInEval
from bnaudit.places import by_place, holder_of
from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, rule
from bnaudit.session import StateChange
from bnaudit.shift_wording import NOISE, amount, beyond, flips, limit, value

_ADVICE = "change state in training mode only, or take it as an input and return it; a streaming model can be intended"
_NAMES_SHOWN = 3
_PLURALS = {"buffer": "buffers", "parameter": "parameters", "attribute": "attributes"}


@rule(
    id="BN306",
    severity=Severity.ERROR,
    question=Question.EVAL_MODE,
    limits={"epsilons": NOISE},
    needs=("repeats",),
    yields_to=("BN401",),
)
def history_dependent_prediction(case: Case) -> Iterator[Hit]:
    """One hit per module that holds what changed; one on the artifact when no change was seen."""
    if case.measured is None:
        return
    for repeat in case.measured.of(Repeat):
        shift = _carried_shift(repeat)
        if shift.exact or (repeat.after_others is None and _is_random(repeat, case.limits["epsilons"])):
            continue
        severe = beyond(shift, case.limits["epsilons"])
        changes = _carriers(case, repeat)
        if not changes:
            yield _hit(case, repeat, None, [], severe)
        for holder, held in by_place((holder_of(change), change) for change in changes).items():
            if severe or not _told_by_its_state(case, holder):
                yield _hit(case, repeat, holder, held, severe)


def _carried_shift(repeat: Repeat) -> Shift:
    """How far what was carried over moves the outputs."""
    return repeat.after_others if repeat.after_others is not None else repeat.in_a_row


def _is_random(repeat: Repeat, epsilons: float) -> bool:
    """Whether the repeat from the restored state differs about as much."""
    restored = repeat.restored
    if restored is None or restored.exact:
        return restored is None
    return beyond(restored, epsilons) or not beyond(repeat.in_a_row, epsilons)


def _carriers(case: Case, repeat: Repeat) -> list[StateChange]:
    """What may have carried it over: running statistics that nothing reads only when there is nothing else."""
    unread = set()
    if case.measured is not None:
        unread = {norm.layer for norm in case.measured.of(EvalNorm) if norm.layer is not None}
    read = [change for change in repeat.changes if holder_of(change) not in unread]
    return read or list(repeat.changes)


def _told_by_its_state(case: Case, holder: str | None) -> bool:
    """Whether BN402 finds an error there, which a note about rounding must not take the place of.

    BN402 tells of parameters and stored buffers alone.
    """
    found = case.measured.of(StateInEval) if case.measured is not None else ()
    stored = (state for state in found if _is_stored(state.change))
    return any(state.depends_on_data and holder_of(state.change) == holder for state in stored)


def _is_stored(change: StateChange) -> bool:
    return change.kind == "parameter" or (change.kind == "buffer" and change.persistent)


def _hit(case: Case, repeat: Repeat, layer: str | None, held: list[StateChange], severe: bool) -> Hit:
    shift = _carried_shift(repeat)
    size = f"{amount(shift)}{flips(shift)}"
    when = "after another batch" if repeat.after_others is not None else "twice in a row"
    return Hit(
        message=f"the same batch {when} gives outputs that differ {size}: {_carried(held)}",
        advice=_ADVICE,
        layer=layer,
        value=value(shift),
        limit=limit(shift, case.limits["epsilons"]),
        severity=Severity.ERROR if severe else Severity.NOTE,
    )


def _carried(held: list[StateChange]) -> str:
    if not held:
        return "no buffer, parameter or attribute that was looked at changed, so it is kept elsewhere"
    names = [change.name for change in held]
    shown = ", ".join(names[:_NAMES_SHOWN]) + (f" and {len(names) - _NAMES_SHOWN} more" if names[_NAMES_SHOWN:] else "")
    kinds = {change.kind for change in held}
    kind = kinds.pop() if len(kinds) == 1 else ""
    if len(held) == 1:
        return f"the {kind} {shown} was carried over"
    return f"{f'the {_PLURALS[kind]} ' if kind in _PLURALS else ''}{shown} were carried over"
