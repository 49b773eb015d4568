"""BN302: another answer from the same state."""

from __future__ import annotations

import torch
from builders import description, part
from measured import EXACT, LARGE, NOISE, random_call, run_hits, shift

from bnaudit.description import Carrier, HiddenModule, ModeDependent
from bnaudit.measurement import Repeat
from bnaudit.results import Severity
from bnaudit.session import RandomCall

RULE = "bn302_nondeterministic_prediction"


def repeat(*random: RandomCall, **fields: object) -> Repeat:
    return Repeat(**{"in_a_row": LARGE, "restored": LARGE, "random": random, **fields})


def test_each_module_that_draws_is_a_hit() -> None:
    found = run_hits(RULE, repeat(random_call("a"), random_call("a"), random_call("b", None, is_dropout=False)))
    assert [hit.layer for hit in found] == ["a", "b"]
    assert found[0].severity is None
    assert (found[0].value, found[0].limit) == (0.5, 1.5e-5)
    assert found[0].message.endswith("it drops at random with p = 0.5 (aten.bernoulli_ in Dropout, net.py:43)")
    assert "it draws random numbers (" in found[1].message


def test_equal_repeats_are_silent_whatever_draws() -> None:
    assert not run_hits(RULE, repeat(random_call(), in_a_row=EXACT, restored=None))
    assert not run_hits(RULE, repeat(random_call(), restored=EXACT))


def test_a_difference_as_small_as_rounding_is_a_note() -> None:
    (hit,) = run_hits(RULE, repeat(random_call(), in_a_row=NOISE, restored=NOISE))
    assert (hit.layer, hit.severity) == (None, Severity.NOTE)


def test_without_an_operator_that_draws_it_is_on_the_artifact() -> None:
    (hit,) = run_hits(RULE, repeat())
    assert hit.layer is None
    assert "no operator that draws was seen" in hit.message


def test_a_dropout_of_probability_0_draws_nothing() -> None:
    (hit,) = run_hits(RULE, repeat(random_call("off", 0.0)))
    assert hit.layer is None


def test_a_hidden_dropout_in_training_mode_is_told_by_its_own_rule() -> None:
    hidden = HiddenModule(path="drops[0]", class_name="Dropout", training=True, mode_dependent=(), in_training=True)
    subject = description(part([], carrier=Carrier.MODULE, hidden=(hidden,)))
    assert not run_hits(RULE, repeat(random_call("drops[0]")), subject=subject)


def test_a_dropout_of_a_script_that_its_code_fixes_is_told_by_name() -> None:
    drop = ModeDependent(name="drop", kind="dropout", class_name="Dropout", probability=0.5, graph_training=True)
    subject = description(part([], carrier=Carrier.SCRIPT, traced=True, mode_dependent=(drop,)))
    assert not run_hits(RULE, repeat(random_call("")), subject=subject)
    assert len(run_hits(RULE, repeat(random_call("", None, is_dropout=False)), subject=subject)) == 1


def test_the_page_is_what_torch_does() -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.dropout(x, 0.5)

    net = Net().eval()
    torch.manual_seed(0)
    first, second = net(torch.ones(8)), net(torch.ones(8))
    assert set(first.tolist()) == {0.0, 2.0}
    assert not torch.equal(first, second)


def test_another_operator_that_draws_beside_a_dropout_of_the_code_is_told() -> None:
    drop = ModeDependent(name="drop", kind="dropout", class_name="Dropout", probability=0.5, graph_training=True)
    subject = description(part([], carrier=Carrier.SCRIPT, traced=True, mode_dependent=(drop,)))
    both = repeat(random_call(""), random_call("", None, is_dropout=False))
    assert len(run_hits(RULE, both, subject=subject)) == 1


def test_a_functional_dropout_of_a_program_has_the_name_that_the_program_gives_it() -> None:
    drop = ModeDependent(name="head.dropout_1", kind="dropout", class_name="", probability=0.5, graph_training=True)
    subject = description(part([], carrier=Carrier.PROGRAM, mode_dependent=(drop,)))
    (hit,) = run_hits(RULE, repeat(random_call("head")), subject=subject)
    assert hit.layer == "head.dropout_1"
    (hit,) = run_hits(RULE, repeat(random_call("head", None, is_dropout=False)), subject=subject)
    assert hit.layer == "head"


def test_the_number_is_of_the_repeat_from_the_restored_state() -> None:
    (hit,) = run_hits(RULE, repeat(random_call(), in_a_row=shift(0.25)))
    assert hit.value == 0.5
    (hit,) = run_hits(RULE, repeat(random_call(), in_a_row=LARGE, restored=NOISE))
    assert hit.value == 4e-7
