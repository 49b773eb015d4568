"""checkpoint.py: which models a checkpoint holds, and what else it says."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from state_dicts import assert_norms_equal, batch_norm, describe
from torch import nn

from bnaudit.description import Carrier, Description
from bnaudit.errors import NotAModelError


def saved(value: Any, folder: Path) -> Description:
    path = folder / "checkpoint.pt"
    torch.save(value, path)
    return describe(path)


def model(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.LazyLinear(2))


def trained(steps: int = 3) -> tuple[nn.Module, torch.optim.Optimizer]:
    net = model()
    net(torch.randn(2, 3, 5, 5))
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(steps):
        net(torch.randn(2, 3, 5, 5)).sum().backward()
        optimizer.step()
    return net, optimizer


def parts(description: Description) -> list[tuple[str, list[str]]]:
    return [(part.name, [layer.name for layer in part.layers]) for part in description.parts]


def test_several_state_dicts_are_parts_named_by_their_paths(tmp_path: Path) -> None:
    first, second = batch_norm("a.bn", 2, torch.float32, 1), batch_norm("a.bn", 2, torch.float32, 2)
    third = batch_norm("bn", 2, torch.float32, 3)
    value = {"epoch": 3, "state_dict": first, "state_dict_ema": second, "ckpt": {"model": [third]}}
    assert parts(saved(value, tmp_path)) == [
        ("state_dict", ["a.bn"]),
        ("state_dict_ema", ["a.bn"]),
        ("ckpt.model.0", ["bn"]),
    ]


def test_nesting_of_any_depth_is_followed(tmp_path: Path) -> None:
    value: Any = batch_norm("bn", 2, torch.float32, 1)
    for depth in range(60):
        value = {f"k{depth}": value}
    ((name, layers),) = parts(saved(value, tmp_path))
    assert (name.count("."), layers) == (59, ["bn"])


def test_one_layer_per_dict_makes_one_part(tmp_path: Path) -> None:
    layer = {leaf: np.ones(3, np.float32) for leaf in ("gamma", "beta", "moving_mean", "moving_variance")}
    conv = {"kernel": np.zeros((3, 3, 3, 3), np.float32), "bias": np.zeros(3, np.float32)}
    value = {"block1": {"bn": layer, "conv": conv}, "bn": {leaf: a + 1 for leaf, a in layer.items()}}
    (part,) = saved(value, tmp_path).parts
    assert (part.name, part.tensors) == ("", 10)
    assert [found.name for found in part.layers] == ["block1.bn", "bn"]
    assert part.layers[1].running_var is not None and part.layers[1].running_var.name == "bn.moving_variance"


def test_the_state_dict_of_a_single_layer_is_a_part(tmp_path: Path) -> None:
    assert parts(saved(nn.BatchNorm1d(3).state_dict(), tmp_path)) == [("", [""])]
    assert parts(saved({"model": nn.BatchNorm1d(3).state_dict(), "epoch": 1}, tmp_path)) == [("model", [""])]


def test_stray_tensors_beside_a_model_are_no_part(tmp_path: Path) -> None:
    value = {"best": torch.tensor(0.9), "scale": torch.ones(3), "state_dict": batch_norm("bn", 2, torch.float32, 1)}
    assert parts(saved(value, tmp_path)) == [("state_dict", ["bn"])]


def test_class_versions_are_read_from_the_state_and_from_an_item(tmp_path: Path) -> None:
    state = model().state_dict()
    (part,) = saved({"state_dict": state}, tmp_path).parts
    assert (part.has_metadata, part.layers[0].metadata_version) == (True, 2)
    item = dict(state) | {"_metadata": OrderedDict({"1": {"version": 2}})}
    (part,) = saved({"state_dict": {k: v for k, v in item.items() if "3." not in k}}, tmp_path).parts
    assert (part.has_metadata, part.layers[0].metadata_version) == (True, 2)
    (part,) = saved(dict(batch_norm("bn", 2, torch.float32, 1)), tmp_path).parts
    assert (part.has_metadata, part.layers[0].metadata_version) == (False, None)


def test_optimizer_state_is_no_model_and_gives_the_steps_on_which_it_agrees(tmp_path: Path) -> None:
    net, optimizer = trained(steps=3)
    description = saved({"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 7}, tmp_path)
    assert parts(description) == [("model", ["1"])]
    assert (description.has_optimizer, description.steps, description.steps_name) == (True, 3, "optimizer step")
    two = {"G": optimizer.state_dict(), "D": trained(steps=2)[1].state_dict()}
    description = saved({"model": net.state_dict(), "optimizers": two}, tmp_path)
    assert (description.has_optimizer, description.steps) == (True, None)


@pytest.mark.parametrize("key", ["opt_g", "anything", "optimizer"])
def test_an_optimizer_is_recognised_by_its_structure_too(tmp_path: Path, key: str) -> None:
    net, optimizer = trained()
    description = saved({"net": net.state_dict(), key: optimizer.state_dict()}, tmp_path)
    assert (parts(description), description.has_optimizer) == ([("net", ["1"])], True)
    assert saved({"net": net.state_dict(), key: optimizer}, tmp_path).steps == 3


def test_no_optimizer_is_said_too(tmp_path: Path) -> None:
    assert saved(batch_norm("bn", 2, torch.float32, 1), tmp_path).has_optimizer is False
    norm = batch_norm("bn", 2, torch.float32, 1)
    for settings in (None, {}, [], "adam", {"type": "SGD", "lr": 0.1}, [{"name": "adam", "betas": (0.9, 0.99)}]):
        assert saved({"m": norm, "optimizer": settings, "opt": {"lr": 1}}, tmp_path).has_optimizer is False


def test_a_lightning_checkpoint(tmp_path: Path) -> None:
    net, optimizer = trained()
    value = {
        "epoch": 4,
        "global_step": 1250,
        "pytorch-lightning_version": "2.2.1",
        "state_dict": OrderedDict((f"model.{k}", v) for k, v in net.state_dict().items()),
        "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 5}}}},
        "callbacks": {"ModelCheckpoint{'monitor': None}": {"best_model_score": torch.tensor(0.5)}},
        "optimizer_states": [optimizer.state_dict()],
        "lr_schedulers": [{"last_epoch": 4, "_last_lr": [0.1]}],
        "hyper_parameters": {"lr": 0.1},
    }
    description = saved(value, tmp_path)
    assert parts(description) == [("state_dict", ["model.1"])]
    assert description.artifact.producer == "pytorch-lightning 2.2.1"
    assert (description.steps, description.steps_name, description.has_optimizer) == (1250, "global_step", True)


@pytest.mark.parametrize("key", ["epoch", "iteration", "step"])
def test_counts_that_may_not_be_steps_are_not_taken_for_steps(tmp_path: Path, key: str) -> None:
    assert saved({"m": batch_norm("bn", 2, torch.float32, 1), key: 5}, tmp_path).steps is None


def test_modules_and_state_dicts_in_one_file(tmp_path: Path) -> None:
    value = {
        "teacher": nn.Sequential(nn.BatchNorm1d(2)),
        "nets": [nn.BatchNorm1d(3)],
        "ema": batch_norm("b", 2, torch.float32, 1),
    }
    description = saved(value, tmp_path)
    assert parts(description) == [("teacher", ["0"]), ("nets.0", [""]), ("ema", ["b"])]
    carriers = [part.carrier for part in description.parts]
    assert carriers == [Carrier.MODULE, Carrier.MODULE, Carrier.STATE_DICT]


class Trainer:
    """An object of the user's own class around a model."""

    def __init__(self) -> None:
        self.net = nn.Sequential(nn.BatchNorm1d(2))
        self.shadow = batch_norm("0", 2, torch.float32, 1)


def test_models_inside_foreign_objects_are_found(tmp_path: Path) -> None:
    assert parts(saved({"trainer": Trainer()}, tmp_path)) == [("trainer.net", ["0"]), ("trainer.shadow", ["0"])]


def test_one_object_under_two_names_is_one_part_and_a_remark(tmp_path: Path) -> None:
    state = model().state_dict()
    del state["3.weight"], state["3.bias"]
    description = saved({"model": state, "best": state}, tmp_path)
    assert parts(description) == [("model", ["1"])]
    assert description.remarks == ("best is the same object as model",)


def test_the_same_tensors_under_two_names_are_one_part_and_a_remark(tmp_path: Path) -> None:
    norm = nn.BatchNorm1d(2)
    description = saved({"model": norm.state_dict(), "ema": norm.state_dict()}, tmp_path)
    assert parts(description) == [("model", [""])]
    assert description.remarks == ("ema holds the very tensors of model",)
    copied = {key: value.clone() for key, value in norm.state_dict().items()}
    assert len(saved({"model": norm.state_dict(), "ema": copied}, tmp_path).parts) == 2


def test_the_state_dict_of_a_module_beside_it_is_a_remark(tmp_path: Path) -> None:
    net, other = nn.Sequential(nn.BatchNorm1d(2)), nn.Sequential(nn.BatchNorm1d(2))
    description = saved({"state_dict": net.state_dict(), "net": net, "ema": other.state_dict()}, tmp_path)
    assert parts(description) == [("net", ["0"]), ("ema", ["0"])]
    assert description.remarks == ("state_dict holds the very tensors of the module net",)


def test_parameters_of_old_pickles_are_tensors(tmp_path: Path) -> None:
    norm = batch_norm("bn", 3, torch.float32, 5)
    path = tmp_path / "old.pth"
    torch.save(
        {k: _OldParameter(v) if v.ndim else v for k, v in norm.items()}, path, _use_new_zipfile_serialization=False
    )
    (part,) = describe(path).parts
    assert_norms_equal(part, norm)
    assert part.layers[0].requires_grad is False


class _OldParameter:
    """Pickles as a Parameter of PyTorch 0.2 and 0.3 does: a call with the data, and a state."""

    def __init__(self, data: torch.Tensor) -> None:
        self.data = data

    def __reduce__(self) -> object:
        return nn.Parameter, (self.data,), (False, False, OrderedDict())


def test_a_cycle_ends(tmp_path: Path) -> None:
    value: dict[str, Any] = {"model": batch_norm("bn", 2, torch.float32, 1)}
    value["self"] = value
    assert parts(saved(value, tmp_path)) == [("model", ["bn"])]


@pytest.mark.parametrize(
    "value", [torch.zeros(3), [torch.zeros(2)], {"w": torch.zeros(2)}, {"a": {"w": torch.ones(1)}}]
)
def test_tensors_without_norm_layers_were_looked_at(tmp_path: Path, value: Any) -> None:
    (part,) = saved(value, tmp_path).parts
    assert (part.layers, part.tensors) == ((), 1)


def test_optimizer_state_alone_is_no_model(tmp_path: Path) -> None:
    description = saved(trained()[1].state_dict(), tmp_path)
    assert (parts(description), description.has_optimizer) == ([], True)


def test_a_file_without_tensors_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(NotAModelError, match="without a tensor"):
        saved({"epoch": 3, "args": {"lr": 0.1}}, tmp_path)


def test_meta_tensors_are_named_without_values_and_are_no_gap(tmp_path: Path) -> None:
    with torch.device("meta"):
        norm = nn.BatchNorm1d(3)
    description = saved(norm.state_dict(), tmp_path)
    mean = description.parts[0].layers[0].running_mean
    assert mean is not None and mean.values is None and "meta" in mean.absence
    assert description.gaps == ()
