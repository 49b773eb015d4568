"""The JSON of a trace is what its schema says, and has all that the page has."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from jsonschema import Draft202012Validator
from torch import nn

from bnaudit import __version__
from bnaudit.json_text import json_text
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings
from bnaudit.tracing.channel import trace
from bnaudit.tracing.page import page
from bnaudit.tracing.trace_objects import trace_object
from bnaudit.tracing.trace_values import ChannelTrace

SCHEMA = json.loads(files("bnaudit.reports").joinpath("trace-1.schema.json").read_text(encoding="utf-8"))
NET = """
from torch import nn

def build():
    return nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.BatchNorm1d(6, momentum=None))

def build_leaking():
    return nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6, track_running_stats=False))

def build_group():
    return nn.Sequential(nn.Linear(5, 6), nn.GroupNorm(2, 6))
"""


def written(found: ChannelTrace) -> dict[str, Any]:
    """The document, read back, after the schema has seen it."""
    document: dict[str, Any] = json.loads(json_text(trace_object(found)))
    Draft202012Validator(SCHEMA).validate(document)
    return document


def numbers(node: Any) -> Iterator[float]:
    """Every number in the document, those in its decimals too."""
    if isinstance(node, dict):
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from numbers(each)
    elif re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", str(node)):
        yield float(node)


def ran(tmp_path: Path, factory: str, layer: str = "1") -> ChannelTrace:
    (tmp_path / "net.py").write_text(NET)
    inputs = np.random.default_rng(0).normal(2.0, 3.0, (20, 5)).astype(np.float32)
    np.savez(tmp_path / "x.npz", input=inputs)
    scope: dict[str, Any] = {}
    exec(compile(NET, "net.py", "exec"), scope)
    torch.save(scope[factory]().state_dict(), tmp_path / "model.pt")
    options = RunOptions(model=f"{tmp_path / 'net.py'}:{factory}", inputs=str(tmp_path / "x.npz"))
    return trace(tmp_path / "model.pt", layer, 2, Settings(run=options))


@pytest.mark.parametrize(
    ("factory", "layer"), [("build", "1"), ("build", "3"), ("build_leaking", "1"), ("build_group", "1")]
)
def test_every_number_of_the_page_is_in_it(tmp_path: Path, factory: str, layer: str) -> None:
    found = ran(tmp_path, factory, layer)
    known = list(numbers(written(found)))
    lines = page(found).splitlines()[2:]
    shown = [float(text) for text in re.findall(r"-?\d+\.\d{3,}", "\n".join(lines).replace("−", "-"))]
    assert len(shown) > (0 if factory == "build_group" else 10)
    lacking = [value for value in shown if not any(math.isclose(value, each, rel_tol=1e-5) for each in known)]
    assert lacking == []


def test_without_a_run_nothing_was_observed(tmp_path: Path) -> None:
    torch.save(nn.Sequential(nn.BatchNorm1d(3)).state_dict(), tmp_path / "model.pt")
    document = written(trace(tmp_path / "model.pt", "0", 1))
    assert (document["version"], document["tracks_statistics"]) == (__version__, True)
    assert (document["observed"], document["updates"], document["inputs"]) == ([], [], "")
    assert document["formula"] == "y = (x − mean) / √(variance + epsilon) · gamma + beta"
    assert document["state"]["assumed"] == ["eps", "momentum"]


def test_an_update_is_told_with_its_terms(tmp_path: Path) -> None:
    update = written(ran(tmp_path, "build"))["updates"][1]
    keep, old, weight, observed = (update[name]["exact"] for name in ("keep", "old", "weight", "observed"))
    assert (update["name"], keep, old, weight) == ("running_var", 0.9, 1, 0.1)
    assert update["new"]["exact"] == pytest.approx(0.9 + 0.1 * observed, rel=1e-12)


def test_a_norm_without_statistics_says_how_it_differs(tmp_path: Path) -> None:
    state = {"gn.weight": torch.tensor([2.0, 3.0]), "gn.bias": torch.tensor([1.0, 0.5])}
    torch.save(state, tmp_path / "model.pt")
    document = written(trace(tmp_path / "model.pt", "gn", 1))
    assert document["columns"] == [] and document["unlike_batch_norm"]
    assert [(row["z"], row["y"]["exact"]) for row in document["normalized"]] == [(-1, -2.5), (0, 0.5), (1, 3.5)]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0])
def test_numbers_that_json_lacks_are_words(tmp_path: Path, value: float) -> None:
    norm = nn.BatchNorm1d(2)
    assert norm.running_var is not None
    norm.running_var[1] = value
    torch.save(nn.Sequential(norm).state_dict(), tmp_path / "model.pt")
    words = {math.nan: "NaN", math.inf: "Infinity", -math.inf: "-Infinity"}
    assert written(trace(tmp_path / "model.pt", "0", 1))["state"]["var"] == words.get(value, value)


def test_hostile_names_stay_in_their_strings(tmp_path: Path) -> None:
    name = "bn\x1b[31m\n\u202e"
    torch.save(
        {f"{name}.{key}": torch.ones(2) for key in ("weight", "bias", "running_mean", "running_var")},
        tmp_path / "model.pt",
    )
    found = trace(tmp_path / "model.pt", name, 0)
    text = json_text(trace_object(found))
    assert "\x1b" not in text and "\u202e" not in text
    assert written(found)["layer"] == name
