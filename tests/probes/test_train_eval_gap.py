"""Layers whose statistics are off are named alone; the gap is weighed against what companions explain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from builders import batch_norm
from fake_runs import FakeFeed, Net, experiment, measured, perfect

from bnaudit.description import Carrier, NormKind, Part
from bnaudit.gap_limits import moved
from bnaudit.measurement import Answer, Gap, LayerStatistics, NormSize, ReusedNorm
from bnaudit.mode_gap import mode_gap
from bnaudit.received import layer_statistics
from bnaudit.records import replace
from bnaudit.results import Outcome, Question
from bnaudit.session import Mode


def split(**given: Any) -> tuple[dict[str, LayerStatistics], list[Gap], Answer]:
    found = measured("train_eval_gap", **given)
    layers = {entry.layer: entry for entry in found if isinstance(entry, LayerStatistics)}
    assert found[-1].question is Question.GAP
    return layers, [entry for entry in found if isinstance(entry, Gap)], found[-1]


@pytest.mark.parametrize("size", [8, 16, 32])
def test_perfect_statistics_pass_at_any_batch_size(size: int) -> None:
    for seed in range(10):
        layers, (gap,), answer = split(feed=FakeFeed(size, seed=seed))
        assert not any(moved(layer).proved for layer in layers.values())
        assert gap.bessel is None
        assert answer.outcome is (Outcome.PASSED if gap.samples >= 16 else Outcome.INCONCLUSIVE)


@pytest.mark.parametrize("off", [(1.0, 1.0), (0.0, 4.0)], ids=["1 sd", "variance × 4"])
@pytest.mark.parametrize("guilty", ["one", "two"])
def test_the_guilty_layer_is_named_alone(guilty: str, off: tuple[float, float]) -> None:
    stored = perfect({guilty: off})
    for seed in range(10):
        layers, (gap,), answer = split(net=Net(stored=stored), feed=FakeFeed(seed=seed))
        assert [name for name, layer in layers.items() if moved(layer).proved] == [guilty]
        exceeds = gap.systematic > gap.noise
        assert exceeds or off[1] != 1.0, "one standard deviation is more than companions explain"
        assert answer.outcome is (Outcome.FAILED if exceeds else Outcome.PASSED)
        assert (gap.bessel is not None and gap.bessel < 0.1 * gap.systematic) is exceeds


def test_what_was_measured_is_the_statistics_of_all_different_samples() -> None:
    feed = FakeFeed()
    layers, _, _ = split(feed=feed)
    assert [layer.position for layer in layers.values()] == [0, 1]
    assert layers["one"].samples == feed.samples == 27 and layers["one"].channels == layers["one"].live == 6


def test_errors_widen_when_rows_hold_the_same_samples() -> None:
    plain, repeated = FakeFeed(), FakeFeed()
    repeated.samples = 12
    before, after = split(feed=plain)[0]["one"], split(feed=repeated)[0]["one"]
    assert after.samples == 12
    assert after.mean_error == pytest.approx(before.mean_error * np.sqrt(27 / 12))


def test_synthetic_inputs_measure_and_decide_nothing() -> None:
    layers, (gap,), answer = split(net=Net(stored=perfect({"one": (2.0, 1.0)})), feed=FakeFeed(synthetic=True))
    assert gap.synthetic and gap.bessel is None and all(layer.synthetic for layer in layers.values())
    assert answer.outcome is Outcome.NOT_CHECKED and "--inputs" in answer.needs


def test_few_samples_are_inconclusive() -> None:
    _, _, answer = split(feed=FakeFeed(8))
    assert answer.outcome is Outcome.INCONCLUSIVE and answer.reason == "11 samples, 16 are needed"


@pytest.mark.parametrize("size", [8, 16])
def test_answers_that_are_no_numbers_are_judged_by_the_layers(size: int) -> None:
    layers, gaps, answer = split(net=Net(integers=True), feed=FakeFeed(size))
    assert layers and not gaps
    assert answer.outcome is (Outcome.PASSED if size == 16 else Outcome.INCONCLUSIVE)


def test_norms_that_stay_in_eval_have_no_gap() -> None:
    layers, _, answer = split(net=Net(keep_eval=True, stored=perfect({"one": (5.0, 1.0)})))
    assert not layers and answer.outcome is Outcome.PASSED


def test_a_model_without_a_training_form_is_not_checked() -> None:
    layers, gaps, answer = split(modes=(Mode.INFERENCE,))
    assert not layers and not gaps and answer.outcome is Outcome.NOT_CHECKED


def test_without_norms_there_is_no_gap() -> None:
    assert split(norms=False)[2].outcome is Outcome.PASSED


def test_what_was_folded_cannot_show_its_gap() -> None:
    from bnaudit.probes.train_eval_gap import PROBE

    given = experiment(norms=False)
    given.session.part = Part(name="", carrier=Carrier.GRAPH, folded="2 of 2 convolutions carry a bias")
    *_, answer = PROBE.measure(given)
    assert isinstance(answer, Answer) and answer.outcome is Outcome.NOT_CHECKED
    assert (answer.reason, answer.needs) == (
        "no batch norm is left: folded, if any was",
        "the model that it was made from",
    )


def answered(run: Any) -> Answer:
    from bnaudit.probes.train_eval_gap import PROBE

    *_, answer = PROBE.measure(run)
    assert isinstance(answer, Answer)
    return answer


def test_a_folded_model_with_norms_left_is_asked_for_its_training_form() -> None:
    run = experiment(modes=(Mode.INFERENCE,))
    run.session.part = Part(
        name="", carrier=Carrier.GRAPH, layers=run.session.part.layers, folded="1 of 3 convolutions"
    )
    answer = answered(run)
    assert (answer.outcome, answer.needs) == (Outcome.NOT_CHECKED, "a model that can be put into training mode")


def test_instance_norms_alone_never_use_the_batch() -> None:
    run = experiment(modes=(Mode.INFERENCE,))
    run.has_batch_norms, run.has_norms_of_two_modes = False, True
    answer = answered(run)
    assert (answer.outcome, answer.reason) == (Outcome.PASSED, "no norm uses the batch in train() either")


@pytest.mark.parametrize(
    ("samples", "outcome", "reason"),
    [
        (16, Outcome.PASSED, "gap "),
        (15, Outcome.INCONCLUSIVE, "15 samples, 16 are needed"),
        (2, Outcome.INCONCLUSIVE, "2 samples, 16 are needed"),
        (1, Outcome.INCONCLUSIVE, "1 sample, 16 are needed"),
    ],
)
def test_sixteen_samples_are_enough(samples: int, outcome: Outcome, reason: str) -> None:
    feed = FakeFeed()
    feed.samples = samples
    answer = split(feed=feed)[2]
    assert answer.outcome is outcome and answer.reason.startswith(reason)


def test_without_outputs_to_compare_and_without_layers_it_stays_open() -> None:
    run = experiment()
    run._kept[mode_gap], run._kept[layer_statistics] = None, ()
    answer = answered(run)
    assert (answer.outcome, answer.needs) == (Outcome.INCONCLUSIVE, "inputs that differ")


@pytest.mark.parametrize(("noise", "begins"), [(0.25, "gap 0.25"), (0.24, "no layer's statistics are off; gap 0.25,")])
def test_a_gap_beyond_what_companions_explain_is_told_where_no_layer_is_off(noise: float, begins: str) -> None:
    run = experiment()
    run._kept[mode_gap] = replace(mode_gap(run), systematic=0.25, noise=noise)
    answer = answered(run)
    assert answer.outcome is Outcome.PASSED and answer.reason.startswith(begins)


def test_a_model_that_uses_the_batch_in_eval_is_not_judged() -> None:
    assert split(net=Net(leaky=frozenset({"one"})))[2].outcome is Outcome.INCONCLUSIVE


def test_statistics_of_a_model_that_was_never_trained_are_not_judged() -> None:
    layers, _, answer = split(net=Net(fresh=True, stored=perfect({"one": (3.0, 9.0)})))
    assert not layers and answer.outcome is Outcome.INCONCLUSIVE


def test_a_norm_used_twice_is_compared_with_itself() -> None:
    found = measured("train_eval_gap", Net(shared=True))
    (reused,) = [entry for entry in found if isinstance(entry, ReusedNorm)]
    assert (reused.layer, reused.calls) == ("one", 2)
    assert reused.variance_ratio > 2 and reused.variance_error is not None and reused.samples == 27
    assert np.log(reused.variance_ratio) > 4 * reused.variance_error


def test_the_size_of_every_statistic_is_told() -> None:
    sizes = [entry for entry in measured("train_eval_gap") if isinstance(entry, NormSize)]
    assert [(size.layer, size.values_per_sample, size.values_per_statistic) for size in sizes] == [
        ("one", 9, 144),
        ("two", 9, 144),
    ]
    assert not any(size.uses_batch or size.trains for size in sizes) and all(size.is_batch_norm for size in sizes)


@pytest.mark.parametrize("norms", [2, 0])
def test_absorbed_statistics_are_asked_for_what_they_were_made_from(norms: int) -> None:
    run = experiment()
    absorbed: Any = {"mean": (0, 0), "var": (1, 1), "gamma": (2, 3), "beta": (1, 1), "counter": None}
    layers = [batch_norm(f"bn{i}", **absorbed) for i in range(norms)]
    others = [batch_norm(f"in{i}", kind=NormKind.INSTANCE, **absorbed) for i in range(2 - norms)]
    run.session.part = Part(
        name="", carrier=Carrier.MODULE, layers=(*layers, batch_norm("bn"), *others)[: 2 + (norms == 0)]
    )
    answer = answered(run)
    assert (answer.outcome is Outcome.INCONCLUSIVE and "absorbed" in answer.reason) is bool(norms)
