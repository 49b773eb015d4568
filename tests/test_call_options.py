from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import bnaudit
from bnaudit.call_options import with_options
from bnaudit.errors import UsageError
from bnaudit.results import Acceptance, Confidence, Question, Severity
from bnaudit.settings import Settings


@pytest.mark.parametrize(
    ("name", "given", "held"),
    [
        ("select", "BN3", ("BN3",)),
        ("ignore", ["BN1", "BN2"], ("BN1", "BN2")),
        ("select", "bn3", ("BN3",)),
        ("ignore", ["bn1"], ("BN1",)),
        ("layers", "layer4.*", ("layer4.*",)),
        ("intended", {"BN302": "prenet.*"}, (("BN302", "prenet.*"),)),
        ("intended", "bn302", (("BN302", "*"),)),
        ("intended", ["BN302=a.*", ("BN306", "b")], (("BN302", "a.*"), ("BN306", "b"))),
        ("require", "neighbours,buffers", (Question.BUFFERS, Question.NEIGHBOURS)),
        ("require", Question.GAP, (Question.GAP,)),
        ("require", ["frozen", Question.GAP], (Question.GAP, Question.FROZEN)),
        ("require", "all", tuple(Question)),
        ("require", "none", ()),
        ("fail_on", "note", Severity.NOTE),
        ("fail_on", Severity.WARNING, Severity.WARNING),
        ("min_confidence", "low", Confidence.LOW),
        ("severities", {"bn105": "error"}, {"BN105": Severity.ERROR}),
        ("limits", {"bn404": {"mean-shift": np.float32(0.5)}}, {"BN404": {"mean_shift": 0.5}}),
    ],
)
def test_what_is_natural_in_python_is_understood(name: str, given: Any, held: Any) -> None:
    assert getattr(with_options(Settings(), {name: given}), name) == held


def test_options_of_a_run_are_understood_too() -> None:
    options = {"batch_size": np.int64(8), "budget": 60, "device": torch.device("cpu"), "dims": {"height": 9}}
    run = with_options(Settings(), {**options, "custom_ops": "ops.so"}).run
    assert (run.batch_size, run.budget, run.device, dict(run.dims)) == (8, 60.0, "cpu", {"height": 9})
    assert run.custom_ops == ("ops.so",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": "8"}, "batch_size='8' is no whole number of at least 1"),
        ({"limits": {"BN4O4": {"mean_shift": 1}}}, "names no rule with 'BN4O4': did you mean BN40"),
        ({"limits": {"BN404": {"mean_shfit": 1}}}, "BN404 has no limit 'mean_shfit': did you mean mean_shift"),
        ({"limits": {"BN404": {"mean_shift": "1"}}}, r"BN404\.mean_shift='1' is no number of at least 0"),
        ({"limits": {"BN404": 1}}, "gives no limits by rule"),
        ({"accept": ["BN105"]}, "accept holds 'BN105', no Acceptance"),
        ({"accept": [Acceptance(source="x", rule="BN105", until="31.1.2027")]}, "'31.1.2027', which is no day"),
        ({"accept": [Acceptance(source="x", rule="BN105", until="20270131")]}, "'20270131', which is no day"),
        ({"batch_size": 0}, "batch_size=0 is no whole number of at least 1"),
        ({"batch_size": True}, "batch_size=True is no whole number"),
        ({"anchors": None}, "anchors=None is no whole number"),
        ({"axis": -1}, "axis=-1 is no whole number of at least 0"),
        ({"seed": 1.5}, r"seed=1\.5 is no whole number"),
        ({"budget": "60s"}, "budget='60s' is no number of seconds"),
        ({"budget": -1}, "budget=-1 is no number of seconds"),
        ({"budget": float("nan")}, "budget=nan is no number of seconds"),
        ({"dims": [("height", 3)]}, "gives no sizes by name"),
        ({"dims": {"height": 0}}, r"dims\['height'\]=0 is no whole number"),
        ({"model_args": '{"width": 3}'}, "gives no arguments by name"),
        ({"select": 3}, "select=3 holds no texts"),
        ({"intended": 3}, "intended=3 holds no pairs"),
        ({"select": "BN8"}, "no rule has an id that starts with 'BN8'"),
        ({"intended": {"BN8": "*"}}, "no rule has an id that starts with 'BN8'"),
    ],
)
def test_values_that_an_option_cannot_have_are_one_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        bnaudit.audit(nn.BatchNorm1d(4), **options)


def test_an_option_that_there_is_not_is_a_type_error_with_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"audit\(\) has no option 'input': did you mean inputs\?"):
        bnaudit.audit(nn.BatchNorm1d(4), input=np.zeros((4, 4)))
    with pytest.raises(UsageError, match="settings cannot be a ndarray: give options by name"):
        bnaudit.audit(nn.BatchNorm1d(4), np.zeros((4, 4)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("subject", "kind"),
    [
        (5, "int"),
        (b"model.pt", "bytes"),
        (nn.BatchNorm1d(4).state_dict(), "OrderedDict"),
        (torch.zeros(3), "Tensor"),
        (np.zeros(3), "float64"),
        ([nn.BatchNorm1d(4)], "BatchNorm1d"),
    ],
)
def test_what_is_neither_a_model_nor_a_path_is_named(subject: object, kind: str) -> None:
    with pytest.raises(UsageError, match=f"an object of class {kind} is neither a model nor the path of one"):
        bnaudit.audit(subject)


def test_an_acceptance_that_is_given_in_python_ends_as_well() -> None:
    entries = [Acceptance(source="x", rule="BN105", until=until) for until in ("2020-01-31", "2999-01-31", "")]
    assert [each.expired for each in with_options(Settings(), {"accept": entries}).accept] == [True, False, False]


@pytest.mark.parametrize("settings", [Settings(select=("bn1",)), Settings(intended=(("bn1", "*"),))])
def test_a_rule_that_settings_made_by_hand_write_otherwise_is_refused(settings: Settings) -> None:
    with pytest.raises(UsageError, match="'bn1': write BN1"):
        bnaudit.audit(nn.BatchNorm1d(4), settings)
