"""Which hypotheses can be true together."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from bnaudit.diagnosis import Hypothesis
from bnaudit.triage.joining import contains, joined
from bnaudit.variation import Altered, Variation


def hypothesis(name: str, layers: tuple[str, ...] = (), batching: str = "any", **fields: object) -> Hypothesis:
    changes = {layer: Altered(**fields) for layer in layers or ("a", "b")} if fields else {}
    return Hypothesis(
        name=name,
        claim=name,
        advice=f"mend {name}",
        layers=layers,
        batching=batching,
        variation=Variation(layers=MappingProxyType(changes)),
    )


def test_a_pair_says_what_both_say() -> None:
    one, other = hypothesis("training-mode", ("a",), "together", training=True), hypothesis("epsilon:0.001", eps=1e-3)
    both = joined(one, other)
    assert both is not None
    assert both.batching == "together"
    assert both.singles == ("training-mode + a + together", "epsilon:0.001 + any")
    assert both.variation.layers["a"].training
    assert both.variation.layers["a"].eps == 1e-3


def test_two_changes_of_the_same_numbers_cannot_both_be() -> None:
    zeros, ones = np.zeros(2), np.ones(2)
    assert joined(hypothesis("lost-buffers", mean=zeros, var=ones), hypothesis("swapped-moments", mean=ones)) is None
    assert joined(hypothesis("epsilon:0.001", eps=1e-3), hypothesis("epsilon:0", eps=0.0)) is None


def test_stored_statistics_do_not_matter_where_the_batch_is_used() -> None:
    lost = hypothesis("lost-buffers", ("a",), mean=np.zeros(2), var=np.ones(2))
    assert joined(lost, hypothesis("training-mode", batching="together", training=True)) is None
    assert joined(lost, hypothesis("training-mode", ("b",), "together", training=True)) is not None


def test_a_larger_set_of_layers_contains_a_smaller_one() -> None:
    small, large = hypothesis("training-mode", ("a",), training=True), hypothesis("training-mode", ("a", "b"))
    assert contains((large,), (small,))
    assert not contains((small,), (large,))
    assert contains((small, hypothesis("epsilon:0.001", eps=1e-3)), (small,))
