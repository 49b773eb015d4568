"""BN306: what one batch leaves behind for the next."""

from __future__ import annotations

import pytest
import torch
from measured import EXACT, LARGE, NOISE, change, eval_norm, run_hits, shift, state_in_eval

from bnaudit.measurement import Repeat
from bnaudit.results import Severity
from bnaudit.session import StateChange

RULE = "bn306_history_dependent_prediction"


def repeat(*changes: StateChange, **fields: object) -> Repeat:
    return Repeat(**{"in_a_row": LARGE, "restored": EXACT, "changes": changes, **fields})


def test_a_difference_that_restoring_takes_away_names_what_carried_it() -> None:
    (hit,) = run_hits(RULE, repeat(change("encoder.state", "attribute", persistent=False)))
    assert (hit.layer, hit.severity, hit.value) == ("encoder", Severity.ERROR, 0.5)
    assert hit.message.endswith("the attribute encoder.state was carried over")


def test_modules_that_hold_state_are_told_apart_and_their_names_listed() -> None:
    changes = [change(f"a.s{number}") for number in range(5)] + [change("s", "parameter")]
    first, second = run_hits(RULE, repeat(*changes))
    assert (first.layer, second.layer) == ("a", "")
    assert first.message.endswith("the buffers a.s0, a.s1, a.s2 and 2 more were carried over")
    assert second.message.endswith("the parameter s was carried over")


def test_equal_repeats_are_silent() -> None:
    assert not run_hits(RULE, repeat(change("s"), in_a_row=EXACT, restored=None))


@pytest.mark.parametrize("restored", [LARGE, shift(0.01)])
def test_a_random_model_hides_its_history(restored: object) -> None:
    assert not run_hits(RULE, repeat(change("s"), restored=restored))


def test_a_difference_as_small_as_rounding_is_a_note() -> None:
    (hit,) = run_hits(RULE, repeat(change("s"), in_a_row=NOISE))
    assert hit.severity is Severity.NOTE
    assert not run_hits(RULE, repeat(change("s"), in_a_row=NOISE, restored=NOISE))


def test_a_note_does_not_take_the_place_of_an_error_about_the_same_state() -> None:
    assert not run_hits(RULE, repeat(change("a.s"), in_a_row=NOISE), state_in_eval("a.s"))
    assert len(run_hits(RULE, repeat(change("a.s")), state_in_eval("a.s"))) == 1


def test_an_answer_that_is_kept_for_the_next_batch_is_told_after_another_one() -> None:
    kept = change("encoder.cache", "attribute", persistent=False)
    (hit,) = run_hits(RULE, repeat(kept, in_a_row=EXACT, restored=None, after_others=LARGE))
    assert len(run_hits(RULE, repeat(kept, restored=LARGE, after_others=LARGE))) == 1  # seeds were reset for it
    assert (hit.layer, hit.severity) == ("encoder", Severity.ERROR)
    assert hit.message.startswith("the same batch after another batch gives outputs that differ")
    assert not run_hits(RULE, repeat(kept, in_a_row=EXACT, restored=None, after_others=EXACT))


def test_a_note_is_not_left_out_for_state_that_no_other_rule_tells_of() -> None:
    learning = state_in_eval("a.s", kind="attribute", persistent=False)
    (hit,) = run_hits(RULE, repeat(learning.change, in_a_row=NOISE), learning)
    assert hit.severity is Severity.NOTE


def test_statistics_that_no_one_reads_are_named_only_when_nothing_else_changed() -> None:
    statistics = change("bn1.running_mean")
    (hit,) = run_hits(RULE, repeat(statistics, change("rnn.h")), eval_norm("bn1"))
    assert hit.layer == "rnn"
    (hit,) = run_hits(RULE, repeat(statistics), eval_norm("bn1"))
    assert hit.layer == "bn1"


def test_state_that_was_not_seen_is_said_to_be_elsewhere() -> None:
    (hit,) = run_hits(RULE, repeat())
    assert hit.layer is None
    assert "kept elsewhere" in hit.message


def test_the_page_is_what_torch_does() -> None:
    class Average(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("average", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.average.mul_(0.9).add_(0.1 * x.mean())
            return x - self.average

    net = Average().eval()
    assert net(torch.tensor([10.0])).item() == pytest.approx(9.0)
    assert net(torch.tensor([10.0])).item() == pytest.approx(8.1)


@pytest.mark.parametrize("kind", ["buffer", "parameter", "attribute"])
def test_several_of_one_kind_are_called_so(kind: str) -> None:
    (hit,) = run_hits(RULE, repeat(change("a.s", kind), change("a.t", kind)))
    assert hit.message.endswith(f"the {kind}s a.s, a.t were carried over")


def test_only_state_of_this_place_that_depends_on_data_is_told_by_another_rule() -> None:
    noted = repeat(change("a.s"), in_a_row=NOISE)
    assert len(run_hits(RULE, noted, state_in_eval("a.s", depends_on_data=False))) == 1
    assert len(run_hits(RULE, noted, state_in_eval("b.s"))) == 1
    assert not run_hits(RULE, noted, state_in_eval("a.other"))


def test_without_a_repeat_from_the_restored_state_a_difference_may_be_chance() -> None:
    assert not run_hits(RULE, repeat(change("s"), restored=None))


@pytest.mark.parametrize(
    ("kind", "persistent", "noted"),
    [
        ("parameter", True, 0),
        ("parameter", False, 0),
        ("buffer", True, 0),
        ("buffer", False, 1),
        ("attribute", True, 1),
    ],
)
def test_a_note_is_left_out_for_stored_state_alone(kind: str, persistent: bool, noted: int) -> None:
    learning = state_in_eval("a.s", kind=kind, persistent=persistent)
    assert len(run_hits(RULE, repeat(learning.change, in_a_row=NOISE), learning)) == noted
