"""Which pickled modules are norm layers: real classes of torch, and foreign ones by their attributes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from pickled_modules import part_of, viewed
from torch import nn
from torch.ao.nn import intrinsic, quantized

from bnaudit.description import CUMULATIVE, NormKind, StoredTensor
from bnaudit.reading.modules.norm_modules import norm_kind, norm_layer
from bnaudit.reading.modules.objects import PickledModule
from bnaudit.reading.pickles.stand_ins import Call, Global, PickleDict

TENSOR = Call(Global("torch._utils", "_rebuild_tensor_v2"), ())


def as_dict(entries: dict[str, Any]) -> PickleDict:
    filled = PickleDict()
    for key, value in entries.items():
        filled[key] = value
    return filled


def module(
    class_name: str = "models.Thing",
    *,
    parameters: dict[str, Any] | None = None,
    buffers: dict[str, Any] | None = None,
    children: dict[str, Any] | None = None,
    **attributes: Any,
) -> PickledModule:
    """A pickled module put together by hand."""
    attributes["_parameters"] = as_dict(parameters or {})
    attributes["_buffers"] = as_dict(buffers or {})
    attributes["_modules"] = as_dict(children or {})
    return PickledModule(TENSOR, class_name, as_dict(attributes))


STATISTICS = {"running_mean": TENSOR, "running_var": TENSOR}
AFFINE = {"weight": TENSOR, "bias": TENSOR}
SETTINGS = {"num_features": 4, "eps": 1e-5, "momentum": 0.1, "affine": True, "track_running_stats": True}


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (quantized.BatchNorm2d(4), NormKind.BATCH),
        (quantized.BatchNorm3d(4), NormKind.BATCH),
        (intrinsic.quantized.BNReLU2d(4), NormKind.BATCH),
        (nn.LazyInstanceNorm2d(), NormKind.INSTANCE),
        (nn.GroupNorm(2, 4, affine=False), NormKind.GROUP),
        (nn.RMSNorm(4, elementwise_affine=False, eps=1e-5), NormKind.RMS),
        (nn.LocalResponseNorm(2), None),
        (nn.CrossMapLRN2d(2), None),
        (nn.Linear(2, 2), None),
        (nn.PReLU(), None),
        (nn.Embedding(3, 2), None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else None,
)
def test_classes_of_torch(tmp_path: Path, made: nn.Module, kind: NormKind | None) -> None:
    assert norm_kind(viewed(made, tmp_path)) is kind


@pytest.mark.parametrize("made", [quantized.BatchNorm2d(4), intrinsic.quantized.BNReLU2d(4)], ids=str)
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_quantized_norms_use_their_statistics_whatever_the_flag_says(tmp_path: Path, made: nn.Module) -> None:
    made.running_mean += 1
    first, second = torch.randn(2, 1, 4, 3, 3, generator=torch.Generator().manual_seed(0))
    alone, beside = (
        made(torch.quantize_per_tensor(x, 0.1, 64, torch.quint8)) for x in (first, torch.cat((first, second)))
    )
    assert torch.equal(alone.dequantize()[0], beside.dequantize()[0])
    (layer,) = part_of(nn.Sequential(made), tmp_path).layers
    assert (layer.training, layer.graph_training) == (True, False)


def test_a_default_rms_norm_without_epsilon_is_one(tmp_path: Path) -> None:
    (layer,) = part_of(nn.Sequential(nn.RMSNorm(4)), tmp_path).layers
    assert (layer.kind, layer.eps) == (NormKind.RMS, None)


def test_a_fused_pair_is_listed_by_its_norm(tmp_path: Path) -> None:
    part = part_of(nn.Sequential(intrinsic.BNReLU2d(nn.BatchNorm2d(2), nn.ReLU())), tmp_path)
    assert [layer.name for layer in part.layers] == ["0.0"]


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        # subclasses of torch's norms whose name says which, or not
        (module("models.MyBatchNorm", buffers=STATISTICS, **SETTINGS), NormKind.BATCH),
        (module("models.Norm", buffers=STATISTICS, **SETTINGS), NormKind.UNKNOWN),
        (module("models.Norm", buffers=dict.fromkeys(STATISTICS), **SETTINGS), NormKind.UNKNOWN),
        (module("models.LayerNormLike", buffers=STATISTICS, **SETTINGS), NormKind.UNKNOWN),
        # foreign classes with running statistics
        (module("rl.RunningMeanStd", buffers={**STATISTICS, "count": TENSOR}, epsilon=1e-5), NormKind.UNKNOWN),
        (
            module("torchvision.ops.misc.FrozenBatchNorm2d", buffers={**STATISTICS, **AFFINE}, eps=0.0),
            NormKind.FROZEN_BATCH,
        ),
        (module("models.FrozenBatchNorm2d", buffers={**STATISTICS, **AFFINE}), NormKind.FROZEN_BATCH),
        # before 0.4, one buffer deleted
        (
            module("x.BatchNorm2d", buffers={"running_mean": TENSOR, "running_var": None}, num_features=4),
            NormKind.BATCH,
        ),
        # something else with a moving average, and names that only sound like norms
        (module("models.Codebook", buffers={"running_mean": TENSOR}), None),
        (module("models.Codebook", buffers={"running_mean": TENSOR, "running_var": None}, num_features=4), None),
        (module("models.BatchLinear", parameters=AFFINE), None),
        (module("models.InstanceHead", parameters=AFFINE, eps=1e-5), None),
        (module("models.ConditionalBatchNorm2d", children={"bn": TENSOR}, num_features=4), None),
        # one statistic, and another in place of the other: batch renormalization, complex numbers
        (module("models.BatchRenorm2d", buffers={"running_mean": TENSOR, "running_std": TENSOR}, eps=1e-3), None),
        (
            module("models.ComplexBatchNorm2d", buffers={"running_mean": TENSOR, "running_covar": TENSOR}, **SETTINGS),
            None,
        ),
        (
            module("models.MyBatchNorm2d", buffers={"running_mean": TENSOR, "weight_mask": TENSOR}, **SETTINGS),
            NormKind.BATCH,
        ),
        (
            module("torch.nn.modules.batchnorm.BatchNorm2d", buffers={"running_mean": TENSOR, "x": TENSOR}, **SETTINGS),
            NormKind.BATCH,
        ),
        # norms without statistics
        (module("models.LlamaRMSNorm", parameters={"weight": TENSOR}, variance_epsilon=1e-6), NormKind.RMS),
        (module("models.AdaLayerNorm", children={"norm": TENSOR, "linear": TENSOR}, eps=1e-5), None),
        (module("models.ChannelLayerNorm", parameters={"gamma": TENSOR, "beta": TENSOR}), NormKind.LAYER),
        (module("models.Scale", parameters=AFFINE, normalized_shape=(4,), eps=1e-5), NormKind.LAYER),
        (module("models.Scale", parameters={"weight": TENSOR}, normalized_shape=(4,), eps=1e-5), NormKind.RMS),
        (module("models.Odd", num_groups=2, num_channels=4), NormKind.GROUP),
    ],
)
def test_foreign_classes_by_name_and_attributes(made: PickledModule, kind: NormKind | None) -> None:
    assert norm_kind(made) is kind


def named_only(name: str, value: object) -> StoredTensor:
    return StoredTensor(name=name, dtype="float32", shape=(4,), values=None)


def test_settings_that_are_not_in_the_pickle_are_unknown() -> None:
    layer = norm_layer("bn", module("x.BatchNorm2d", buffers=STATISTICS), named_only)
    assert layer is not None
    assert (layer.eps, layer.momentum, layer.affine, layer.tracks_statistics) == (None, None, None, None)
    assert (layer.training, layer.hooked, layer.declared_channels) == (None, None, None)


def test_momentum_none_is_cumulative_and_absent_is_unknown() -> None:
    cumulative = norm_layer("bn", module("x.BatchNorm2d", buffers=STATISTICS, momentum=None), named_only)
    assert cumulative is not None and cumulative.momentum is CUMULATIVE


def test_settings_of_the_wrong_type_are_unknown() -> None:
    odd = {"eps": "small", "momentum": True, "affine": 1, "track_running_stats": "yes", "num_features": 1.5}
    layer = norm_layer("bn", module("x.BatchNorm2d", buffers=STATISTICS, training=0, **odd), named_only)
    assert layer is not None
    assert (layer.eps, layer.momentum, layer.affine, layer.tracks_statistics) == (None, None, None, None)
    assert (layer.training, layer.declared_channels) == (None, None)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 10**400])
def test_numbers_that_are_none_are_unknown(number: float) -> None:
    layer = norm_layer("bn", module("x.BatchNorm2d", buffers=STATISTICS, eps=number), named_only)
    assert layer is not None and layer.eps is None


def test_a_fused_convolution_gives_gamma_and_not_its_kernel() -> None:
    fused = module(
        "torch.nn.intrinsic.qat.modules.conv_fused.ConvBn2d",
        parameters={"weight": TENSOR, "bias": None, "gamma": TENSOR, "beta": TENSOR},
        buffers={**STATISTICS, "num_batches_tracked": TENSOR},
        eps=1e-5,
        momentum=0.1,
    )
    layer = norm_layer("conv", fused, named_only)
    assert layer is not None
    assert [tensor.name.rpartition(".")[2] for tensor in layer.tensors] == [
        "gamma",
        "beta",
        "running_mean",
        "running_var",
        "num_batches_tracked",
    ]
