"""The same batch from the same state gives other outputs: something random is at work.

## What it finds

The model is run twice on one batch, the second time from the restored state (parameters, buffers and attributes as
before). The outputs differ, so the difference was drawn at random. The operators that draw are named with their
modules. A difference below 64 rounding steps, which the order of parallel sums explains, is a note.

## Why it matters

A prediction cannot be reproduced, two replicas of one server disagree, and a test that compares outputs fails at
times. Most often a dropout is left on, and then predictions are also worse than they could be.

## Example

    class Net(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.dropout(x, 0.5)        # training=True is the default

    net = Net().eval()
    torch.manual_seed(0)
    net(torch.ones(8))        # some of the 8 values are 0, the others 2
    net(torch.ones(8))        # others are

## How to fix

    return torch.nn.functional.dropout(x, 0.5, training=self.training)

Noise that is added on purpose in training goes behind `if self.training:`. Where sampling is meant (Monte-Carlo
dropout, variational models), mark it as intended. Seeds are reset before each forward that is compared, so that the
other questions are still answered:

    bnaudit inspect net.pt --trust-pickle --intended 'BN302=prenet.*' --intended 'BN401=prenet.*'

## Limits

- Randomness leaves the question of batch sizes unchecked, intended or not: another shape draws other masks.
- A dropout or norm in training mode is told by the rule that knows why: BN401 after eval(), BN202 or BN203 in an
  exported graph, BN207 in a module that eval() does not reach.
- Where no operator that draws was seen (a custom kernel, NumPy inside forward()), the finding names no module. State
  that the model keeps outside of itself (globals, class attributes, closures) cannot be put back, and looks the same.
- All operators that draw are named, also one whose draw never reaches the output.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.measurement import Repeat
from bnaudit.places import by_place, described, drops_by_code, fixed_by_code, layer_at, trains_hidden
from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, rule
from bnaudit.session import RandomCall
from bnaudit.shift_wording import NOISE, amount, beyond, flips, limit, value

_SWITCH_OFF = "switch it off in eval mode (training=self.training), or mark it as intended"
_UNSEEN = (
    "look for random numbers drawn outside of the framework, for state outside of the model (globals, class "
    "attributes, closures), and for kernels that are not deterministic"
)
_ROUNDING = "torch.use_deterministic_algorithms(True) gives bit-equal sums, at some cost"


@rule(
    id="BN302",
    severity=Severity.ERROR,
    question=Question.EVAL_MODE,
    limits={"epsilons": NOISE},
    needs=("repeats",),
    yields_to=("BN202", "BN203", "BN401"),
)
def nondeterministic_prediction(case: Case) -> Iterator[Hit]:
    """One hit per module that draws; one on the artifact when none was seen."""
    if case.measured is None:
        return
    for repeat in case.measured.of(Repeat):
        if repeat.restored is None or repeat.restored.exact:
            continue
        if not beyond(repeat.restored, case.limits["epsilons"]):
            yield _rounding(case, repeat)
            continue
        drawing = [call for call in repeat.random if call.probability != 0]
        if not drawing:
            yield _hit(case, repeat, None, "no operator that draws was seen", _UNSEEN)
        for name, calls in by_place((_name(case, call), call) for call in drawing).items():
            told = all(call.is_dropout for call in calls) and drops_by_code(case.subject, name)
            if not told and not trains_hidden(case.subject, name):
                yield _hit(case, repeat, name, _draws(calls), _SWITCH_OFF)


def _name(case: Case, call: RandomCall) -> str | None:
    name = layer_at(case.subject, call.place)
    return fixed_by_code(case.subject, name) if call.is_dropout else name


def _draws(calls: list[RandomCall]) -> str:
    first = calls[0]
    share = f" with p = {first.probability:g}" if first.probability is not None else ""
    doing = f"it drops at random{share}" if first.is_dropout else "it draws random numbers"
    places = list(dict.fromkeys(filter(None, (described(call.place) for call in calls))))
    return doing + (f" ({'; '.join(places)})" if places else "")


def _hit(case: Case, repeat: Repeat, layer: str | None, what: str, advice: str) -> Hit:
    shift = repeat.restored or repeat.in_a_row
    return Hit(
        message=f"the same batch from the same state gives outputs that differ {amount(shift)}{flips(shift)}: {what}",
        advice=advice,
        layer=layer,
        value=value(shift),
        limit=limit(shift, case.limits["epsilons"]),
    )


def _rounding(case: Case, repeat: Repeat) -> Hit:
    shift = repeat.restored or repeat.in_a_row
    return Hit(
        message=f"the same batch from the same state gives outputs that differ {amount(shift)}, as rounding does",
        advice=_ROUNDING,
        value=value(shift),
        limit=limit(shift, case.limits["epsilons"]),
        severity=Severity.NOTE,
    )
