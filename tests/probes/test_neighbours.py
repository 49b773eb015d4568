"""The swap decides: exact, beyond noise, or weighed in float64."""

from __future__ import annotations

from typing import Any

import pytest
from fake_runs import FakeFeed, Net, experiment, measured

from bnaudit.measurement import Answer, PoisonedBatch, Swap
from bnaudit.probes.neighbours import PROBE
from bnaudit.records import replace
from bnaudit.results import Outcome, Question
from bnaudit.run_options import RunOptions
from bnaudit.session import Mode, RunError
from bnaudit.swap import Decision, swap_decision


def decided(**given: Any) -> tuple[Swap, Answer]:
    found = measured("neighbours", **given)
    (swap,) = [entry for entry in found if isinstance(entry, Swap)]
    (answer,) = [entry for entry in found if isinstance(entry, Answer)]
    assert answer.question is Question.NEIGHBOURS
    return swap, answer


def test_a_healthy_model_passes_bit_for_bit() -> None:
    swap, answer = decided()
    assert answer.outcome is Outcome.PASSED
    assert swap.leaks is False and swap.other.exact and swap.scaled is not None and swap.scaled.exact
    assert swap.control_moves is True and swap.anchors_differ and swap.floating and not swap.located


def test_a_norm_that_uses_the_batch_fails_and_is_named() -> None:
    swap, answer = decided(net=Net(leaky=frozenset({"two"})))
    assert answer.outcome is Outcome.FAILED and swap.leaks is True
    assert [(place.layer, place.is_norm, place.first) for place in swap.mixing] == [("two", True, True)]
    assert swap.alone is not None and not swap.alone.exact


def test_how_many_companions_it_takes_is_found_where_the_norm_alone_does_not_tell() -> None:
    leaky = frozenset({"two"})
    told, _ = decided(net=Net(leaky=leaky))
    assert told.smallest_set is None
    meant, _ = decided(net=Net(leaky=leaky, by_configuration=leaky))
    other, _ = decided(net=Net(batch_spread=0.5))
    assert meant.smallest_set == other.smallest_set == 1


def test_every_mixing_norm_is_named_behind_the_first_one_too() -> None:
    swap, _ = decided(net=Net(leaky=frozenset({"one", "two"})))
    assert [(place.layer, place.first) for place in swap.mixing] == [("one", True), ("two", False)]


def test_what_is_no_norm_is_named_by_its_place() -> None:
    swap, answer = decided(net=Net(batch_spread=0.3))
    assert answer.outcome is Outcome.FAILED
    assert [(place.place.module, place.is_norm) for place in swap.mixing] == [("spread", False)]


def test_kernel_noise_shrinks_in_float64_and_passes() -> None:
    swap, answer = decided(net=Net(noise=3.0))
    assert not swap.other.exact and swap.double is not None and swap.double.dtype == "float64"
    assert swap.leaks is False and answer.outcome is Outcome.PASSED and "noise" in answer.reason


def test_a_faint_leak_keeps_its_size_in_float64_and_fails() -> None:
    swap, answer = decided(net=Net(faint=2e-6))
    assert swap.other.epsilons < 64 and swap.leaks is True and answer.outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("influence", "leaks", "outcome"),
    [(0.0, False, Outcome.PASSED), (0.01, True, Outcome.FAILED), (None, None, Outcome.INCONCLUSIVE)],
)
def test_without_float64_the_gradient_decides(influence: float | None, leaks: bool | None, outcome: Outcome) -> None:
    swap, answer = decided(net=Net(noise=3.0), doubles=False, influence=influence)
    assert (swap.leaks, swap.influence, answer.outcome) == (leaks, influence, outcome)
    assert swap.double_why == "memory is short"


def test_a_model_that_draws_is_seeded_before_every_deciding_forward() -> None:
    swap, answer = decided(net=Net(random=True))
    assert swap.seeded and swap.alone is None and answer.outcome is Outcome.PASSED


def test_a_leak_is_found_behind_randomness() -> None:
    swap, answer = decided(net=Net(random=True, leaky=frozenset({"one"})))
    assert swap.seeded and swap.leaks is True and answer.outcome is Outcome.FAILED


def test_randomness_that_no_seed_resets_is_inconclusive() -> None:
    swap, answer = decided(net=Net(random=True, seedless=True))
    assert swap.leaks is None and answer.outcome is Outcome.INCONCLUSIVE and "seed" in answer.reason


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"net": Net(head=0.0)}, "anchors"),
        ({"feed": FakeFeed(same=True)}, "companions are equal"),
    ],
    ids=["constant output", "equal companions"],
)
def test_an_exact_swap_that_proves_nothing_is_inconclusive(given: Any, why: str) -> None:
    swap, answer = decided(**given)
    assert swap.other.exact and answer.outcome is Outcome.INCONCLUSIVE and why in answer.reason


def test_norms_that_stay_in_eval_in_training_need_no_control() -> None:
    swap, answer = decided(net=Net(keep_eval=True))
    assert swap.control_moves is None and answer.outcome is Outcome.PASSED


def test_a_model_without_a_training_form_needs_no_control() -> None:
    swap, answer = decided(modes=(Mode.INFERENCE,))
    assert swap.control_moves is None and answer.outcome is Outcome.PASSED


def test_integer_outputs_pass_only_by_the_tensors_before_them() -> None:
    swap, answer = decided(net=Net(integers=True))
    assert not swap.floating and answer.outcome is Outcome.PASSED and "integer" in answer.reason


def test_integer_outputs_that_stay_equal_hide_no_leak() -> None:
    _, answer = decided(net=Net(integers=True, faint=1e-3))
    assert answer.outcome is Outcome.INCONCLUSIVE and "spread" in answer.reason


def test_a_batch_fixed_at_one_passes_and_a_batch_of_one_is_not_checked() -> None:
    (fixed,) = measured("neighbours", feed=FakeFeed(1), fixed_batch=1)
    (given,) = measured("neighbours", feed=FakeFeed(1))
    assert (fixed.outcome, fixed.reason) == (
        Outcome.PASSED,
        "neighbours impossible as exported (batch fixed at one)",
    )
    assert given.outcome is Outcome.NOT_CHECKED and "--inputs" in given.needs
    assert fixed.question is given.question is Question.NEIGHBOURS


def test_a_nan_that_reaches_the_anchors_is_told_where_the_plan_has_room() -> None:
    found = measured("neighbours", Net(product_with_zero=True), norms=False)
    assert any(isinstance(entry, PoisonedBatch) for entry in found) and found[-1].outcome is Outcome.PASSED
    assert not any(isinstance(entry, PoisonedBatch) for entry in measured("neighbours", norms=False))


def test_two_samples_are_enough() -> None:
    _, answer = decided(feed=FakeFeed(2))
    assert answer.outcome is Outcome.PASSED


def poisoned(found: list[Any]) -> bool:
    return any(isinstance(entry, PoisonedBatch) for entry in found)


def test_a_nan_is_looked_at_in_doubt_beside_training_runs_too() -> None:
    doubtful = {"net": Net(product_with_zero=True, noise=3.0)}
    assert poisoned(measured("neighbours", **doubtful))
    assert not poisoned(measured("neighbours", Net(noise=3.0)))
    assert not poisoned(measured("neighbours", Net(product_with_zero=True))), "the plan trains, and nothing is in doubt"


def test_a_nan_is_not_told_beside_a_leak() -> None:
    assert not poisoned(measured("neighbours", Net(product_with_zero=True, batch_spread=0.3), norms=False))


@pytest.mark.parametrize("poison", [True, False])
def test_companions_that_make_an_anchor_infinite_poison_it_as_well(poison: bool) -> None:
    run = experiment()
    run._kept[swap_decision] = Decision(swap_decision(run).swap, Outcome.PASSED, "exact", poison)
    assert poisoned(list(PROBE.measure(run))) is poison


@pytest.mark.parametrize(
    ("outcome", "axes", "given", "asks"),
    [
        (Outcome.INCONCLUSIVE, (None, None), None, True),
        (Outcome.INCONCLUSIVE, (None, 0), None, False),
        (Outcome.INCONCLUSIVE, (0,), None, False),
        (Outcome.INCONCLUSIVE, (None,), 1, False),
        (Outcome.PASSED, (None,), None, False),
        (Outcome.PASSED, (0,), None, False),
    ],
)
def test_the_batch_axis_is_asked_for_where_no_output_has_one(
    outcome: Outcome, axes: Any, given: int | None, asks: bool
) -> None:
    run = experiment()
    run._kept[swap_decision] = Decision(swap_decision(run).swap, outcome, "")
    run.axes, run.options = axes, replace(RunOptions(), axis=given)
    *_, answer = PROBE.measure(run)
    assert answer.needs == ("--batch-axis, if the samples stand along another one" if asks else "")


def test_the_plan_makes_the_forward_with_nan_where_it_has_room_and_tells_when_it_is_refused() -> None:
    run = experiment(Net(product_with_zero=True), norms=False)
    assert poisoned(list(PROBE.measure(run))) and run.extra_forwards == 0
    run = experiment(norms=False)

    def refuse(*_: Any) -> None:
        raise RunError("ValueError: not finite")

    run.planned = refuse
    assert not poisoned(list(PROBE.measure(run)))
    assert run.remarks == ["a batch with NaN was refused: ValueError: not finite"]
