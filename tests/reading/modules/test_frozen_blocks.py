"""Whether the block around a norm without weight and bias trains, against the parameters of the block itself."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pickled_modules import NoTensors, part_of
from torch import nn

from bnaudit.reading.modules.frozen_blocks import with_blocks
from bnaudit.reading.modules.norm_modules import norm_layer
from bnaudit.reading.modules.objects import as_module
from bnaudit.reading.modules.tensors import ModuleTensors
from bnaudit.reading.modules.walk import Walker
from bnaudit.reading.pickles.stand_ins import Call, Global, PickleDict


def bare() -> nn.BatchNorm2d:
    return nn.BatchNorm2d(2, affine=False)


def block(*, trains: bool) -> nn.Sequential:
    made = nn.Sequential(nn.Conv2d(2, 2, 1), bare(), nn.Sequential(nn.Conv2d(2, 2, 1), nn.ReLU()))
    return made.requires_grad_(trains)


def flags(module: nn.Module, folder: Path, *, legacy: bool = False) -> dict[str, bool | None]:
    return {layer.name: layer.block_requires_grad for layer in part_of(module, folder, legacy=legacy).layers}


@pytest.mark.parametrize("legacy", [False, True])
def test_the_module_that_holds_it_decides(tmp_path: Path, legacy: bool) -> None:
    net = nn.ModuleDict({"frozen": block(trains=False), "head": block(trains=True)})
    assert flags(net, tmp_path, legacy=legacy) == {"frozen.1": False, "head.1": True}


def test_one_parameter_that_trains_at_any_depth_is_enough(tmp_path: Path) -> None:
    net = block(trains=False)
    net[2][0].bias.requires_grad_(True)
    assert flags(net, tmp_path) == {"1": True}


def test_without_parameters_around_it_or_as_the_root_it_is_unknown(tmp_path: Path) -> None:
    assert flags(nn.Sequential(bare(), nn.ReLU()), tmp_path) == {"0": None}
    assert flags(bare(), tmp_path) == {"": None}


def test_norms_with_parameters_of_their_own_say_nothing_of_their_block(tmp_path: Path) -> None:
    assert flags(nn.Sequential(nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)).requires_grad_(False), tmp_path) == {"1": None}


def test_parameters_of_a_shared_module_count_in_every_block(tmp_path: Path) -> None:
    shared = nn.Conv2d(2, 2, 1)
    net = nn.ModuleDict({"a": nn.Sequential(shared, bare()), "b": nn.Sequential(shared, bare())})
    assert flags(net, tmp_path) == {"a.1": True, "b.1": True}


def test_a_block_of_unknown_parameters_is_unknown(tmp_path: Path) -> None:
    net = block(trains=False)
    net[2][0]._parameters["odd"] = "no tensor that says whether it trains"
    assert flags(net, tmp_path) == {"1": None}


@st.composite
def nets(draw: st.DrawFn, depth: int = 3) -> nn.Module:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        kind = draw(st.sampled_from(["bare", "norm", "linear", "relu"]))
        made = {"bare": bare, "norm": lambda: nn.BatchNorm1d(2), "linear": lambda: nn.Linear(1, 1), "relu": nn.ReLU}
        return made[kind]().requires_grad_(draw(st.booleans()))
    return nn.Sequential(*(draw(nets(depth=depth - 1)) for _ in range(draw(st.integers(1, 4)))))


@given(net=nets())
@settings(max_examples=30)
def test_any_tree_is_as_torch_says(net: nn.Module, tmp_path: Path) -> None:
    found = flags(net, tmp_path)
    modules = dict(net.named_modules())
    for name, module in modules.items():
        if isinstance(module, nn.BatchNorm2d):
            around = list(modules[name.rpartition(".")[0]].parameters()) if name else []
            assert found[name] is (any(p.requires_grad for p in around) if around else None)


def test_a_deep_chain_of_blocks_takes_linear_time() -> None:
    chain = _module({})
    for _ in range(2_500):
        chain = _module({"n": _norm(), "a": chain})
    module = as_module(chain)
    assert module is not None
    located = Walker().walk("", module)
    reader = ModuleTensors(NoTensors())
    layers = [norm for entry in located if (norm := norm_layer(*entry, reader.read)) is not None]
    assert len(layers) == 2_500
    start = time.perf_counter()
    assert {layer.block_requires_grad for layer in with_blocks(layers, located, reader)} == {None}
    assert time.perf_counter() - start < 2


def _dict(values: dict[str, object]) -> PickleDict:
    made = PickleDict()
    for key, value in values.items():
        made[key] = value
    return made


def _module(children: dict[str, object], **attributes: object) -> Call:
    made = Call(Global("m", "Block"), ())
    made.state = _dict({"_modules": _dict(children), "_parameters": _dict({}), "_buffers": _dict({}), **attributes})
    return made


def _norm() -> Call:
    return _module({}, num_features=2, eps=1e-5, track_running_stats=False)
