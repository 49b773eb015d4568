"""The JSON of a diagnosis is what its schema says."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest
from diagnoses import HOSTILE, full, of_log, tried
from jsonschema import Draft202012Validator

from bnaudit.diagnosis import Conclusion
from bnaudit.diagnosis_objects import diagnosis_object
from bnaudit.json_text import json_text

SCHEMA = json.loads(files("bnaudit.reports").joinpath("diagnosis-1.schema.json").read_text(encoding="utf-8"))


def test_every_conclusion_fits_the_schema() -> None:
    for conclusion in Conclusion:
        document = json.loads(json_text(diagnosis_object(full(conclusion))))
        Draft202012Validator(SCHEMA).validate(document)
        assert document["conclusion"] == conclusion.value
        assert document["exit_code"] == full(conclusion).exit_code
    assert set(SCHEMA["properties"]["conclusion"]["enum"]) == {each.value for each in Conclusion}


@pytest.mark.parametrize("points_to", [(), ("companions",), ("history", "companions")])
def test_a_log_alone_fits_the_schema(points_to: tuple[str, ...]) -> None:
    document = json.loads(json_text(diagnosis_object(of_log(*points_to))))
    Draft202012Validator(SCHEMA).validate(document)
    assert document["artifact"] is None
    assert document["log"]["points_to"] == list(points_to)


def test_numbers_that_json_lacks_are_words() -> None:
    document = json.loads(json_text(diagnosis_object(full(tried=(tried("it raised", float("inf")),)))))
    assert document["tried"][0]["residual"] == "Infinity"


def test_what_a_hypothesis_changes_is_named() -> None:
    document = diagnosis_object(full())
    hypothesis = document["explanations"][0]["hypothesis"]
    changed = hypothesis["variation"]["layers"]["layer1.bn2"]
    assert changed == {"training": True, "eps": 0.001, "replaced": ["mean"]}
    assert hypothesis["key"] == "training-mode + layer1.bn2 + alone"


def test_hostile_names_stay_in_their_strings() -> None:
    text = json_text(diagnosis_object(full(observed=HOSTILE)))
    assert "\x1b" not in text and "\u202e" not in text and "\ud800" not in text
    assert json.loads(text)["observed"] == HOSTILE
