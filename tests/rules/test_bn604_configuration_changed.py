from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from builders import part
from compared import compared_hits, trained

from bnaudit.description import CUMULATIVE, Evidence, NormKind
from bnaudit.results import Hit, Severity

run = partial(compared_hits, "bn604_configuration_changed")


def against(subject: dict[str, Any], baseline: dict[str, Any]) -> list[Hit]:
    return run(part([trained(**subject)]), part([trained(**baseline)]))


def test_another_epsilon_is_found_with_its_effect() -> None:
    var = np.full(8, 1e-3)
    (hit,) = against({"eps": 1e-3, "var": var}, {"eps": 1e-5, "var": var})
    assert (hit.layer, hit.value, hit.limit, hit.severity) == ("bn1", 1e-3, 1e-5, None)
    assert hit.message == "epsilon 0.001, in the baseline 1e-05 (gain changes by up to 29 %)"
    assert 1 - math.sqrt((1e-3 + 1e-5) / (1e-3 + 1e-3)) == pytest.approx(0.29, abs=0.005)


def test_a_float32_epsilon_is_the_same() -> None:
    assert against({"eps": float(np.float32(1e-5))}, {"eps": 1e-5}) == []
    assert len(against({"eps": 1.001e-5}, {"eps": 1e-5})) == 1


@pytest.mark.parametrize(
    ("subject", "baseline", "words"),
    [
        ({"tracks_statistics": False}, {"tracks_statistics": True}, "tracking of statistics off, in the baseline on"),
        (
            {"kind": NormKind.INSTANCE, "evidence": Evidence.CLASS},
            {"kind": NormKind.BATCH, "evidence": Evidence.OPERATOR},
            "kind instance, in the baseline batch",
        ),
        ({"mean": None, "var": None}, {}, "mean and variance are in the baseline alone"),
        ({}, {"mean": None, "var": None}, "mean and variance are in this model alone"),
        ({"channels": 16}, {"channels": 8}, "channels 16, in the baseline 8"),
    ],
)
def test_what_predictions_depend_on_is_an_error(subject: Any, baseline: Any, words: str) -> None:
    (hit,) = against(subject, baseline)
    assert (hit.message, hit.severity) == (words, None)


@pytest.mark.parametrize(
    ("subject", "baseline", "words"),
    [
        ({"momentum": 0.01}, {"momentum": 0.1}, "momentum 0.01, in the baseline 0.1"),
        ({"momentum": CUMULATIVE}, {"momentum": 0.1}, "momentum cumulative, in the baseline 0.1"),
        ({"training": True}, {"training": False}, "saved in training mode, the baseline in eval mode"),
        (
            {"kind": NormKind.SYNC_BATCH, "evidence": Evidence.CLASS},
            {"kind": NormKind.BATCH, "evidence": Evidence.CLASS},
            "kind sync-batch, in the baseline batch",
        ),
    ],
)
def test_what_they_do_not_depend_on_is_a_note(subject: Any, baseline: Any, words: str) -> None:
    (hit,) = against(subject, baseline)
    assert (hit.message, hit.severity) == (words, Severity.NOTE)


def test_one_finding_per_layer() -> None:
    (hit,) = against(
        {"eps": 1e-3, "momentum": 0.01, "training": True}, {"eps": 1e-5, "momentum": 0.1, "training": False}
    )
    assert hit.message.count(";") == 2 and hit.severity is None


@pytest.mark.parametrize(
    "known",
    [
        {"eps": 1e-3},
        {"momentum": 0.5},
        {"tracks_statistics": False},
        {"training": True},
        {"affine": False},
    ],
)
def test_what_one_does_not_say_never_differs(known: dict[str, Any]) -> None:
    assert against(known, {}) == []
    assert against({}, known) == []


def test_an_unknown_kind_never_differs() -> None:
    assert against({"kind": NormKind.UNKNOWN}, {"kind": NormKind.INSTANCE}) == []


def test_a_state_dict_does_not_tell_kinds() -> None:
    assert against({"kind": NormKind.INSTANCE, "evidence": Evidence.CLASS}, {"kind": NormKind.BATCH}) == []
    assert against({"kind": NormKind.BATCH}, {"kind": NormKind.SYNC_BATCH, "evidence": Evidence.CLASS}) == []


def test_momentum_of_a_graph_has_no_effect() -> None:
    assert against({"momentum": 0.9, "evidence": Evidence.OPERATOR}, {"momentum": 0.1}) == []
    assert against({"momentum": 1 - 0.9}, {"momentum": 0.1}) == []


def test_a_graph_writes_gamma_1_for_a_norm_without_affine() -> None:
    ones = {"affine": True, "gamma": np.ones(8), "beta": np.zeros(8)}
    assert against(ones, {"affine": False, "gamma": None, "beta": None}) == []


def test_a_mode_that_the_graph_fixes_is_no_note() -> None:
    (hit,) = against({"training": False, "graph_training": True}, {"training": False})
    assert (hit.message, hit.severity) == ("fixed in training mode, the baseline in eval mode", None)
    assert "export again" in hit.advice
    (hit,) = against({"graph_training": False}, {"training": True})
    assert hit.severity is Severity.NOTE


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": NormKind.FROZEN_BATCH},
        {"kind": NormKind.LAYER, "mean": None, "var": None},
        {"kind": NormKind.INSTANCE, "mean": None, "var": None, "tracks_statistics": False},
    ],
)
def test_a_norm_without_modes_is_in_none(fields: dict[str, Any]) -> None:
    assert against({**fields, "training": True}, {**fields, "training": False}) == []


def test_statistics_that_one_of_the_two_lacks_are_told_also_where_it_says_that_it_tracks() -> None:
    for missing in ({"mean": None, "var": None}, {"var": None}, {"mean": None, "var": None, "counter": None}):
        (hit,) = against(missing, {})
        assert hit.message == "mean and variance are in the baseline alone"
        assert hit.advice.startswith("save the whole state_dict") and hit.severity is None
        (hit,) = against({}, missing)
        assert hit.message == "mean and variance are in this model alone"
        assert not against(missing, missing)


def test_a_layer_of_which_nothing_is_stored_says_nothing_of_statistics() -> None:
    nothing = {"mean": None, "var": None, "gamma": None, "beta": None, "counter": None, "declared_channels": 8}
    assert not against(nothing, {})


def test_affine_that_only_the_configuration_tells_is_told() -> None:
    without = {"gamma": None, "beta": None}
    (hit,) = against({"affine": True, **without}, {"affine": False, **without})
    assert hit.message == "affine on, in the baseline off"
    assert not against({"affine": True}, {"affine": False, **without}), "its values are compared"


def test_channels_are_named_where_epsilon_differs() -> None:
    (hit,) = against({"eps": 1e-3}, {"eps": 1e-5})
    assert len(hit.channels) == 8
    (hit,) = against({"momentum": 0.01, "mean": np.ones(8)}, {"momentum": 0.1})
    assert hit.channels == ()


def test_two_graphs_that_both_train_are_not_apart() -> None:
    (hit,) = against({"graph_training": True, "momentum": 0.2}, {"graph_training": True, "momentum": 0.1})
    assert hit.severity is Severity.NOTE and hit.advice.startswith("nothing to do")


def test_a_baseline_whose_graph_trains_matters_as_much() -> None:
    (hit,) = against({"training": False}, {"graph_training": True})
    assert hit.message == "saved in eval mode, the baseline in training mode"
    assert hit.severity is None and hit.advice.startswith("export again")


@pytest.mark.parametrize(
    ("subject", "baseline"),
    [
        ({"tracks_statistics": False}, {"tracks_statistics": True}),
        ({"mean": None, "var": None, "eps": 1e-3}, {"mean": None, "var": None, "eps": 1e-5}),
        ({}, {"mean": None, "var": None}),
    ],
)
def test_only_a_model_that_lacks_statistics_is_to_be_saved_whole(subject: Any, baseline: Any) -> None:
    (hit,) = against(subject, baseline)
    assert hit.advice.startswith("set what the baseline has")


def test_every_field_has_its_own_words() -> None:
    (hit,) = against({"eps": 1e-3, "mean": None, "var": None}, {"eps": 1e-5})
    assert sorted(hit.message.split("; ")) == [
        "epsilon 0.001, in the baseline 1e-05",
        "mean and variance are in the baseline alone",
    ]
    (hit,) = against({"eps": 1e-3, "momentum": 0.01}, {"eps": 1e-5, "momentum": 0.1})
    assert hit.message.endswith("; momentum 0.01, in the baseline 0.1") and hit.message.count("(gain") == 1


@pytest.mark.parametrize("changes", [{"gamma": np.zeros(8), "beta": np.zeros(8)}])
def test_gains_of_zero_do_not_change(changes: Any) -> None:
    (hit,) = against({"eps": 1e-3, **changes}, {"eps": 1e-5, **changes})
    assert hit.message == "epsilon 0.001, in the baseline 1e-05"


@pytest.mark.parametrize("moved", [{"gamma": np.full(8, 3.0)}, {"mean": np.full(8, 3.0), "var": np.full(8, 9.0)}])
def test_where_more_than_epsilon_changed_its_effect_is_not_told(moved: Any) -> None:
    (hit,) = against({"eps": 1e-3, **moved}, {"eps": 1e-5})
    assert hit.message == "epsilon 0.001, in the baseline 1e-05"
