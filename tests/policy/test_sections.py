"""Merging against an oracle written out here: a loop over the layers that knows nothing of sections or keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_folders import TODAY, folder_with, policy_of

from bnaudit.policy import load
from bnaudit.policy.showing import toml
from bnaudit.results import Question, Severity

ARTIFACTS = ("models/a.pt", "models/b.pt", "other/c.pt")
PATTERNS = ("models/*.pt", "models/a.pt", "*.pt", "other", "models/[ab].pt")
FITTING = {
    "models/*.pt": {"models/a.pt", "models/b.pt"},
    "models/a.pt": {"models/a.pt"},
    "*.pt": set(ARTIFACTS),
    "other": {"other/c.pt"},
    "models/[ab].pt": {"models/a.pt", "models/b.pt"},
}

LAYER = st.fixed_dictionaries(
    {},
    optional={
        "seed": st.integers(0, 9),
        "fail-on": st.sampled_from(["note", "warning", "error"]),
        "ignore": st.lists(st.sampled_from(["BN1", "BN112", "BN404"]), max_size=2),
        "run": st.booleans(),
        "static": st.just(False),
        "require": st.lists(st.sampled_from([question.value for question in Question]), unique=True, min_size=1)
        | st.just(["none"]),
        "severity": st.dictionaries(st.sampled_from(["BN1", "BN105", "BN3"]), st.sampled_from(["note", "error"])),
        "limits": st.dictionaries(
            st.sampled_from(["BN404", "BN117"]),
            st.dictionaries(st.just("mean_shift"), st.integers(0, 5).map(float), min_size=1),
        ),
        "intended": st.dictionaries(
            st.sampled_from(["BN302", "BN306"]), st.lists(st.sampled_from(["a", "b.*"]), unique=True)
        ),
        "dim": st.dictionaries(st.sampled_from(["height", "width"]), st.integers(1, 9)),
        "max-gap": st.floats(0.125, 1.0),
    },
)


def expected(layers: list[dict[str, Any]]) -> dict[str, Any]:
    """What the layers, lowest first, come to."""
    result: dict[str, Any] = {
        "seed": 0, "fail-on": "warning", "ignore": [], "run": False, "severity": {}, "limits": {}, "intended": [],
        "dim": {}, "require": None, "max-gap": None, "gap is nearer": False,
    }  # fmt: skip
    for layer in layers:
        for key in ("seed", "fail-on", "ignore", "run", "max-gap", "require"):
            if key in layer:
                result[key] = layer[key]
                result["gap is nearer"] = key == "max-gap" or (result["gap is nearer"] and key != "require")
        result["severity"] = {**result["severity"], **layer.get("severity", {})}
        result["dim"] = {**result["dim"], **layer.get("dim", {})}
        for rule, limits in layer.get("limits", {}).items():
            result["limits"] = {**result["limits"], rule: {**result["limits"].get(rule, {}), **limits}}
        for rule, patterns in layer.get("intended", {}).items():
            result["intended"] += [(rule, text) for text in patterns if (rule, text) not in result["intended"]]
    if result["max-gap"] is not None:
        result["limits"] = {**result["limits"], "BN403": {"max_gap": result["max-gap"]}}
    return result


def verdicts(result: dict[str, Any]) -> set[str]:
    required = result["require"]
    if required is None:
        required = ["buffers", "eval-mode", "neighbours"] if result["run"] else ["buffers"]
        if (
            "BN1" in result["ignore"]
        ):  # the rules that decide the buffers; the others of LAYER decide the gap or nothing
            required.remove("buffers")
    elif required == ["none"]:
        return {"train-eval-gap"} if result["gap is nearer"] else set()
    return {*required, *(["train-eval-gap"] if result["max-gap"] is not None else [])}


@given(top=LAYER, sections=st.dictionaries(st.sampled_from(PATTERNS), LAYER, max_size=4), typed=LAYER)
def test_layers_are_laid_over_one_another(
    tmp_path_factory: pytest.TempPathFactory, top: Any, sections: Any, typed: Any
) -> None:
    typed.pop("max-gap", None)  # what typed verdicts do to a gap of the file has a test of its own
    if "require" in typed:
        top.pop("max-gap", None)
        for values in sections.values():
            values.pop("max-gap", None)
    folder = tmp_path_factory.mktemp("policy")
    settings = "".join(f"{key} = {toml(value)}\n" for key, value in {**top, "files": sections}.items())
    policy = load(None, folder_with(folder, settings, ARTIFACTS), as_typed(typed), today=TODAY)
    for artifact in (None, *ARTIFACTS):
        fitting = [values for pattern, values in sections.items() if artifact in FITTING[pattern]]
        result = expected([top, *fitting, typed])
        found = policy.settings(folder / artifact if artifact else None)
        assert found.fail_on is Severity[result["fail-on"].upper()]
        assert (found.run.seed, found.run.run, found.ignore) == (result["seed"], result["run"], tuple(result["ignore"]))
        assert {rule: level.label for rule, level in found.severities.items()} == result["severity"]
        assert {rule: dict(limits) for rule, limits in found.limits.items()} == result["limits"]
        assert list(found.intended) == result["intended"]
        assert dict(found.run.dims) == result["dim"]
        assert {question.value for question in found.require} == verdicts(result)


def as_typed(layer: dict[str, Any]) -> dict[str, object]:
    """The layer as the command line gives it: tables as lists of texts."""
    tables = {
        "severity": [f"{rule}={level}" for rule, level in layer.get("severity", {}).items()],
        "dim": [f"{name}={size}" for name, size in layer.get("dim", {}).items()],
        "intended": [f"{rule}={text}" for rule, texts in layer.get("intended", {}).items() for text in texts],
        "limits": [
            f"{rule}.{name}={value}"
            for rule, limits in layer.get("limits", {}).items()
            for name, value in limits.items()
        ],
    }
    return {key: tables.get(key, value) for key, value in layer.items()}


@pytest.mark.parametrize(
    ("settings", "typed", "run"),
    [
        ('static = true\n[files."models/a.pt"]\nrun = true', {}, True),
        ('run = true\n[files."models/a.pt"]\nstatic = true', {}, False),
        ('[files."models/a.pt"]\nrun = true\nmodel = "net.py:build"', {"static": True}, False),
        ('[files."models/a.pt"]\nstatic = true', {"run": True}, True),
    ],
)
def test_of_static_and_run_the_nearer_one_holds(settings: str, typed: Any, run: bool, tmp_path: Path) -> None:
    found = policy_of(tmp_path, settings, typed).settings(tmp_path / "models/a.pt")
    assert (found.run.run, found.run.static) == (run, not run)
    if not run:
        assert found.run.model is None
    assert (Question.NEIGHBOURS in found.require) is run


def test_typed_verdicts_win_over_a_gap_of_the_file(tmp_path: Path) -> None:
    settings = policy_of(tmp_path, "max-gap = 0.2", {"require": ["buffers"]}).settings(None)
    assert settings.require == (Question.BUFFERS,)
    both = policy_of(tmp_path, "", {"require": ["buffers"], "max-gap": 0.1}).settings(None)
    assert both.require == (Question.BUFFERS, Question.GAP)
    assert both.limits["BN403"]["max_gap"] == 0.1


def test_what_is_not_typed_is_none(tmp_path: Path) -> None:
    assert policy_of(tmp_path, "seed = 3", {"seed": None, "model": None}).settings(None).run.seed == 3
