"""BN606: the same inputs give other outputs than in the model that is trusted."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any

import pytest
from builders import batch_norm, description, part
from finding_words import check_words

from bnaudit.comparison import ComparedRun, Comparison, Matching, OutputPair, Parting, RoundTrip
from bnaudit.description import Carrier
from bnaudit.measurement import Shift
from bnaudit.results import Confidence, Hit, Severity
from bnaudit.rules import Case, load_rule

RULE = load_rule("bn606_outputs_differ")
PART = part([batch_norm("bn1")], carrier=Carrier.MODULE)
LARGE = Shift(exact=False, difference=0.652, scale=0.953, epsilons=5.7e6, dtype="float32")
NOISE = Shift(exact=False, difference=7e-6, scale=0.953, epsilons=62.0, dtype="float32")
FLOOR = 64 * 2.0**-23 * 0.953
HERE = Parting(layer="bn1", baseline_layer="bn1", entered=1e-7, floor=8e-6, originates=True, reason="epsilon 0.001")


def output(shift: Shift = LARGE, floor: float = FLOOR, name: str = "logits") -> OutputPair:
    return OutputPair(subject=name, baseline=name, shift=shift, floor=floor)


def ran(*outputs: OutputPair, **fields: Any) -> ComparedRun:
    given = {"partings": (HERE,), "parts_at": "bn1 (epsilon 0.001)", "reference_in_eval": True, **fields}
    return ComparedRun(
        runners=("PyTorch", "onnxruntime"), inputs="x.npz", samples=4, outputs=outputs, **{"synthetic": False, **given}
    )


def hits(run: ComparedRun | None = None, trip: RoundTrip | None = None) -> list[Hit]:
    comparison = Comparison(
        baseline=description(PART),
        subject_part=PART,
        baseline_part=PART,
        matching=Matching(pairs=()),
        moves=(),
        run=run,
        round_trip=trip,
    )
    found = list(RULE.check(Case(description(PART), MappingProxyType({}), comparison=comparison)))
    for hit in found:
        check_words(RULE.id, hit.message, hit.advice)
    return found


def test_a_difference_beyond_the_floor_names_the_layer_where_it_originates() -> None:
    (hit,) = hits(ran(output()))
    assert (hit.layer, hit.value, hit.limit, hit.confidence) == ("bn1", 0.652, 7.3e-6, Confidence.HIGH)
    assert hit.message == (
        "the same inputs give another output logits: it differs by 0.652 (0.68 of the largest output); "
        "they part at bn1 (epsilon 0.001)"
    )
    assert "epsilon" in hit.advice


def test_flips_are_told() -> None:
    (hit,) = hits(ran(output(), flips=3, decisions=100))
    assert ", 3 of 100 decisions flip;" in hit.message


def test_a_place_that_is_no_norm_layer_is_named_and_the_finding_is_of_the_artifact() -> None:
    (hit,) = hits(ran(output(), partings=(), parts_at="a place between bn1 and bn2 that is no norm layer"))
    assert hit.layer is None
    assert hit.message.endswith("they part at a place between bn1 and bn2 that is no norm layer")


def test_without_a_place_it_still_says_how_far_apart_they_are() -> None:
    (hit,) = hits(ran(output(), partings=(), parts_at=""))
    assert hit.message.endswith("of the largest output)")
    assert "folded" in hit.advice


@pytest.mark.parametrize("shift", [NOISE, Shift(exact=True, scale=1.0)])
def test_rounding_is_silent(shift: Shift) -> None:
    assert hits(ran(output(shift))) == []


def test_a_difference_at_the_floor_is_rounding_and_the_next_one_is_not() -> None:
    assert hits(ran(output(Shift(exact=False, difference=1.0, scale=1.0, epsilons=1.0), floor=1.0))) == []
    assert len(hits(ran(output(Shift(exact=False, difference=1.0 + 1e-9, scale=1.0, epsilons=1.0), floor=1.0)))) == 1


def test_the_output_furthest_beyond_its_own_floor_is_told() -> None:
    small = Shift(exact=False, difference=1e-3, scale=1e-3, epsilons=1e7, dtype="float32")
    (hit,) = hits(
        ran(output(Shift(exact=False, difference=2e-3, scale=1e3, epsilons=17.0), 1e-3), output(small, 1e-8, "b"))
    )
    assert "output b:" in hit.message


@pytest.mark.parametrize("difference", [math.inf, math.nan])
def test_numbers_against_none_are_a_difference_without_a_limit(difference: float) -> None:
    (hit,) = hits(ran(output(Shift(exact=False, difference=difference, epsilons=math.inf))))
    assert hit.limit is None and "NaN or infinity" in hit.message


def test_other_shapes_are_a_difference() -> None:
    shapes = Shift(exact=False, difference=math.inf, epsilons=math.inf, shapes="[10] and [1]")
    (hit,) = hits(ran(output(shapes)))
    assert "in shape ([10] and [1])" in hit.message


def test_a_reference_that_is_not_in_eval_proves_nothing() -> None:
    (hit,) = hits(ran(output(), reference_in_eval=False, reference_why="bn1 normalizes with the batch"))
    assert hit.undecided and hit.settles is False
    assert hit.severity is Severity.WARNING
    assert hit.message.startswith("the baseline is no reference: bn1 normalizes with the batch; the outputs differ")
    (equal,) = hits(ran(output(NOISE), reference_in_eval=False, reference_why="drop drops at random"))
    assert equal.message == "the baseline is no reference: drop drops at random"


def test_a_reference_of_which_nothing_is_known_is_taken_as_it_is() -> None:
    (hit,) = hits(ran(output(), reference_in_eval=None))
    assert not hit.undecided


def test_made_inputs_and_a_few_labels_are_no_errors() -> None:
    (made,) = hits(ran(output(), synthetic=True))
    few = Shift(exact=False, difference=1.0, scale=9.0, epsilons=math.inf, dtype="int64", flips=1, decisions=1000)
    (ties,) = hits(ran(output(few, 0.0)))
    many = Shift(exact=False, difference=1.0, scale=9.0, epsilons=math.inf, dtype="int64", flips=100, decisions=1000)
    (labels,) = hits(ran(output(many, 0.0)))
    assert [hit.confidence for hit in (made, ties, labels)] == [Confidence.MEDIUM, Confidence.MEDIUM, Confidence.HIGH]


def test_without_a_run_it_says_nothing() -> None:
    assert hits() == []
    assert list(RULE.check(Case(description(PART), MappingProxyType({})))) == []


def test_what_comes_back_otherwise_is_named_with_the_outputs() -> None:
    (hit,) = hits(trip=RoundTrip(changed=("bn1.eps (0.001 → 1e-05)",), outputs=(output(),)))
    assert hit.severity is None and hit.value == 0.652
    assert hit.message == (
        "saved and loaded in a fresh process, the output logits differs by 0.652 (0.68 of the largest output); "
        "bn1.eps (0.001 → 1e-05) came back otherwise"
    )
    (unexplained,) = hits(trip=RoundTrip(changed=(), outputs=(output(),)))
    assert unexplained.message.endswith("; all that it holds came back")
    (many,) = hits(trip=RoundTrip(changed=tuple(f"a{n}" for n in range(9)), outputs=()))
    assert "a5 and 3 more came back otherwise" in many.message


@pytest.mark.parametrize(
    ("changed", "severity"),
    [
        ("steps (3 → 0)", Severity.NOTE),
        ("bn1.eps (0.001 → 1e-05)", Severity.WARNING),
        ("bn1.running_mean", Severity.WARNING),
        ("bn1.extra (no place for it)", Severity.WARNING),
    ],
)
def test_what_changed_without_moving_an_output_is_no_error(changed: str, severity: Severity) -> None:
    (hit,) = hits(trip=RoundTrip(changed=(changed,), outputs=(output(NOISE),)))
    assert hit.severity is severity
    assert hit.message.endswith("came back otherwise; the outputs are the same")


def test_a_round_trip_that_changed_nothing_or_was_not_done_is_silent() -> None:
    assert hits(trip=RoundTrip(changed=(), outputs=(output(NOISE),))) == []
    assert hits(trip=RoundTrip(changed=("a",), outputs=(), not_done="it died")) == []


def test_the_arithmetic_of_its_page() -> None:
    one, other = 0.01 / math.sqrt(0.0001 + 0.00001), 0.01 / math.sqrt(0.0001 + 0.001)
    assert f"{one:.3f} {other:.3f} {one - other:.3f} {FLOOR:.1e}" == "0.953 0.302 0.652 7.3e-06"
    assert all(number in RULE.doc for number in ("= 0.953", "= 0.302", "is 0.652", "= 7.3e-6"))


@pytest.mark.parametrize("setting", ["eps", "momentum", "track_running_stats", "affine", "class", "training"])
def test_every_setting_of_a_norm_computes(setting: str) -> None:
    changed = ("steps (3 → 0)", f"bn1.{setting} (a → b)")
    (hit,) = hits(trip=RoundTrip(changed=changed, outputs=(output(NOISE),)))
    assert hit.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("flips", "dtype", "floor", "confidence"),
    [
        (9, "int64", 0.0, Confidence.MEDIUM),
        (10, "int64", 0.0, Confidence.HIGH),
        (9, "int64", 0.5, Confidence.HIGH),
        (9, "float32", 0.0, Confidence.HIGH),
    ],
)
def test_less_than_a_hundredth_of_labels_may_be_ties(
    flips: int, dtype: str, floor: float, confidence: Confidence
) -> None:
    shift = Shift(exact=False, difference=1.0, scale=9.0, dtype=dtype, flips=flips, decisions=1000)
    (hit,) = hits(ran(output(shift, floor)))
    assert hit.confidence is confidence


def test_a_layer_behind_the_place_where_they_part_is_not_blamed() -> None:
    (hit,) = hits(ran(output(), parts_at="the input of the first layer"))
    assert hit.layer is None and hit.advice.startswith("compare what stands at the place")


def test_a_floor_that_is_no_number_is_no_limit() -> None:
    (hit,) = hits(ran(output(floor=math.nan)))
    assert (hit.value, hit.limit) == (0.652, None)


@pytest.mark.parametrize(
    ("subject", "baseline", "named"),
    [("logits", "other", "output logits:"), ("", "logits", "output logits:"), ("", "", "another output:")],
)
def test_an_output_has_the_name_that_one_of_the_two_has(subject: str, baseline: str, named: str) -> None:
    pair = OutputPair(subject=subject, baseline=baseline, shift=LARGE, floor=FLOOR)
    (hit,) = hits(ran(pair))
    assert named in hit.message


@pytest.mark.parametrize(("count", "ends"), [(6, "a4, a5 came back"), (7, "a4, a5 and 1 more came back")])
def test_six_things_that_came_back_otherwise_are_named(count: int, ends: str) -> None:
    (hit,) = hits(trip=RoundTrip(changed=tuple(f"a{n}" for n in range(count)), outputs=()))
    assert ends in hit.message
