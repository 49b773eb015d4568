from __future__ import annotations

import numpy as np
import pytest
from builders import batch_norm, part
from compared import compared_hits

from bnaudit.comparison import Fold, FoldCause, Folds
from bnaudit.results import Confidence, Hit, Severity


def fold(cause: FoldCause, change: float | None = 0.2, **fields: object) -> Fold:
    values: dict[str, object] = {
        "layer": "bn1",
        "linear": "conv1",
        "into": "Conv_0",
        "operator": "conv",
        "before": False,
        "detail": "what was seen",
        "gain_residual": change,
        "shift_residual": change,
        "limit": 9.5e-7,
        "channels": (3, 1),
    }
    return Fold(cause=cause, **{**values, **fields})  # type: ignore[arg-type]


def hits(*folds: Fold, folded: str = "subject", **fields: object) -> list[Hit]:
    found = Folds(folded=folded, folds=folds, **fields)  # type: ignore[arg-type]
    baseline = part([batch_norm("bn1", eps=1e-5)])
    return compared_hits("bn605_folded_mismatch", part([]), baseline, folds=found)


def test_equal_folds_are_silent() -> None:
    assert hits(fold(FoldCause.EQUAL, 1e-8)) == []


def test_no_fold_is_silent() -> None:
    assert compared_hits("bn605_folded_mismatch", part([]), part([batch_norm()])) == []


def test_a_mismatch_has_the_layer_the_number_and_the_cause() -> None:
    (hit,) = hits(fold(FoldCause.EPSILON, detail="epsilon 0.001 ± 2e-09 instead of 1e-05"))
    assert (hit.layer, hit.value, hit.limit, hit.channels, hit.severity) == ("bn1", 0.2, 9.5e-7, (3, 1), None)
    assert hit.message == ("folded into Conv_0 of the subject: epsilon 0.001 ± 2e-09 instead of 1e-05")
    assert "epsilon" in hit.advice


def test_an_epsilon_without_effect_is_silent() -> None:
    assert hits(fold(FoldCause.EPSILON, 9e-4)) == []
    assert len(hits(fold(FoldCause.EPSILON, 2e-3))) == 1


@pytest.mark.parametrize("cause", [cause for cause in FoldCause if cause is not FoldCause.EQUAL])
def test_every_other_cause_is_an_error_but_half_precision(cause: FoldCause) -> None:
    (hit,) = hits(fold(cause))
    assert hit.severity is (Severity.NOTE if cause is FoldCause.HALF_PRECISION else None)
    assert hit.confidence is Confidence.HIGH


def test_what_changes_next_to_nothing_is_a_note() -> None:
    (hit,) = hits(fold(FoldCause.UNKNOWN, 1e-4))
    assert hit.severity is Severity.NOTE


def test_a_norm_that_was_left_out_is_never_a_note() -> None:
    (hit,) = hits(fold(FoldCause.LEFT_OUT, 1e-5))
    assert hit.severity is None


def test_what_could_not_be_compared_is_at_most_likely() -> None:
    (hit,) = hits(fold(FoldCause.UNKNOWN, None, limit=None, detail="numbers that are not finite"))
    assert (hit.value, hit.limit, hit.confidence) == ("unknown", None, Confidence.MEDIUM)


def test_the_baseline_may_be_the_folded_one() -> None:
    (hit,) = hits(fold(FoldCause.BETA_IGNORED), folded="baseline")
    assert hit.message.startswith("folded into Conv_0 of the baseline: ")


def test_a_norm_before_its_convolution_says_so() -> None:
    (hit,) = hits(fold(FoldCause.PADDING, before=True))
    assert hit.message.startswith("folded into Conv_0 of the subject, which stands behind it: ")


def test_norms_that_were_not_found_leave_the_question_open() -> None:
    (hit,) = hits(unfound=("bn1", "bn2"), remarks=("weights are packed",))
    assert (hit.severity, hit.value, hit.layer) == (Severity.NOTE, 2, None)
    assert hit.undecided
    assert "bn1 and 1 more: not compared (weights are packed)" in hit.message


def test_epsilons_that_differ_from_layer_to_layer_are_a_note() -> None:
    same = [fold(FoldCause.EQUAL, 1e-8, layer=name, eps=1e-5, eps_error=2e-8) for name in ("a", "b", "c")]
    near = fold(FoldCause.EQUAL, 1e-8, layer="d", eps=1.004e-5, eps_error=2e-8)
    assert hits(*same, near) == []
    (hit,) = hits(*same, fold(FoldCause.EQUAL, 1e-8, layer="d", eps=1e-3, eps_error=2e-8))
    assert (hit.severity, hit.value, hit.limit, hit.layer) == (Severity.NOTE, 1e-3, 1e-5, "d")
    assert "epsilon 0.001" in hit.message and "1e-05" in hit.message


def test_hostile_names_do_not_reach_the_terminal() -> None:
    (hit,) = hits(fold(FoldCause.UNKNOWN, into="\x1b[31mred\n"))
    assert hit.message.isprintable()


def test_the_page_computes_rightly() -> None:
    gain = 2 / np.sqrt(0.0001 + 0.00001)
    assert gain == pytest.approx(190.69, abs=0.005)
    assert 0.5 * gain == pytest.approx(95.35, abs=0.005)
    assert 0.1 + (1 - 3) * gain == pytest.approx(-381.29, abs=0.005)
    other = 2 / np.sqrt(0.0001 + 0.001)
    assert (other, other / 2) == (pytest.approx(60.30, abs=0.005), pytest.approx(30.15, abs=0.005))
    assert (2 / other) ** 2 - 0.0001 == pytest.approx(0.001)
    assert pytest.approx(1.3e-10, rel=0.05) == 2 * 6e-8 * 0.0011
    assert 0.1 - 3 * gain == pytest.approx(-571.98, abs=0.005)


@pytest.mark.parametrize(
    ("cause", "begins"),
    [
        (FoldCause.EPSILON, "fold again with the epsilon"),
        (FoldCause.OLDER_STATISTICS, "fold again, after the statistics are final"),
        (FoldCause.PADDING, "keep the norm, or pad"),
        (FoldCause.OTHER_WEIGHTS, "compare with the checkpoint"),
        (FoldCause.HALF_PRECISION, "nothing to do where half precision is meant"),
        (FoldCause.GAMMA_IGNORED, "fold again from the model in eval mode"),
    ],
)
def test_the_advice_is_by_cause(cause: FoldCause, begins: str) -> None:
    (hit,) = hits(fold(cause))
    assert hit.advice.startswith(begins)


@pytest.mark.parametrize(
    ("gain", "shift", "change"), [(0.2, 0.1, 0.2), (0.1, 0.2, 0.2), (0.0, 0.2, 0.2), (0.2, 0.0, 0.2), (0.2, None, 0.2)]
)
def test_the_larger_residual_counts(gain: float, shift: float | None, change: float) -> None:
    (hit,) = hits(fold(FoldCause.UNKNOWN, gain, shift_residual=shift))
    assert hit.value == change


def test_a_change_exactly_at_the_limit_is_small() -> None:
    assert hits(fold(FoldCause.EPSILON, 1e-3)) == []
    (hit,) = hits(fold(FoldCause.UNKNOWN, 1e-3))
    assert hit.severity is Severity.NOTE


@pytest.mark.parametrize("cause", [FoldCause.EPSILON, FoldCause.UNKNOWN])
def test_what_could_not_be_compared_is_not_small(cause: FoldCause) -> None:
    (hit,) = hits(fold(cause, None, shift_residual=1e-5))
    assert (hit.severity, hit.value, hit.limit) == (None, cause.value, None)


def test_a_limit_of_rounding_that_is_not_known_is_not_told() -> None:
    (hit,) = hits(fold(FoldCause.UNKNOWN, limit=None))
    assert (hit.value, hit.limit) == (0.2, None)


def solved(*epsilons: float, error: float | None = 2e-8) -> list[Fold]:
    return [fold(FoldCause.EQUAL, 1e-8, layer=f"bn{i}", eps=eps, eps_error=error) for i, eps in enumerate(epsilons)]


@pytest.mark.parametrize(
    ("epsilons", "odd"),
    [
        ((1e-5, 1e-3, 1e-5), [1e-3]),
        ((1e-5, 1e-3), []),
        ((0.0, 1e-5, 1e-3), [0.0, 1e-3]),
        ((0.0, 0.0, 0.0), []),
        # three times both errors, 4e-8, is 1.2e-7
        ((1e-5, 1e-5, 1e-5 + 1.15e-7), []),
        ((1e-5, 1e-5, 1e-5 + 1.25e-7), [1e-5 + 1.25e-7]),
    ],
)
def test_of_three_solved_epsilons_one_can_be_odd(epsilons: tuple[float, ...], odd: list[float]) -> None:
    assert [hit.value for hit in hits(*solved(*epsilons))] == odd


def test_exactly_three_errors_apart_is_not_apart() -> None:
    assert hits(*solved(0.25, 0.25, 0.625, error=0.0625)) == []
    assert len(hits(*solved(0.25, 0.25, 0.626, error=0.0625))) == 1


def test_errors_that_are_not_known_are_none() -> None:
    assert [hit.value for hit in hits(*solved(1e-5, 1e-5, 1e-3, error=None))] == [1e-3]


def test_only_folds_that_fit_and_were_solved_are_held_against_each_other() -> None:
    unsolved = fold(FoldCause.EQUAL, 1e-8, layer="d", eps=None, eps_error=None)
    assert hits(*solved(1e-5, 1e-5, 1e-5), unsolved) == []
    (hit,) = hits(*solved(1e-5, 1e-5, 1e-5), fold(FoldCause.EPSILON, eps=1e-3, eps_error=2e-8))
    assert hit.severity is None


def test_one_that_was_not_found_stands_alone() -> None:
    (hit,) = hits(unfound=("bn1",))
    assert hit.message == "no layer of the subject holds the fold of bn1: not compared"
