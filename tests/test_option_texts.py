from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bnaudit.errors import UsageError
from bnaudit.option_texts import RunTexts, callable_text, dimensions, intended, run_options, seconds
from bnaudit.run_options import RunOptions


@pytest.fixture
def net(tmp_path: Path) -> str:
    path = tmp_path / "net.py"
    path.write_text("def build():\n    return None\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("text", "length"),
    [("60s", 60.0), ("2m", 120.0), ("500ms", 0.5), ("90", 90.0), ("1.5h", 5400.0), (" 3 s ", 3.0)],
)
def test_a_budget_is_a_length_of_time(text: str, length: float) -> None:
    assert seconds(text) == pytest.approx(length)


@pytest.mark.parametrize("text", ["", "0", "0s", "-5s", "1d", "s", "1e3", "inf", "nan", "1_0", "٣s", "9" * 400])
def test_another_budget_is_refused_with_how_to_write_it(text: str) -> None:
    with pytest.raises(UsageError, match="500ms"):
        seconds(text)


@given(st.text(max_size=8))
def test_any_budget_is_a_positive_number_or_a_sentence(text: str) -> None:
    try:
        assert seconds(text) > 0
    except UsageError as error:
        assert "--budget" in str(error)


def test_dimensions_have_names_with_any_character_in_them() -> None:
    assert dict(dimensions(["height=224", "a=b=3", "height=224"])) == {"height": 224, "a=b": 3}


@pytest.mark.parametrize("text", ["224", "height", "height=", "=224", "height=0", "height=-1", "height=2.5", "h=1e3",
                                  "h=" + "9" * 5000])  # fmt: skip
def test_a_dimension_without_a_name_or_a_whole_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="height=224"):
        dimensions([text])


def test_a_dimension_with_two_sizes_is_refused() -> None:
    with pytest.raises(UsageError, match="width was given two sizes"):
        dimensions(["width=3", "width=4"])


def test_what_is_intended_is_a_rule_and_a_pattern_or_a_rule_alone() -> None:
    texts = ["BN302=prenet.*", "bn306", "BN3=a=b"]
    assert intended(texts) == (("BN302", "prenet.*"), ("BN306", "*"), ("BN3", "a=b"))


def test_an_unknown_rule_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"'BN3022'.*did you mean BN302"):
        intended(["BN3022=prenet.*"])
    with pytest.raises(UsageError, match="for no layer"):
        intended(["BN302="])


def test_untouched_options_are_the_defaults() -> None:
    options, defaults = run_options(RunTexts()), RunOptions()
    assert {name: getattr(options, name) for name in RunOptions._fields} == {
        name: getattr(defaults, name) for name in RunOptions._fields
    }


def test_every_option_reaches_its_value(net: str, tmp_path: Path) -> None:
    library = tmp_path / "ops.so"
    library.write_bytes(b"\x7fELF")
    inputs = tmp_path / "digits.npz"
    inputs.write_bytes(b"PK")
    options = run_options(
        RunTexts(
            inputs=str(inputs),
            model=f"{net}:build",
            model_args='{"width": 64}',
            part="ema",
            as_is=True,
            run=True,
            trust_pickle=True,
            custom_ops=[str(library)],
            batch_size=8,
            anchors=3,
            batch_axis=1,
            dim=["height=224"],
            training_batch_size=4,
            budget="2m",
            seed=7,
            device="cuda:1",
        )
    )
    assert (options.inputs, options.model, dict(options.model_args)) == (str(inputs), f"{net}:build", {"width": 64})
    assert (options.part, options.as_is, options.run, options.trust_pickle) == ("ema", True, True, True)
    assert (options.custom_ops, options.batch_size, options.anchors, options.axis) == ((str(library),), 8, 3, 1)
    assert (dict(options.dims), options.training_batch_size, options.budget) == ({"height": 224}, 4, 120.0)
    assert (options.seed, options.device, options.static) == (7, "cuda:1", False)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"batch_size": 0}, "--batch-size 0"),
        ({"anchors": 0}, "--anchors 0"),
        ({"batch_axis": -1}, "--batch-axis -1"),
        ({"training_batch_size": 0}, "--training-batch-size 0"),
        ({"seed": -1}, "--seed -1"),
        ({"seed": 2**32}, "--seed 4294967296"),
        ({"device": "graphics card"}, "cuda:1"),
        ({"custom_ops": ["nowhere.so"]}, "--custom-ops nowhere.so"),
        ({"inputs": "nowhere.npz"}, "--inputs nowhere.npz"),
        ({"inputs": "C:\\nowhere.npz"}, "no such file of inputs"),
        ({"inputs": "nowhere.py:batches"}, "there is no file nowhere.py"),
        ({"model": "net.py"}, "write file.py:callable"),
        ({"model": "nowhere.py:build"}, "there is no file nowhere.py"),
        ({"model": "pkg.module:"}, "names no callable"),
        ({"model": "my-pkg:build"}, "names no callable"),
        ({"model": "pkg:build", "model_args": "{width: 64}"}, "not JSON"),
        ({"model": "pkg:build", "model_args": "[64]"}, "have no names"),
        ({"model": "pkg:build", "model_args": "[" * 100_000}, "not JSON"),
        ({"model_args": "{}"}, "--model-args is about a model that is not given"),
        ({"as_is": True}, "--as-is is about a model that is not given"),
        ({"part": "ema"}, "--part is about a model that is not given"),
        ({"static": True, "run": True}, "--static runs nothing, and --run asks for a run"),
        ({"static": True, "trust_pickle": True}, "--trust-pickle asks for a run"),
        ({"static": True, "model": "pkg:build"}, "--model asks for a run"),
        ({"static": True, "inputs": "digits.npz"}, "--inputs asks for a run"),
        ({"static": True, "custom_ops": ["ops.so"]}, "--custom-ops asks for a run"),
    ],
)
def test_wrong_options_are_one_sentence(texts: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        run_options(RunTexts(**texts))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.where and caught.value.remedy


@given(st.text(max_size=12))
def test_any_text_is_a_callable_or_a_sentence(text: str) -> None:
    try:
        assert callable_text(text, "--model") == text
    except UsageError as error:
        assert "--model" in str(error)
