"""Models from the user's own code."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from bnaudit.errors import UnreadableError, UsageError
from bnaudit.torch_session.factories import build_model
from bnaudit.torch_session.surroundings import kept_surroundings

CODE = """
import helper_beside
from torch import nn

class Zoo:
    @staticmethod
    def net(width=2):
        return nn.Linear(width, helper_beside.WIDTH)

def build(width=2):
    return Zoo.net(width)

def broken():
    raise ValueError("no such width")

def pair():
    return nn.Linear(1, 1), object()

def nothing():
    pass

model = nn.Linear(5, 5)
number = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "helper_beside.py").write_text("WIDTH = 7\n")
    (tmp_path / "nets_of_a_test.py").write_text(CODE)
    return tmp_path / "nets_of_a_test.py"


def test_a_callable_of_a_file_with_arguments(file: Path) -> None:
    with kept_surroundings():
        model = build_model(f"{file}:build", {"width": 4})
    assert isinstance(model, nn.Linear) and (model.in_features, model.out_features) == (4, 7)


def test_an_attribute_path_and_a_ready_model(file: Path) -> None:
    with kept_surroundings():
        assert isinstance(build_model(f"{file}:Zoo.net", {}), nn.Linear)
        assert isinstance(build_model(f"{file}:model", {}), nn.Linear)


def test_a_module_of_a_package() -> None:
    with kept_surroundings():
        assert isinstance(build_model("sample_models.digits:build", {}), nn.Module)


def test_a_live_module_and_a_live_factory() -> None:
    model = nn.Linear(1, 1)
    assert build_model(model, {}) is model
    assert build_model(lambda: model, {}) is model


def test_the_import_path_is_as_before(file: Path) -> None:
    import sys

    before = list(sys.path)
    with kept_surroundings():
        build_model(f"{file}:build", {})
    assert sys.path == before


@pytest.mark.parametrize(
    ("name", "said"),
    [("biuld", "did you mean build"), ("pair", "tuple of 2"), ("nothing", "None"), ("number", "builds no model")],
)
def test_what_makes_no_model_is_wrong_usage(file: Path, name: str, said: str) -> None:
    with kept_surroundings(), pytest.raises(UsageError, match=said):
        build_model(f"{file}:{name}", {})


def test_wrong_arguments_are_wrong_usage(file: Path) -> None:
    with kept_surroundings(), pytest.raises(UsageError, match="--model-args"):
        build_model(f"{file}:build", {"depth": 3})
    with pytest.raises(UsageError, match="takes no arguments"):
        build_model(nn.Linear(1, 1), {"width": 3})


def test_an_error_of_the_factory_is_told_with_its_line(file: Path) -> None:
    with kept_surroundings(), pytest.raises(UnreadableError, match=r"ValueError: no such width .*nets_of_a_test.py:14"):
        build_model(f"{file}:broken", {})


@pytest.mark.parametrize("spec", ["nowhere.py:build", "no.such.package:build", "digits"])
def test_what_leads_nowhere_is_wrong_usage(spec: str) -> None:
    with kept_surroundings(), pytest.raises(UsageError):
        build_model(spec, {})
