"""A live module is described as the reader describes a pickle of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from pickled_modules import part_of
from small_nets import (
    DetectronFrozenBatchNorm2d,
    FrozenBatchNorm2d,
    MixtureOfExperts,
    ResNet,
    SharedHead,
    WeightStandardized,
)
from torch import nn
from torch.nn.utils import prune

from bnaudit.description import NormKind, Part
from bnaudit.torch_session.live_layers import live_part
from sample_models import digits

ROLES = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


def plain(part: Part) -> dict[str, object]:
    """All that a part says, as values that can be compared."""
    layers = []
    for layer in part.layers:
        fields = {field: getattr(layer, field) for field in layer._fields if field not in ROLES}
        for role in ROLES:
            tensor = getattr(layer, role)
            fields[role] = tensor and (
                tensor.name,
                tensor.dtype,
                tensor.shape,
                tensor.requires_grad,
                None if tensor.values is None else tensor.values.tobytes(),
                bool(tensor.absence),
            )
        layers.append(fields)
    return {"layers": layers, **{field: getattr(part, field) for field in part._fields if field != "layers"}}


def frozen() -> nn.Module:
    net = digits.build()
    net.bn1.requires_grad_(False)
    net.layer2.requires_grad_(False)
    return net.eval().train()


def pruned() -> nn.Module:
    net = digits.build()
    prune.l1_unstructured(net.bn1, "weight", 0.3)
    return net


def hiding() -> nn.Module:
    net = digits.build()
    net.callbacks = [{"a": nn.BatchNorm1d(2)}, (nn.Dropout(0.5), nn.ReLU())]
    net.function = nn.BatchNorm2d(3).forward
    return net


def tracked_instance(channels: int) -> nn.Module:
    return nn.InstanceNorm2d(channels, affine=True, track_running_stats=True)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "residual": digits.build,
    "hidden in a list": digits.build_plain_list,
    "ported": digits.build_keras_port,
    "untracked": digits.build_untracked,
    "group norm": digits.build_group_norm,
    "weight standardization": WeightStandardized,
    "shared head": SharedHead,
    "mixture of experts": MixtureOfExperts,
    "frozen class": lambda: ResNet(FrozenBatchNorm2d),
    "detectron's frozen class": lambda: ResNet(DetectronFrozenBatchNorm2d),
    "instance norm with tracking": lambda: ResNet(tracked_instance),
    "instance norm": lambda: ResNet(nn.InstanceNorm2d),
    "sync": lambda: nn.SyncBatchNorm.convert_sync_batchnorm(digits.build()),
    "DataParallel": lambda: nn.DataParallel(digits.build()),
    "averaged": lambda: torch.optim.swa_utils.AveragedModel(digits.build()),
    "transformer": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2),
    "recurrent": lambda: nn.LSTM(4, 5, 2, dropout=0.5),
    "half": lambda: digits.build().half(),
    "bfloat16": lambda: digits.build().bfloat16(),
    "compiled": lambda: torch.compile(digits.build()),
    "lazy": lambda: nn.Sequential(nn.LazyConv2d(3, 3), nn.LazyBatchNorm2d()),
    "rms": lambda: nn.Sequential(nn.Linear(4, 4), nn.RMSNorm(4), nn.LayerNorm(4)),
    "not affine": lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2, affine=False)),
    "cumulative": lambda: nn.Sequential(nn.BatchNorm1d(3, momentum=None, eps=1e-3)),
    "frozen weights": frozen,
    "pruned": pruned,
    "hidden everywhere": hiding,
    "root": lambda: nn.BatchNorm2d(3),
}


@pytest.mark.parametrize("name", MODELS)
def test_agrees_with_the_reader_of_pickles(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    assert plain(live_part(model)) == plain(part_of(model, tmp_path))


def test_what_cannot_be_pickled_hides_nothing() -> None:
    net = nn.Sequential(nn.BatchNorm2d(3))
    net.callback = lambda: None  # type: ignore[assignment]
    with Path(__file__).open() as stream:
        net.stream = stream  # type: ignore[assignment]
        assert [layer.name for layer in live_part(net).layers] == ["0"]


def test_parametrized_norms_have_their_computed_weight() -> None:
    class Doubled(nn.Module):
        def forward(self, weight: torch.Tensor) -> torch.Tensor:
            return 2 * weight

    net = nn.Sequential(nn.BatchNorm2d(3))
    nn.utils.parametrize.register_parametrization(net[0], "weight", Doubled())
    (layer,) = live_part(net).layers
    assert layer.kind is NormKind.BATCH
    assert layer.gamma is not None and layer.gamma.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("scripted", [True, False])
def test_torchscript_in_memory(scripted: bool) -> None:
    net = digits.build().eval()
    model = torch.jit.script(net) if scripted else torch.jit.trace(net, torch.rand(2, 1, 8, 8))
    part = live_part(model)
    assert [layer.name for layer in part.layers] == [layer.name for layer in live_part(net).layers]
    assert part.traced is not scripted


def test_cycles_and_other_peoples_objects_end() -> None:
    net = nn.Sequential(nn.BatchNorm2d(3))
    loop: list[object] = [net]
    loop.append(loop)
    net.loop = loop  # type: ignore[assignment]
    net.module_of_python = torch  # type: ignore[assignment]
    assert len(live_part(net).layers) == 1
