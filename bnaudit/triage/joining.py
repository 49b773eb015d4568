"""Two hypotheses at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from bnaudit.diagnosis import Hypothesis
from bnaudit.variation import Altered

_STATEFUL = ("swapped-moments", "reordered-layers", "reused-layer")
"""Names of hypotheses that move values of the saved part's own state, which another part does not have."""


def joined(one: Hypothesis, other: Hypothesis, hidden: bool = False) -> Hypothesis | None:
    """Both together; None: they are about the same thing, or cannot both be.

    hidden: also where one makes no difference beside the other.
    """
    if one.singles or other.singles or not _are_compatible(one, other, hidden):
        return None
    faults = [fault for fault in (one.input_fault, other.input_fault) if fault]
    return Hypothesis(
        name=f"{one.name} + {other.name}",
        claim=f"{one.claim}, and {other.claim}",
        advice=f"{one.advice}; {other.advice}",
        layers=tuple(dict.fromkeys([*one.layers, *other.layers])),
        variation=one.variation.joined(other.variation),
        input_fault=" + ".join(faults),
        batching=other.batching if one.batching == "any" else one.batching,
        part=other.part if one.part is None else one.part,
        singles=(one.key, other.key),
    )


def joined_pairs(hypotheses: Sequence[Hypothesis]) -> Iterator[tuple[Hypothesis, Hypothesis, Hypothesis]]:
    """(one, other, both) of every two that can be true at once, in their order."""
    different = list({hypothesis.key: hypothesis for hypothesis in hypotheses}.values())
    for one, other in combinations(different, 2):
        both = joined(one, other)
        if both is not None:
            yield one, other, both


def _are_compatible(one: Hypothesis, other: Hypothesis, hidden: bool) -> bool:
    if one.name == other.name or "eval-as-saved" in (one.name, other.name):
        return False
    if _family(one) == _family(other) or "any" not in (one.batching, other.batching):
        return False
    if one.part is not None or other.part is not None:
        return not (one.part is not None and other.part is not None) and not {one.name, other.name} & {*_STATEFUL}
    if not hidden and any(_is_hidden(first, second) for first, second in ((one, other), (other, one))):
        return False
    shared = one.variation.layers.keys() & other.variation.layers.keys()
    return not any(_fields(one.variation.layers[name]) & _fields(other.variation.layers[name]) for name in shared)


def _is_hidden(one: Hypothesis, trained: Hypothesis) -> bool:
    """It changes nothing but stored statistics of layers that the other one puts into training mode."""
    layers = one.variation.layers
    if not layers or one.part is not None or one.input_fault:
        return False
    return all(
        _fields(altered) <= {"mean", "var"}
        and name in trained.variation.layers
        and trained.variation.layers[name].training
        for name, altered in layers.items()
    )


def _family(hypothesis: Hypothesis) -> str:
    """`epsilon` of `epsilon:0.001`: one model has one of a family. Of faults of inputs, one of each kind."""
    return hypothesis.name.partition(":")[0]


def _fields(altered: Altered) -> set[str]:
    values = {field: getattr(altered, field) for field in Altered._fields}
    return {field for field, value in values.items() if value is not None and value is not False}


def contains(larger: tuple[Hypothesis, ...], smaller: tuple[Hypothesis, ...]) -> bool:
    """Whether all that the smaller one's parts say is said by the larger one's."""
    return all(any(_within(small, large) for large in larger) for small in smaller)


def _within(small: Hypothesis, large: Hypothesis) -> bool:
    if small.key == large.key:
        return True
    same = small.name == large.name and small.batching == large.batching
    return same and bool(small.layers) and set(small.layers) <= set(large.layers or small.layers)
