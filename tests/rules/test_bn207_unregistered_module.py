"""BN207: modules that eval() does not reach."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from builders import batch_norm, hits, part

from bnaudit.description import Carrier, HiddenModule
from bnaudit.results import Hit, Severity

RULE = "bn207_unregistered_module"


def hidden(**fields: Any) -> HiddenModule:
    settings: dict[str, Any] = {
        "path": "norms[0]",
        "class_name": "torch.nn.modules.batchnorm.BatchNorm1d",
        "training": True,
        "mode_dependent": ("norms[0]",),
        "in_training": True,
    }
    return HiddenModule(**{**settings, **fields})


def module_hits(*modules: HiddenModule) -> list[Hit]:
    return hits(RULE, part([batch_norm(training=False)], carrier=Carrier.MODULE, hidden=modules))


def test_a_batch_norm_in_a_plain_list_in_training_mode_is_an_error() -> None:
    (hit,) = module_hits(hidden())
    assert (hit.layer, hit.severity, hit.settles) == ("norms[0]", Severity.ERROR, True)
    assert hit.message == "a BatchNorm1d that eval(), state_dict() and to() do not reach, in training mode"
    assert hit.undecided == ""


def test_one_hit_per_module() -> None:
    found = module_hits(hidden(), hidden(path="norms[1]"))
    assert [hit.layer for hit in found] == ["norms[0]", "norms[1]"]
    assert len({(hit.message, hit.advice) for hit in found}) == 1


def test_a_hidden_eval_teacher_is_a_warning_that_does_not_fail_the_verdict() -> None:
    (hit,) = module_hits(hidden(path="teacher[0]", training=False, mode_dependent=(), in_training=False))
    assert (hit.severity, hit.settles, hit.undecided) == (Severity.WARNING, False, "")
    assert hit.message.endswith("do not reach")


def test_a_hidden_linear_layer_is_a_warning_whatever_its_flag() -> None:
    (hit,) = module_hits(hidden(class_name="Linear", training=True, mode_dependent=(), in_training=False))
    assert hit.severity is Severity.WARNING


def test_an_unknown_mode_leaves_the_verdict_open() -> None:
    (hit,) = module_hits(hidden(training=None, in_training=False))
    assert hit.severity is Severity.WARNING
    assert hit.undecided
    assert hit.message.endswith("; its mode is not in the file")


def test_a_module_that_is_also_registered_is_no_hidden_module() -> None:
    assert not module_hits()


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = [torch.nn.BatchNorm1d(1), torch.nn.BatchNorm1d(1)]


def test_the_page_is_what_torch_does() -> None:
    net = Net().eval()
    assert net.training is False
    assert net.norms[0].training is True
    assert not net.state_dict()
    assert net.norms[0](torch.tensor([[6.0], [8.0]]))[0].item() == pytest.approx(-1.0, abs=1e-4)
    assert net.norms[0](torch.tensor([[6.0], [4.0]]))[0].item() == pytest.approx(1.0, abs=1e-4)
