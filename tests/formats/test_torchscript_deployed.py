"""Frozen, optimized, mobile and quantized TorchScript, against the modules they were made from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torchscript_builders import described, layers_of, part_of, randomized, rewritten, saved, traced
from torchscript_nets import IMAGE, ROLES, Block, Net, assert_says, assert_tensors_equal

from bnaudit.description import Evidence, NormKind


def test_a_frozen_net_keeps_its_norms_as_calls_when_nothing_is_folded(tmp_path: Path) -> None:
    net = randomized(Net()).eval()
    part = part_of(torch.jit.freeze(torch.jit.script(net), optimize_numerics=False), tmp_path)
    batch = [layer for layer in part.layers if layer.kind is NormKind.BATCH]
    assert [layer.name for layer in batch] == ["forward.batch_norm", "forward.batch_norm_1", "forward.batch_norm_2"]
    assert part.folded == ""
    for layer, name in zip(batch, ("stem.1", "blocks.0.bn", "blocks.1.bn"), strict=True):
        module = net.get_submodule(name)
        assert isinstance(module, nn.BatchNorm2d)
        assert (layer.evidence, layer.graph_training, layer.training) == (Evidence.OPERATOR, False, None)
        assert (layer.eps, layer.momentum) == (module.eps, module.momentum)
        for role in ROLES[:4]:
            found = getattr(layer, role)
            assert found.name.startswith("CONSTANTS.c")
            np.testing.assert_array_equal(found.values, getattr(module, role).detach().double().numpy())


def test_an_instance_norm_on_two_branches_of_frozen_code_is_one_layer(tmp_path: Path) -> None:
    part = part_of(torch.jit.freeze(torch.jit.script(randomized(Net()).eval())), tmp_path)
    assert [layer.name for layer in part.layers if layer.running_mean is not None] == ["instance"]


@pytest.mark.parametrize("by_trace", [True, False])
def test_freezing_folds_and_the_part_says_so(tmp_path: Path, by_trace: bool) -> None:
    net = nn.Sequential(Block(3, 8), Block(8, 4)).eval()
    module = traced(net, IMAGE) if by_trace else torch.jit.script(net)
    part = part_of(torch.jit.freeze(module), tmp_path)
    assert part.layers == ()
    assert "2" in part.folded and "bias" in part.folded


def test_a_net_without_norms_is_not_called_folded(tmp_path: Path) -> None:
    plain = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval()
    assert part_of(torch.jit.script(plain), tmp_path).folded == ""
    bare = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.ReLU()).eval()
    assert part_of(torch.jit.freeze(torch.jit.script(bare)), tmp_path).folded == ""


def test_what_optimize_for_inference_packs_is_a_gap(tmp_path: Path) -> None:
    net = nn.Sequential(Block(3, 8), Block(8, 4)).eval()
    try:
        optimized = torch.jit.optimize_for_inference(torch.jit.script(net))
    except RuntimeError as error:  # a CPU without oneDNN
        pytest.skip(str(error))
    found = described(saved(optimized, tmp_path / "net.pt"))
    if "ConstantMKLDNNTensor" not in optimized.code:
        pytest.skip("this build of torch packs nothing")
    assert found.parts[0].layers == ()
    assert "fused_bn" in found.parts[0].folded
    assert [(gap.hides_norms, "packed" in gap.why) for gap in found.gaps] == [(False, True)]


def test_a_mobile_archive_is_read_by_its_code_and_its_bytecode_is_named(tmp_path: Path) -> None:
    net = randomized(Net()).eval()
    path = tmp_path / "net.ptl"
    torch.jit.script(net)._save_for_lite_interpreter(str(path))
    found = described(path)
    assert_says(found.parts[0], net)
    assert [(gap.where, gap.hides_norms) for gap in found.gaps] == [("bytecode.pkl", False)]


def test_a_mobile_archive_without_code_is_read_by_its_objects(tmp_path: Path) -> None:
    net = randomized(Net()).eval()
    path = tmp_path / "net.ptl"
    torch.jit.script(net)._save_for_lite_interpreter(str(path))
    found = described(rewritten(path, tmp_path / "bare.ptl", {".py": lambda _: None}))
    layer = layers_of(found.parts[0])["blocks.0.bn"]
    assert_tensors_equal(layer, net.get_submodule("blocks.0.bn"))
    assert (layer.kind, layer.eps, layer.training, layer.graph_training) == (NormKind.BATCH, None, False, None)
    (gap,) = found.gaps
    assert gap.where == "bytecode.pkl" and gap.hides_norms and "aten::batch_norm" in gap.why
    assert found.parts[0].operators is None


def test_mobile_bytecode_without_norms_hides_none(tmp_path: Path) -> None:
    path = tmp_path / "net.ptl"
    torch.jit.script(nn.Sequential(nn.Linear(4, 2), nn.ReLU()))._save_for_lite_interpreter(str(path))
    found = described(rewritten(path, tmp_path / "bare.ptl", {".py": lambda _: None}))
    assert [gap.hides_norms for gap in found.gaps] == [False]


def test_norms_that_fuse_modules_removed_are_called_folded(tmp_path: Path) -> None:
    net = torch.ao.quantization.fuse_modules(Block(3, 4).eval(), [["conv", "bn"]])
    part = part_of(torch.jit.script(net), tmp_path)
    assert part.layers == ()
    assert part.folded.startswith("bn ") and "Identity" in part.folded


def test_quantized_norms_are_read_beside_packed_weights(tmp_path: Path) -> None:
    if not {"fbgemm", "x86", "qnnpack"} & set(torch.backends.quantized.supported_engines):
        pytest.skip("this build of torch has no engine for quantized models")
    net = nn.Sequential(torch.ao.quantization.QuantStub(), nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten()).eval()
    net.add_module("fc", nn.Linear(144, 2))
    net.qconfig = torch.ao.quantization.default_qconfig
    prepared = torch.ao.quantization.prepare(randomized(net))
    prepared(IMAGE)
    quantized = torch.ao.quantization.convert(prepared)
    found = described(saved(torch.jit.script(quantized), tmp_path / "net.pt"))
    (layer,) = found.parts[0].layers
    assert (layer.name, layer.kind, layer.graph_training) == ("2", NormKind.BATCH, False)
    np.testing.assert_array_equal(layer.mean, net[2].running_mean.double().numpy())
    assert [gap.hides_norms for gap in found.gaps] == [False]
    assert "quantized.LinearPackedParamsBase" in found.gaps[0].where


def test_custom_classes_may_hide_norms_and_packed_weights_do_not(tmp_path: Path) -> None:
    def holding(name: bytes) -> bytes:
        inner = b"X\x06\x00\x00\x00enginec__torch__.torch.classes." + name + b"\n)\x81K\x01b"
        return b"\x80\x02c__torch__\nM\n)\x81}" + inner + b"sb."

    path = saved(torch.jit.script(nn.Sequential(nn.ReLU())), tmp_path / "net.pt")
    code = {"code/__torch__.py": b"class M(Module):\n  __parameters__ = []\n"}
    for name, hides in ((b"tensorrt\nEngine", True), (b"xnnpack\nConv2dOpContext", False)):
        other = rewritten(path, tmp_path / "other.pt", {"data.pkl": lambda _, name=name: holding(name)}, code)
        assert [gap.hides_norms for gap in described(other).gaps] == [hides]
