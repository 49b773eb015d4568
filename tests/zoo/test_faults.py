"""Each fault is seen by PyTorch itself, or by what it says: the state that it leaves is the state that it names."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import torch
from torch import nn
from zoo.faults import FAULTS, IN_EVERY_CARRIER, Fault, Layers, copy_of, fits, plant
from zoo.judging import false_alarms, hear, outcome
from zoo.mode_faults import OF_MODE
from zoo.mode_faults import plant as plant_in_module
from zoo.moving import EPOCHS, affine_norms, move, tracking

from bnaudit import audit


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(8, 16, 3, 2), nn.BatchNorm2d(16), nn.ReLU())
        self.norm = nn.GroupNorm(4, 16)
        self.unused = nn.BatchNorm2d(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.body(self.stem(x))).mean((2, 3))


def moved() -> Net:
    torch.manual_seed(0)
    net = Net()
    assert move(net, "image", 0) == 64
    return net


RAN = ["stem.1", "body.1"]
LAYERS = Layers(RAN, ["stem.1", "body.1", "norm", "unused"])


def test_moving_leaves_statistics_that_fit_and_the_modes_and_momenta_as_they_were() -> None:
    net = moved()
    norms = dict(tracking(net))
    assert {name for name, norm in norms.items() if norm.num_batches_tracked} == set(RAN)
    assert {int(norms[name].num_batches_tracked) for name in RAN} == {3 * EPOCHS}
    assert all(norm.momentum == 0.1 for norm in norms.values())
    assert all(module.training for module in net.modules())
    assert set(affine_norms(net)) == {*RAN, "norm", "unused"}
    assert set(affine_norms(net, of_torch=True)) == {*RAN, "norm", "unused"}
    assert not torch.equal(net.norm.bias, torch.zeros(16))
    with torch.no_grad():
        seen = net.stem[0](torch.randn(64, 3, 64, 64, generator=torch.Generator().manual_seed(1)))
    stem = norms["stem.1"]
    assert stem.running_mean is not None and stem.running_var is not None
    assert torch.allclose(stem.running_mean, seen.mean((0, 2, 3)), atol=0.05)
    assert torch.allclose(stem.running_var, seen.var((0, 2, 3)), rtol=0.1)


def heard(state: object, folder: Path) -> list[dict[str, object]]:
    path = folder / "net.pt"
    torch.save(state, path)
    said = hear(audit(path, static=True))
    assert not said.crash
    return said.findings


def test_a_moved_net_is_told_of_the_layer_that_never_ran_and_of_nothing_else(tmp_path: Path) -> None:
    findings = heard(moved().state_dict(), tmp_path)
    assert false_alarms(findings, {"unused"}) == []
    assert [found["layer"] for found in false_alarms(findings)] == ["unused"]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_is_found_by_its_rule_at_its_layers(fault: Fault, tmp_path: Path) -> None:
    state = moved().state_dict()
    before = heard(state, tmp_path)
    faulty = copy_of(state)
    assert fits(fault, LAYERS)
    for seed in range(3):
        faulty = copy_of(state)
        layers = fault.plant(faulty, LAYERS, Random(seed))
        assert set(layers) <= {*LAYERS.tracking, *LAYERS.affine}
        assert outcome_of(fault, layers, heard(faulty, tmp_path), before) == (True, True, [])
    assert state.keys() == moved().state_dict().keys()


def outcome_of(fault: Fault, layers: tuple[str, ...], findings: list, before: list) -> tuple[bool, bool, list]:
    from zoo.faults import Planted

    return tuple(outcome(Planted(fault.name, fault.rule, fault.severity, layers), findings, before))


def test_a_net_without_norms_has_no_fault_and_one_with_layer_norm_has_those_of_its_affine() -> None:
    assert plant({}, Layers([], []), Random(0)) is None
    drawn = {fault.rule for fault in FAULTS if fits(fault, Layers([], ["norm"]))}
    assert drawn == {"BN115"}


def test_names_of_faults_are_unique_and_those_of_every_carrier_exist() -> None:
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names)
    assert set(IN_EVERY_CARRIER) <= set(names)


@pytest.mark.parametrize("carrier", ["live", "torchscript", "traced", "pt2", "onnx"])
def test_a_fault_in_the_module_is_in_a_norm_that_ran_or_in_an_affine(carrier: str) -> None:
    for seed in range(20):
        net = moved()
        planted = plant_in_module(net, carrier, Random(seed))
        assert planted is not None
        (layer,) = planted.planted.layers
        norm = net.get_submodule(layer)
        assert isinstance(norm, (nn.BatchNorm2d, nn.GroupNorm))
        assert "BN403".startswith(planted.consequences)
        assert "BN301".startswith(planted.consequences) is planted.of_mode
        if planted.of_mode:
            assert planted.planted.fault in {fault.name for fault in OF_MODE if carrier in fault.rules}
            assert layer in RAN
