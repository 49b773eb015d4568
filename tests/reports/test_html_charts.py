"""The pictures' numbers against arithmetic by hand, and where numbers without a logarithm stand."""

from __future__ import annotations

import math

import pytest
from builders import batch_norm, description, part, tensor
from html_reports import GAP
from hypothesis import given
from hypothesis import strategies as st
from measured import EXACT, measured, shift, statistics, swap

from bnaudit.auditing import conclude
from bnaudit.description import NormLayer
from bnaudit.html.charts.gap_by_layer import gap_by_layer, moves
from bnaudit.html.charts.limits import statistics_limits
from bnaudit.html.charts.output_change import output_change
from bnaudit.html.charts.picture import Mark, Picture, Plain, Standing, named, shown
from bnaudit.html.charts.received_statistics import statistics_pictures
from bnaudit.html.charts.scales import linear, logarithmic
from bnaudit.html.charts.stored_values import INITIAL_LIMIT, gain, stored_pictures
from bnaudit.html.layer_rows import layer_rows
from bnaudit.html.pictures import pictures
from bnaudit.measurement import BatchSize, EvalNorm, Measured, Shift
from bnaudit.plugins import names
from bnaudit.records import replace
from bnaudit.results import Audit
from bnaudit.rules import load_rule, rule_id
from bnaudit.session import Place
from bnaudit.settings import Settings
from bnaudit.shift_wording import NOISE

POSITIVE = st.floats(1e-300, 1e300)


def audit(*layers: NormLayer, run: Measured | None = None) -> Audit:
    return replace(conclude(description(part(layers)), Settings(), []), measured=run)


def stored(*layers: NormLayer) -> dict[str, Picture | Plain]:
    return {each.title: each for each in stored_pictures(layer_rows(audit(*layers)), "a1")}


def picture(found: Picture | Plain | None) -> Picture:
    assert isinstance(found, Picture)
    return found


@given(st.lists(POSITIVE, min_size=1, max_size=20))
def test_a_logarithmic_scale_keeps_order_and_holds_all_that_is_on_it(values: list[float]) -> None:
    scale = logarithmic(values)
    places = [scale.place(value) for value in sorted(values)]
    assert places == sorted(places)
    low, high = scale.ends
    assert low < places[0] and places[-1] < high
    assert not scale.lanes


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=20))
def test_what_has_no_logarithm_stands_outside_the_range_in_a_lane_with_a_label(values: list[float]) -> None:
    scale = logarithmic(values)
    for value in values:
        place = scale.place(value)
        assert scale.ends[0] < place < scale.ends[1]
        if not (math.isfinite(value) and value > 0):
            assert not scale.low <= place <= scale.high
            assert any(tick.lane and tick.at == place for tick in scale.ticks)
    assert len({tick.at for tick in scale.ticks if tick.lane}) == len(scale.lanes)


def test_lanes_say_what_stands_in_them() -> None:
    scale = logarithmic([0.0, -3.0, math.inf, math.nan, 1.0])
    words = {tick.label for tick in scale.ticks if tick.lane}
    assert words == {"0", "< 0", "infinite", "NaN"}
    floored = logarithmic([1e-9, 5.0], floor=0.01, unit=" %")
    assert [tick.label for tick in floored.ticks if tick.lane] == ["< 0.01 %"]
    assert floored.place(1e-9) == floored.place(0.0) < floored.low


def test_ticks_are_round_numbers() -> None:
    assert [tick.label for tick in logarithmic([1.0, 5000.0]).ticks] == ["1", "10", "100", "1,000"]
    assert [tick.label for tick in logarithmic([1e-12, 1e12]).ticks] == ["1e-10", "1e-5", "1", "1e5", "1e10"]
    assert [tick.label for tick in linear(1.0, " sd").ticks] == ["0 sd", "0.5 sd", "1 sd"]


@given(st.floats(1e-12, 1e12))
def test_a_linear_scale_has_some_ticks(high: float) -> None:
    assert 2 <= len(linear(high).ticks) <= 9


def test_gains_are_those_of_eval_mode() -> None:
    # |3| / √(1 + 8) = 1, |−8| / √(8 + 8) = 2, |0| / √(92 + 8) = 0
    layer = batch_norm("bn1", mean=(0, 0, 0), var=(1, 8, 92), gamma=(3, -8, 0), beta=(0, 0, 0), eps=8.0)
    (row,) = layer_rows(audit(layer))
    found = gain(row)
    assert found is not None
    assert found[:4] == (0.0, 1.0, 2.0, 0)
    shown = picture(stored(layer)["Spread of the gains"])
    assert shown.table.head == ("layer", "smallest", "median", "largest", "not finite")
    assert shown.table.rows == (("bn1", 0.0, 1.0, 2.0, 0),)
    assert "gains from 0 to 2" in shown.summary and "1e-5 is taken" not in shown.how


def test_a_gain_without_weight_is_that_of_weight_one_and_an_epsilon_that_is_not_said_is_told() -> None:
    layer = batch_norm("bn1", var=(4.0, 4.0, 4.0), gamma=None, beta=None)
    (row,) = layer_rows(audit(layer))
    assert gain(row)[1] == pytest.approx(1 / math.sqrt(4 + 1e-5))  # type: ignore[index]
    assert "epsilon, 1e-5 is taken" in picture(stored(layer)["Spread of the gains"]).how


def test_channels_that_are_not_finite_are_counted_and_all_of_them_stand_in_the_lane_of_nan() -> None:
    half = batch_norm("half", var=(1.0, math.nan, -4.0))
    none = batch_norm("none", var=(math.nan, math.nan, -4.0))
    shown = picture(stored(half, none)["Spread of the gains"])
    assert [row[4] for row in shown.table.rows] == [2, 3]
    assert math.isnan(shown.table.rows[1][2])  # type: ignore[arg-type]
    assert "not finite in 2 layers" in shown.summary
    assert ">NaN</text>" in shown.svg


def test_initial_shares_are_powers_of_what_momentum_leaves() -> None:
    layers = [batch_norm("a", counter=28), batch_norm("b", counter=2, momentum=0.5)]
    shown = picture(stored(*layers)["Initial statistics left"])
    # 0.9²⁸ = 0.05233, 0.5² = 0.25
    assert [row[1] for row in shown.table.rows] == [pytest.approx(0.0523348, rel=1e-5), 0.25]
    assert shown.summary == "Largest share 25.0 %; 2 of 2 layers at or above 5 %."
    assert "0.1 is taken" in shown.how


def test_counters_are_drawn_where_they_differ_and_broken_ones_are_marked() -> None:
    shown = picture(stored(batch_norm("a", counter=5), batch_norm("b", counter=0))["Batches counted"])
    assert shown.table.rows == (("a", 5.0), ("b", 0.0))
    assert shown.summary == "2 counters, 2 different values from 0 to 5."
    broken = stored(
        batch_norm("a", counter=5), batch_norm("b", counter=tensor("n", math.nan)), batch_norm("c", counter=-7)
    )
    assert {key.standing for key in picture(broken["Batches counted"]).legend} == {"within", "open"}
    same = stored(batch_norm("a", counter=5), batch_norm("b", counter=5))["Batches counted"]
    assert same == Plain("Batches counted", "num_batches_tracked is 5 in all 2 layers.")


def test_shift_and_ratio_are_drawn_with_their_errors_and_judged_by_their_limits() -> None:
    run = measured(
        statistics("late", 1, mean_shift=2.0, mean_error=0.1, ratio=1.1, samples=16),
        statistics("early", 0, mean_shift=0.01, mean_error=0.02, ratio=9.0, samples=16, log_variance_error=0.05),
        statistics("few", 2, mean_shift=2.0, samples=4),
    )
    mean, variance = statistics_pictures(audit(batch_norm("early"), run=run), "a1")
    assert [row[1:5] for row in mean.table.rows] == [
        ("early", 0.01, 0.02, "within"),
        ("late", 2.0, 0.1, "beyond"),
        ("few", 2.0, 0.02, "open"),
    ]
    assert mean.summary == (
        "3 layers; largest shift 2 stored sd at late. Beyond the limit of 0.5: late. Too few samples to tell: few."
    )
    assert [(row[1], row[2], row[4]) for row in variance.table.rows][:2] == [
        ("early", 9.0, "beyond"),
        ("late", 1.1, "within"),
    ]
    assert "limit 2</text>" in variance.svg and "limit 0.5</text>" in mean.svg


def own_limit(id: str, name: str) -> float:
    (file,) = (file for file in names("bnaudit.rules") if rule_id(file) == id)
    return load_rule(file).limits[name]


def test_without_settings_the_limits_are_the_rules_own() -> None:
    defaults = statistics_limits({})
    assert {name: getattr(defaults, name) for name in defaults._fields} == {
        name: own_limit("BN404", name) for name in defaults._fields
    }
    assert own_limit("BN105", "share") == INITIAL_LIMIT
    assert {own_limit(f"BN30{n}", "epsilons") for n in (1, 2, 3, 4, 5, 6, 7)} == {NOISE}


def test_shift_and_ratio_are_held_against_the_limits_of_the_settings() -> None:
    run = measured(
        statistics("a", 0, mean_shift=0.8, mean_error=0.1, ratio=2.5, samples=16, log_variance_error=0.1),
        statistics("b", 1, mean_shift=3.0, mean_error=0.1, ratio=9.0, samples=16, log_variance_error=0.1),
    )
    limits = {"BN404": {"mean_shift": 1.5, "variance_ratio": 3.0, "errors": 2.0}, "BN403": {"max_gap": 0.01}}
    looked_at = replace(audit(batch_norm("a"), run=measured(*run.measurements, GAP)), limits=limits)
    mean, variance = statistics_pictures(looked_at, "a1")
    assert [(row[1], row[4]) for row in mean.table.rows] == [("a", "within"), ("b", "beyond")]
    assert [(row[1], row[4]) for row in variance.table.rows] == [("a", "within"), ("b", "beyond")]
    assert "Beyond the limit of 1.5: b." in mean.summary and "Beyond the limit of 3: b." in variance.summary
    assert "limit 1.5</text>" in mean.svg and "limit 3</text>" in variance.svg
    # 2 errors of 0.1, where 4 are the default
    assert "2 standard errors 0.2</title>" in mean.svg and "2 standard errors explain" in mean.how
    gap = picture(gap_by_layer(looked_at.measured, "a1", limits))
    assert "Off: b." in gap.summary and "; the limit is 0.01." in gap.summary


@pytest.mark.parametrize("limit", [0.0, math.inf])
def test_a_limit_of_nothing_or_without_end_is_no_error(limit: float) -> None:
    run = measured(statistics("a", 0, mean_shift=0.8, ratio=3.0, samples=16), GAP, swap(other=shift(1e-3)))
    limits = {
        "BN301": {"epsilons": limit},
        "BN105": {"share": limit},
        "BN404": {"mean_shift": limit, "variance_ratio": limit},
    }
    norm = audit(batch_norm("a", counter=5), run=run)
    made = pictures(replace(norm, limits=limits), layer_rows(norm), "a1")
    beyond = "beyond" if limit == 0 else "within"
    found = {each.key: each for each in made.drawn}
    assert [found[key].table.rows[0][4] for key in ("mean-shift", "variance-ratio")] == [beyond, beyond]
    assert ("Beyond" in found["output-change"].summary) is (limit == 0)


def test_initial_shares_are_held_against_the_limit_of_the_settings() -> None:
    rows = layer_rows(audit(batch_norm("a", counter=2, momentum=0.5), batch_norm("b", counter=1, momentum=0.5)))
    (shown, *_) = stored_pictures(rows, "a1", {"BN105": {"share": 0.3}})
    # 0.5² = 0.25, 0.5¹ = 0.5
    assert picture(shown).summary == "Largest share 50.0 %; 1 of 2 layers at or above 30 %."
    assert "limit 30 %</text>" in picture(shown).svg


def test_outputs_are_held_against_the_limit_of_the_rule_that_speaks_of_them() -> None:
    # 4194.304 rounding steps, see below
    run = measured(swap(other=shift(1e-3), alone=shift(1e-3), scaled=None), BatchSize(one=None, two=shift(1e-3)))
    shown = picture(output_change(run, "a1", {"BN301": {"epsilons": 1e5}}))
    assert [row[2] for row in shown.table.rows] == [1e5, 1e5, 64.0]
    assert shown.summary == "Beyond the limit: in a batch of 2."
    assert "limit 100000</text>" in shown.svg or "limit 1e+05</text>" in shown.svg
    assert "limit 64</text>" in shown.svg and "noise" not in shown.svg


def test_a_layer_that_eval_mode_does_not_use_is_marked_so() -> None:
    place = Place(module="bn1", class_name="BatchNorm2d", hidden=False, source="", operator="")
    mixing = EvalNorm(place=place, layer="bn1", mixes=True, by_configuration=False, updates=True)
    run = measured(statistics("bn1", 0, mean_shift=5.0), mixing)
    mean, _ = statistics_pictures(audit(batch_norm("bn1"), run=run), "a1")
    assert mean.table.rows[0][4] == "unused"
    assert "None is beyond" in mean.summary


def test_a_layers_own_gap_is_made_of_shift_and_deviation_less_their_errors() -> None:
    # δ² = 1.3² − 0.5² = 1.44; |ln ratio| = ln 4 without error: ρ = 2, (ρ − 1)² = 1; together 2.44.
    both = moves(statistics("a", 0, mean_shift=1.3, mean_error=0.5, ratio=4.0, log_variance_error=None))
    assert (both.by_mean, both.by_variance) == (pytest.approx(1.44), pytest.approx(1.0))
    noise = moves(statistics("b", 1, mean_shift=0.4, mean_error=0.5, ratio=1.1, log_variance_error=0.2))
    assert noise.total == 0.0


def test_the_gap_is_attributed_to_layers() -> None:
    run = measured(
        GAP,
        statistics("a", 0, mean_shift=0.3, mean_error=0.0, ratio=1.0),
        statistics("b", 1, mean_shift=0.6, mean_error=0.0, ratio=1.0, samples=32),
    )
    shown = picture(gap_by_layer(run, "a1"))
    # 0.09 and 0.36 of 0.45
    assert [(row[1], row[2], row[5]) for row in shown.table.rows] == [
        ("a", pytest.approx(0.3), "20.0 %"),
        ("b", pytest.approx(0.6), "80.0 %"),
    ]
    assert "differ by 0.4 of the outputs' spread, more than the 0.1 that companions alone explain" in shown.summary
    assert "Off: b." in shown.summary


def test_a_gap_without_a_layer_that_moves_is_told_in_words() -> None:
    found = gap_by_layer(measured(GAP, statistics("a", 0, mean_shift=0.01, ratio=1.0)), "a1")
    assert isinstance(found, Plain) and "No layer's statistics are further off than sampling explains" in found.summary
    assert gap_by_layer(measured(statistics("a", 0)), "a1") is None
    assert gap_by_layer(None, "a1") is None


def test_outputs_are_compared_in_rounding_steps() -> None:
    # 1e-3 of scale 2 in float32: 1e-3 / (2 · 2⁻²³) = 4194.304 steps.
    run = measured(
        swap(other=EXACT, scaled=Shift(exact=False, difference=math.inf), alone=shift(1e-3, flips=1, decisions=4))
    )
    shown = picture(output_change(run, "a1"))
    assert shown.table.rows == (
        ("alone, without companions", pytest.approx(4194.304), 64.0, 1e-3, 2.0, "1 of 4"),
        ("with other companions", 0.0, 64.0, 0.0, 0.0, "0 of 0"),
        ("companions × 100", math.inf, 64.0, math.inf, 0.0, "0 of 0"),
    )
    assert shown.summary == "Beyond noise: alone, without companions, companions × 100."
    assert "infinite</text>" in shown.svg and ">0</text>" in shown.svg and "noise 64</text>" in shown.svg
    assert output_change(measured(), "a1") is None


def test_names_in_a_picture_never_meet_matplotlibs_markup() -> None:
    names = ("$\\frac{", "@1@", "<b>&", "层\u202e", "x" * 500)
    shown = picture(stored(*(batch_norm(name, counter=n) for n, name in enumerate(names)))["Batches counted"])
    for text in ("$\\frac{", "@1@", "&lt;b&gt;&amp;", "层\\u202e", "…" + "x" * 21):
        assert f">{text}</text>" in shown.svg
    assert "<b>" not in shown.svg


def test_colours_are_the_pages_and_nothing_is_left_of_what_matplotlib_adds() -> None:
    shown = picture(stored(batch_norm("a", counter=1), batch_norm("b", counter=2))["Batches counted"])
    assert "var(--accent)" in shown.svg
    for word in ("#0", "metadata", "font-family", "xlink", "xmlns", "<style", "clip-path", "DejaVu"):
        assert word not in shown.svg.replace('href="#', ""), word


def test_of_many_names_some_are_listed_and_the_rest_is_counted() -> None:
    marks = tuple(Mark(f"bn{n}", 1.0, Standing.BEYOND, "") for n in range(6))
    assert named(marks, Standing.BEYOND) == "bn0, bn1, bn2, bn3 and 2 more"
    assert shown("") == "(root)" and shown("a" * 61) == "…" + "a" * 59


def test_one_layer_is_not_all_of_them() -> None:
    shown = stored(batch_norm("a", counter=500, momentum=0.1))
    assert shown["Batches counted"] == Plain("Batches counted", "num_batches_tracked is 500 in the one layer.")
    title = "Initial statistics left"
    assert shown[title] == Plain(title, "below 0.01 % in the one layer with a count of batches.")
