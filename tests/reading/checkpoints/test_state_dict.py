"""state_dict.py: which tensors are norm layers, of which kind, and on what evidence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from bnaudit.description import Evidence, NormKind, NormLayer, Part
from bnaudit.reading.checkpoints.state_dict import describe_state_dict
from bnaudit.reading.tensors.tensor_refs import TensorRef


class MemoryTensor(TensorRef):
    """A torch tensor that says whether it was read."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(
            str(tensor.dtype).removeprefix("torch."),
            tuple(tensor.shape),
            requires_grad=tensor.requires_grad,
            is_parameter=isinstance(tensor, nn.Parameter),
        )
        self.tensor = tensor
        self.was_read = False

    def load(self) -> Any:
        self.was_read = True
        return self.tensor.detach().to(torch.float64 if self.tensor.is_floating_point() else torch.int64).numpy()


def described(tensors: dict[str, torch.Tensor], metadata: bool = False) -> Part:
    """The part for a state dict, with the versions of its own `_metadata` if asked for."""
    versions = {name: local["version"] for name, local in tensors._metadata.items()} if metadata else None  # type: ignore[attr-defined]
    part, gaps = describe_state_dict("", [(name, MemoryTensor(t)) for name, t in tensors.items()], versions)
    assert gaps == ()
    return part


def kinds(part: Part) -> dict[str, tuple[NormKind, Evidence]]:
    return {layer.name: (layer.kind, layer.evidence) for layer in part.layers}


def only(part: Part) -> NormLayer:
    (layer,) = part.layers
    return layer


def vectors(*names: str, size: int = 4) -> dict[str, torch.Tensor]:
    return {name: torch.arange(size, dtype=torch.float32) + 1 for name in names}


def test_running_statistics_prove_a_batch_norm_and_all_its_tensors_are_exact() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    model(torch.randn(2, 3, 8, 8))
    layer = only(described(model.state_dict(), metadata=True))
    assert (layer.name, layer.kind, layer.evidence) == ("1", NormKind.BATCH, Evidence.STATISTICS)
    assert (layer.metadata_version, layer.counter, layer.tracks_statistics, layer.affine) == (2, 1.0, True, True)
    np.testing.assert_array_equal(layer.mean, model[1].running_mean.double())
    np.testing.assert_array_equal(layer.var, model[1].running_var.double())
    assert [t.name for t in layer.tensors] == [
        f"1.{leaf}" for leaf in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    ]


def test_only_the_tensors_of_norm_layers_are_read() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.PReLU(4), nn.Linear(4, 2))
    refs = {name: MemoryTensor(t) for name, t in model.state_dict().items()}
    describe_state_dict("", list(refs.items()), None)
    assert {name for name, ref in refs.items() if ref.was_read} == {name for name in refs if name.startswith("1.")}


def test_version_two_with_a_vector_weight_is_a_norm_of_unknown_kind() -> None:
    stripped = nn.BatchNorm2d(4, track_running_stats=False).state_dict()
    assert kinds(described(stripped, metadata=True)) == {"": (NormKind.UNKNOWN, Evidence.METADATA)}
    instance = nn.Sequential(nn.InstanceNorm2d(4, affine=True)).state_dict()
    assert kinds(described(instance, metadata=True)) == {"0": (NormKind.UNKNOWN, Evidence.METADATA)}


def test_other_class_versions_are_not_batch_norm() -> None:
    entries = [(name, MemoryTensor(t)) for name, t in vectors("bn.weight", "bn.bias").items()]
    assert describe_state_dict("", entries, {"bn": 3})[0].layers == ()
    assert only(describe_state_dict("", entries, {"bn": 1})[0]).evidence is Evidence.AFFINE
    four = vectors("bn.weight", "bn.bias", "bn.running_mean", "bn.running_var")
    complete = [(name, MemoryTensor(t)) for name, t in four.items()]
    for version in (1, 3):
        assert only(describe_state_dict("", complete, {"bn": version})[0]).kind is NormKind.FROZEN_BATCH
    assert only(describe_state_dict("", complete, {"bn": 2})[0]).kind is NormKind.BATCH
    assert only(describe_state_dict("", complete, None)[0]).kind is NormKind.BATCH


def test_a_matrix_weight_with_version_two_is_another_class() -> None:
    entries = [("conv.weight", MemoryTensor(torch.zeros(4, 3, 1, 1))), ("conv.bias", MemoryTensor(torch.zeros(4)))]
    assert describe_state_dict("", entries, {"conv": 2})[0].layers == ()


def test_the_batch_norm_inside_a_fused_convolution_is_found_without_its_weight() -> None:
    fused = vectors("0.gamma", "0.beta", "0.running_mean", "0.running_var") | {"0.weight": torch.zeros(4, 3, 3, 3)}
    layer = only(described(fused))
    assert layer.weight is not None and layer.weight.name == "0.gamma"
    bare = only(described(vectors("0.running_mean", "0.running_var") | {"0.weight": torch.zeros(4, 3, 3, 3)}))
    assert (bare.weight, bare.affine) == (None, None)


def test_a_counter_alone_proves_a_batch_norm_whose_statistics_were_dropped() -> None:
    layer = only(described(vectors("bn.weight", "bn.bias") | {"bn.num_batches_tracked": torch.tensor(7)}))
    assert (layer.kind, layer.counter, layer.running_mean) == (NormKind.BATCH, 7.0, None)


def test_names_settle_a_kind_only_when_they_spell_it() -> None:
    spoken = {
        "encoder.layernorm": NormKind.LAYER,
        "encoder.LayerNorm": NormKind.LAYER,
        "block.ln_1": NormKind.LAYER,
        "block.group_norm": NormKind.GROUP,
        "block.gn2": NormKind.GROUP,
        "block.norm1": NormKind.UNKNOWN,
        "block.bn3": NormKind.UNKNOWN,
        "stem.conv_bn": NormKind.UNKNOWN,
    }
    tensors = vectors(*(f"{name}.{leaf}" for name in spoken for leaf in ("weight", "bias")))
    assert kinds(described(tensors)) == {name: (kind, Evidence.AFFINE) for name, kind in spoken.items()}


def test_a_vector_weight_alone_is_rms_norm_or_nothing() -> None:
    tensors = vectors("model.norm.weight", "l.0.input_layernorm.weight", "act.weight", "prelu1.weight", "bn.weight")
    assert kinds(described(tensors)) == {
        "model.norm": (NormKind.RMS, Evidence.AFFINE),
        "l.0.input_layernorm": (NormKind.RMS, Evidence.AFFINE),
    }


def test_a_numbered_layer_is_a_norm_beside_a_convolution_with_as_many_channels() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.PReLU(4))
    tensors = {f"down.{k}": v for k, v in model.state_dict().items() if "running" not in k and "num_b" not in k}
    assert kinds(described(tensors)) == {"down.1": (NormKind.UNKNOWN, Evidence.AFFINE)}
    assert described(vectors("down.1.weight", "down.1.bias") | {"down.0.weight": torch.zeros(5, 3, 1, 1)}).layers == ()


def test_quantization_state_is_no_norm() -> None:
    tensors = vectors("conv.activation_post_process.min_val", "conv.activation_post_process.max_val")
    tensors |= vectors("conv.weight_fake_quant.scale", "conv.weight_fake_quant.zero_point", "conv.bias")
    tensors |= {"conv.scale": torch.tensor(1.0), "conv.zero_point": torch.tensor(0), "conv.weight": torch.zeros(4, 3)}
    assert described(tensors).layers == ()


@pytest.mark.filterwarnings("ignore")
def test_a_prepared_qat_model_keeps_its_batch_norms() -> None:
    layer = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    layer.qconfig = torch.ao.quantization.get_default_qat_qconfig("x86")  # type: ignore[assignment]
    prepared = torch.ao.quantization.prepare_qat(torch.ao.quantization.fuse_modules_qat(layer, [["0", "1", "2"]]))
    assert kinds(described(prepared.state_dict(), metadata=True)) == {"0.bn": (NormKind.BATCH, Evidence.STATISTICS)}


def test_names_of_tensorflow_mxnet_and_caffe2_are_read() -> None:
    keras = vectors("bn/gamma:0", "bn/beta:0", "bn/moving_mean:0", "bn/moving_variance:0")
    layer = only(described(keras))
    assert (layer.name, layer.kind, len(layer.tensors)) == ("bn", NormKind.BATCH, 4)
    mxnet = only(described(vectors("bn0_gamma", "bn0_beta", "bn0_moving_mean", "bn0_moving_var")))
    assert (mxnet.name, mxnet.kind, len(mxnet.tensors)) == ("bn0", NormKind.BATCH, 4)
    caffe2 = only(described(vectors("res2_bn_s", "res2_bn_b", "res2_bn_rm", "res2_bn_riv")))
    assert (caffe2.name, caffe2.kind, len(caffe2.tensors)) == ("res2_bn", NormKind.FROZEN_BATCH, 4)
    absorbed = only(described(vectors("conv1_w", "res_conv1_bn_s", "res_conv1_bn_b", "fc_b")))
    assert (absorbed.name, absorbed.kind) == ("res_conv1_bn", NormKind.UNKNOWN)


@pytest.mark.parametrize("separator", ["/", "."])
def test_the_two_collections_of_flax_are_one_layer(separator: str) -> None:
    names = ("params/Conv_0/kernel", "params/BatchNorm_0/scale", "params/BatchNorm_0/bias")
    stored = (*names, "batch_stats/BatchNorm_0/mean", "batch_stats/BatchNorm_0/var")
    layer = only(described(vectors(*(name.replace("/", separator) for name in stored))))
    assert (layer.name, layer.kind) == (separator.join(("params", "BatchNorm_0")), NormKind.BATCH)
    assert [tensor.name.replace(separator, "/") for tensor in layer.tensors] == list(stored[1:])


@pytest.mark.parametrize("own", ["running_std", "running_covar", "v"])
def test_a_norm_with_tensors_of_its_own_lacks_nothing(own: str) -> None:
    other = vectors("norm.weight", "norm.bias", "norm.running_mean", f"norm.{own}")
    assert described(other).layers == ()
    torn = only(described({key: other[key] for key in ("norm.weight", "norm.bias", "norm.running_mean")}))
    assert torn.running_var is None
    pruned = only(described(other | vectors("norm.weight_mask", "norm.running_var")))
    assert pruned.kind is NormKind.BATCH


def test_a_torn_batch_norm_keeps_being_one_whatever_else_it_holds() -> None:
    module = nn.Sequential(nn.BatchNorm1d(3))
    module[0].register_buffer("running_max", torch.ones(3))
    state = module.state_dict()
    del state["0.running_var"]
    assert only(described(state, metadata=True)).kind is NormKind.BATCH
    pruned = vectors("bn.weight_orig", "bn.weight_mask", "bn.bias", "bn.running_mean")
    assert only(described(pruned)).running_var is None


def test_moving_averages_of_other_things_are_no_norms() -> None:
    assert described(vectors("center.running_mean", "loss.running_var")).layers == ()
    scalars = {"reward.running_mean": torch.tensor(0.0), "reward.running_var": torch.tensor(1.0)}
    assert described(scalars).layers == ()


def test_wrappers_are_recognised_from_a_prefix_of_all_names() -> None:
    net = nn.Sequential(nn.BatchNorm1d(2))
    assert described(nn.DataParallel(net).state_dict()).wrappers == ("DataParallel",)
    assert described({f"_orig_mod.module.{k}": v for k, v in net.state_dict().items()}).wrappers == (
        "OptimizedModule",
        "DataParallel",
    )
    assert described(net.state_dict()).wrappers == ()
    averaged = torch.optim.swa_utils.AveragedModel(nn.DataParallel(net))
    averaged.update_parameters(nn.DataParallel(net))
    part = described(averaged.state_dict())
    assert (part.wrappers, part.averaged_over) == (("AveragedModel", "DataParallel"), 1)


def test_a_detached_tensor_says_nothing_about_training_and_a_parameter_does() -> None:
    norm = nn.BatchNorm1d(2)
    norm.weight.requires_grad_(False)
    norm.bias.requires_grad_(False)
    assert only(described(norm.state_dict())).requires_grad is None
    assert only(described(norm.state_dict(keep_vars=True))).requires_grad is False


def test_part_facts_cover_all_tensors() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4).half())
    part = described(model.state_dict(), metadata=True)
    assert (part.tensors, part.floating_dtypes, part.has_metadata) == (7, ("float16", "float32"), True)


def test_statistics_shaped_for_broadcasting_keep_their_affine_parameters() -> None:
    tensors = {f"n.{leaf}": torch.ones(1, 4, 1, 1) for leaf in ("weight", "bias", "running_mean", "running_var")}
    assert len(only(described(tensors)).tensors) == 4


@pytest.mark.parametrize(
    ("layers", "norm"),
    [
        ([nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 2)], "0"),
        ([nn.Conv2d(3, 6, 1), nn.Dropout(), nn.GroupNorm(2, 6)], "2"),
        ([nn.LayerNorm(6), nn.Linear(6, 2)], "0"),
        ([nn.LayerNorm(6), nn.GELU(), nn.Dropout(), nn.Linear(6, 2)], None),
        ([nn.LayerNorm(6), nn.PReLU(6), nn.Linear(6, 2)], None),
        ([nn.LayerNorm(6), nn.GELU(), nn.Linear(5, 2)], None),
    ],
)
def test_a_norm_without_a_name_is_known_by_the_linear_map_before_or_behind_it(
    layers: list[nn.Module], norm: str | None
) -> None:
    """As CrossViT has it (`blocks.0.projs.1.0`): norm, activation, linear layer."""
    found = kinds(described(nn.Sequential(*layers).state_dict()))
    assert found == ({} if norm is None else {norm: (NormKind.UNKNOWN, Evidence.AFFINE)})


def test_a_global_response_norm_is_a_norm_of_no_other_kind() -> None:
    state = {"mlp.grn.weight": torch.zeros(4), "mlp.grn.bias": torch.zeros(4)}
    assert kinds(described(state)) == {"mlp.grn": (NormKind.UNKNOWN, Evidence.AFFINE)}
