"""A prediction depends on the other inputs that happen to stand in the same batch.

## What it finds

The model is run on a batch of anchors and companions, then with the companions exchanged for others, then with the
same companions × 100, at one batch size and always from the same state. A difference of exactly 0 in the anchors'
outputs is passed; beyond 64 rounding steps (eps of the output's dtype × its scale) it is a leak; between the two,
float64 decides: kernel noise shrinks with eps, a leak does not.

Every place where samples meet is named: the anchors' rows go into it equal and come out unequal. To look behind a
norm, the exchange is repeated with the norm's statistics held fixed.

## Why it matters

The same input gets another answer in another request, at another load of the server, or beside a hostile neighbour.
Accuracy depends on the batch size and on how the test set was sorted.

## Example

    norm = torch.nn.BatchNorm1d(1, affine=False, track_running_stats=False).eval()
    norm(torch.tensor([[6.0], [8.0]]))[0]             # −1.0
    norm(torch.tensor([[6.0], [4.0]]))[0]             # +1.0

    scores = torch.tensor([[1.0, 2.0], [1.0, 2.0]])
    scores.softmax(dim=0)[0]                          # 0.5, 0.5: over the batch, not over the classes
    scores.softmax(dim=1)[0]                          # 0.2689, 0.7311

## How to fix

By what mixes:

    BatchNorm2d(8, track_running_stats=False)   ->  tracking on, then update_bn; or GroupNorm
    F.batch_norm(x, m, v, training=True)        ->  training=self.training
    softmax(dim=0), cumsum(0), sort(0)          ->  dim=1 or dim=-1
    LSTM(8, 8) given (batch, time, 8)           ->  LSTM(8, 8, batch_first=True)
    x.std(dim=0), minibatch discrimination      ->  a stored value in eval mode
    dynamic quantization of activations         ->  static ranges from calibration

A model that looks at its batch on purpose (few-shot learning, test-time adaptation) can be marked as intended.

## Limits

- Rounding differs between batch sizes, also in healthy models; so one size is kept, and only the companions change.
- It is decided on the inputs given and for one batch size. Companions that are equal bit by bit, or a head that is 0
  and gives all anchors one output, leave it open.
- Companions of another length: BN304. A batch of one that is treated apart: BN303.
- The more specific rule speaks alone: a norm in training mode after eval() is told by BN401, one exported so by
  BN202, BN203 or BN211, one that eval() does not reach by BN207, a SyncBatchNorm by BN210.
- On synthetic sequences for a module, which axis holds the samples is a guess: recurrent layers and attention that
  run along it are a note, and the question stays open.
- A NaN that reaches the anchors while the exchange is exact (0 × NaN in a mask) is a note: one bad input poisons
  its batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bnaudit.description import Carrier, Description
from bnaudit.measurement import EvalDropout, Measured, Mixing, PoisonedBatch, Repeat, Swap
from bnaudit.mixing_causes import REARRANGED, Cause, usual_cause
from bnaudit.places import by_place, described, fixed_by_code, layer_at, trains_hidden
from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, rule
from bnaudit.session import Place
from bnaudit.shift_wording import NOISE, amount, beyond, flips, limit, value
from bnaudit.single_samples import refusal

_NOT_LOCATED = Cause("", "run it again with a larger budget to locate the operator; look at what works along axis 0")
_NONE_FOUND = Cause("", "look for state outside of the graph, or operators that see the whole batch at once")


@rule(
    id="BN301",
    severity=Severity.ERROR,
    question=Question.NEIGHBOURS,
    limits={"epsilons": NOISE},
    needs=("neighbours",),
    yields_to=("BN202", "BN203", "BN210", "BN211", "BN401"),
)
def neighbour_dependent_prediction(case: Case) -> Iterator[Hit]:
    """One hit per place where samples meet, since each may be intended by itself."""
    if case.measured is None:
        return
    for swap in case.measured.of(Swap):
        if _leaks(swap, case.limits["epsilons"]):
            yield from _places(case, case.measured, swap)
    for poisoned in case.measured.of(PoisonedBatch):
        yield _poisoned(case, poisoned)


def _leaks(swap: Swap, epsilons: float) -> bool:
    """Below the limit of noise float64 or the gradient has decided, so only a higher limit of the user's overrules."""
    measured = (swap.other, swap.scaled, swap.double)
    return swap.leaks is True and (epsilons <= NOISE or any(beyond(shift, epsilons) for shift in measured))


def _places(case: Case, measured: Measured, swap: Swap) -> Iterator[Hit]:
    mixing = _without_chance(measured, swap)
    if not swap.mixing:
        cause = _NONE_FOUND if swap.located else _NOT_LOCATED
        where = "no operator was seen to mix samples" if swap.located else "what mixes them was not located"
        yield _hit(case, swap, None, where, cause.advice)
    named = by_place((_layer(case.subject, found), found) for found in mixing)
    for name, found in _of_one_scope(case.subject, named).items():
        if not trains_hidden(case.subject, name):
            cause = usual_cause(found[0])
            alone = refusal(measured) if found[0].is_norm else ""
            yield _hit(case, swap, name, _mixes(found, cause) + alone, cause.advice)


def _layer(subject: Description, found: Mixing) -> str | None:
    """Where to look: at the reshape that laid the samples elsewhere rather than at what then mixed them."""
    if found.unseen:
        return None
    reshape = found.arranged or found.gathered
    place = reshape if reshape is not None and usual_cause(found) is REARRANGED else found.place
    name = layer_at(subject, place, found.layer)
    return fixed_by_code(subject, name) if found.is_norm else name


def _of_one_scope(subject: Description, named: Mapping[str | None, list[Mixing]]) -> Mapping[str | None, list[Mixing]]:
    """Nodes of one scope of a graph (`/middle/Sub`, `/middle/Mul`) that mix for one cause are told as the first."""
    if not any(part.carrier is Carrier.GRAPH for part in subject.parts):
        return named
    groups: dict[tuple[str, Cause], str | None] = {}
    merged: dict[str | None, list[Mixing]] = {}
    for name, found in named.items():
        scope = (name or "").rpartition("/")[0]
        first = groups.setdefault((scope, usual_cause(found[0])), name) if scope and not found[0].is_norm else name
        merged.setdefault(first, []).extend(found)
    return merged


def _without_chance(measured: Measured, swap: Swap) -> list[Mixing]:
    """The places but for operators that draw: where seeds cannot be reset, equal rows leave them unequal by chance."""
    calls = [drop.call for drop in measured.of(EvalDropout)]
    calls += [call for repeat in measured.of(Repeat) for call in repeat.random]
    drawing = {call.place.operator for call in calls} - {""}
    return [found for found in swap.mixing if found.is_norm or found.place.operator not in drawing]


def _mixes(found: list[Mixing], cause: Cause) -> str:
    ways = [place for each in found for place in (each.gathered or each.arranged, each.place) if place is not None]
    places = list(dict.fromkeys(filter(None, map(described, ways))))
    hidden = ", not registered or made in forward()" if found[0].place.hidden else ""
    return cause.doing + (f" ({'; '.join(places)}{hidden})" if places else "")


def _hit(case: Case, swap: Swap, layer: str | None, what: str, advice: str) -> Hit:
    epsilons = case.limits["epsilons"]
    shift, how = swap.other, "with other companions a prediction differs"
    if beyond(swap.alone, epsilons) and swap.alone is not None:
        shift, how = swap.alone, "a prediction alone and with companions differs"
    elif swap.scaled is not None and not beyond(shift, epsilons) and (beyond(swap.scaled, epsilons) or shift.exact):
        shift, how = swap.scaled, "with its companions × 100 a prediction differs"
    companions = ", one companion is enough" if swap.smallest_set == 1 else ""
    return Hit(
        message=f"{how} {amount(shift)}{flips(shift)}{companions}: {what}",
        advice=advice,
        layer=layer,
        value=value(shift),
        limit=limit(shift, epsilons),
        severity=Severity.NOTE if swap.undecided else None,
        undecided=swap.undecided,
    )


def _poisoned(case: Case, poisoned: PoisonedBatch) -> Hit:
    place = poisoned.place or Place()
    at = described(place)
    return Hit(
        message="a NaN in one input reaches the others of its batch, though its values do not"
        + (f": {at}" if at else ""),
        advice="refuse inputs that are not finite, or select with torch.where in place of a product with 0",
        layer=layer_at(case.subject, place),
        value="NaN",
        severity=Severity.NOTE,
    )
