"""Instance norms with statistics, which graphs hold once for each input of the batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from builders import part
from compared import trained

import bnaudit
from bnaudit.comparison import PairedBy
from bnaudit.description import Evidence, NormKind
from bnaudit.matching import match, moves
from bnaudit.matching.repeats import unrepeated
from bnaudit.records import replace


@pytest.mark.parametrize("times", [2, 3])
def test_a_layer_that_repeats_another_is_that_layer(times: int) -> None:
    layer = trained(channels=4)
    values = {name: np.tile(getattr(layer, name), times) for name in ("mean", "var", "gamma", "beta")}
    found = match(part([trained(**values)]), part([layer]))
    assert found.pairs[0].subject.channels == 4
    (move,) = moves(found)
    assert move.affine_equal and move.statistics_equal and move.configuration == ()
    (back,) = moves(match(part([layer]), part([trained(**values)])))
    assert back.affine_equal and back.statistics_equal and back.configuration == ()


def test_a_layer_with_more_channels_is_another_one() -> None:
    layer = trained(channels=4)
    values = {name: np.tile(getattr(layer, name), 2) for name in ("mean", "var", "gamma", "beta")}
    values["beta"][5] += 1e-3
    changed = trained(**values)
    assert unrepeated(changed, layer) is changed
    assert "channels" in moves(match(part([changed]), part([layer])))[0].configuration


def test_an_export_with_a_batch_of_two_is_equal(tmp_path: Path) -> None:
    torch.manual_seed(0)
    norm = torch.nn.InstanceNorm2d(4, affine=True, track_running_stats=True)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), norm, torch.nn.ReLU())
    model(torch.randn(8, 3, 8, 8) + 1)
    torch.nn.init.normal_(norm.weight)
    model.eval()
    torch.save(model.state_dict(), tmp_path / "a.pt")
    torch.onnx.export(model, (torch.randn(2, 3, 8, 8),), str(tmp_path / "b.onnx"), dynamo=False)
    torch.jit.freeze(torch.jit.script(model)).save(str(tmp_path / "c.jit"))
    for other in ("b.onnx", "c.jit"):
        (audit,) = bnaudit.compare(tmp_path / "a.pt", tmp_path / other).audits
        assert [finding for finding in audit.findings if finding.severity >= 2] == []
        assert audit.comparison is not None and [m.statistics_equal for m in audit.comparison.moves] == [True]


def test_equal_values_pair_instance_norm_with_what_tensors_call_batch_norm() -> None:
    guessed = replace(trained("i1"), evidence=Evidence.STATISTICS)
    told = replace(trained("forward.instance_norm"), kind=NormKind.INSTANCE, evidence=Evidence.OPERATOR)
    (pair,) = match(part([told]), part([guessed])).pairs
    assert pair.by in (PairedBy.VALUES, PairedBy.ORDER)
    (move,) = moves(match(part([told]), part([guessed])))
    assert move.configuration == ()
