"""Under which name another process imports a factory."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bnaudit.round_trip.factory_names import factory_name
from bnaudit.session import NotPossibleError


def test_a_spec_is_its_own_name_and_a_model_has_none() -> None:
    assert factory_name("net.py:build") == "net.py:build"
    assert factory_name(None) == factory_name(torch.nn.Linear(1, 1)) == ""


def test_a_class_and_a_function_are_named_by_their_module() -> None:
    assert factory_name(torch.nn.Linear) == "torch.nn.modules.linear:Linear"
    assert factory_name(torch.nn.Module.train) == "torch.nn.modules.module:Module.train"


class Callable:
    def __call__(self) -> torch.nn.Module:
        return torch.nn.Linear(1, 1)


@pytest.mark.parametrize("factory", [lambda: torch.nn.Linear(1, 1), Callable()])
def test_what_has_no_name_to_import_is_one_sentence(factory: Any) -> None:
    with pytest.raises(NotPossibleError, match=r"file\.py:callable"):
        factory_name(factory)
