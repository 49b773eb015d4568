from __future__ import annotations

import json
from enum import Enum
from importlib.resources import files
from typing import Any, Union, get_args, get_origin, get_type_hints

import jsonschema
import pytest
from builders import batch_norm, part
from hypothesis import given
from hypothesis import strategies as st
from run_schema import kinds, written

from bnaudit.description import Part
from bnaudit.measurement import Answer, Loaded, Measured, Measurement, Shift, Swap, Trained, Unmeasured
from bnaudit.records import Record
from bnaudit.results import Outcome, Question
from bnaudit.run_objects import run_object, type_name
from bnaudit.session import StateChange

SHIFT = Shift(exact=False, difference=float("inf"), scale=1.5, epsilons=float("nan"), output="[0]", dtype="float32")


def measured(*measurements: Measurement, **fields: Any) -> Measured:
    settings: dict[str, Any] = {
        "runner": "PyTorch 2.13.0",
        "inputs": "digits.npz, 29 of 360 samples",
        "synthetic": False,
        "batch_size": 16,
        "anchors": 4,
        "samples": 29,
        "forwards": 7,
        "extra_forwards": 2,
        "seconds": 0.8,
        **fields,
    }
    return Measured(measurements=measurements, **settings)


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json.loads(files("bnaudit.reports").joinpath("report-1.schema.json").read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator({**schema["$defs"]["run"], "$defs": schema["$defs"]})


def any_of(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of an annotation, records with all their fields."""
    origin, inner = get_origin(hint), get_args(hint)
    plain: dict[object, st.SearchStrategy[Any]] = {
        str: st.text(max_size=5),
        bool: st.booleans(),
        int: st.integers(-3, 2**64 - 1),
        float: st.floats(),
        Part: st.just(part([batch_norm(training=True)])),
    }
    if hint in plain:
        return plain[hint]
    if origin is tuple and inner[-1] is Ellipsis:
        return st.lists(any_of(inner[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(any_of, inner))
    if origin is Union or inner:
        return st.one_of(st.none() if choice is type(None) else any_of(choice) for choice in inner)
    if issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    return record(hint)


def record(kind: type[Record]) -> st.SearchStrategy[Any]:
    return st.builds(
        kind, **{name: any_of(hint) for name, hint in get_type_hints(kind).items() if name in kind._fields}
    )


def test_the_schema_describes_every_measurement_there_is() -> None:
    schema = json.loads(files("bnaudit.reports").joinpath("report-1.schema.json").read_text(encoding="utf-8"))
    assert written(schema) == schema, "a type of measurement changed: run `python tests/run_schema.py`"
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_any_measurement_fits_the_schema(kind: type[Measurement], data: Any, validator: Any) -> None:
    made = data.draw(record(kind))
    written_out = json.loads(json.dumps(run_object(measured(made)), allow_nan=False))
    validator.validate(written_out)
    assert written_out["measurements"][0]["type"] == type_name(kind)


def test_a_run_is_written_with_all_that_was_said_of_it(validator: Any) -> None:
    unmeasured = Unmeasured(probe="train_eval_gap", why="the budget ran out", needs="more time", inconclusive=True)
    answer = Answer(question=Question.GAP, outcome=Outcome.INCONCLUSIVE, reason="9 samples")
    found = run_object(measured(answer, remarks=("float64 was skipped",), unmeasured=(unmeasured,), interrupted=True))
    validator.validate(json.loads(json.dumps(found)))
    assert found["measurements"] == [
        {
            "type": "answer",
            "question": "train-eval-gap",
            "outcome": "inconclusive",
            "reason": "9 samples",
            "needs": "",
        }
    ]
    assert (found["forwards"], found["extra_forwards"], found["interrupted"]) == (7, 2, True)
    assert found["unmeasured"] == [
        {"probe": "train_eval_gap", "why": "the budget ran out", "needs": "more time", "inconclusive": True}
    ]


def test_numbers_that_json_lacks_are_words() -> None:
    found: Any = run_object(measured(Swap(other=SHIFT, scaled=None)))
    (swap,) = found["measurements"]
    assert (swap["other"]["difference"], swap["other"]["epsilons"]) == ("Infinity", "NaN")
    assert swap["scaled"] is None


def test_after_train_the_modes_are_told_and_nothing_else_of_the_model() -> None:
    layers = [batch_norm("a", training=True), batch_norm("b", training=False), batch_norm("c", training=None)]
    found: Any = run_object(measured(Trained(part=part(layers))))
    assert found["measurements"] == [{"type": "trained", "part": {"training": ["a"], "eval": ["b"]}}]


def test_fingerprints_keep_their_digits() -> None:
    from bnaudit.measurement import StateInEval

    change = StateChange(name="ema", kind="buffer", persistent=True, owner="Net", digest=2**63 + 1)
    found: Any = run_object(measured(StateInEval(change=change, depends_on_data=None)))
    assert found["measurements"][0]["change"]["digest"] == "8000000000000001"


def test_a_value_without_a_form_is_refused() -> None:
    loaded = Loaded(model="m", matched=(object(),), missing=(), unexpected=(), filled_counters=())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="object is no value"):
        run_object(measured(loaded))
