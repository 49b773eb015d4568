"""TorchScript archives, against the modules they were made from."""

from __future__ import annotations

from pathlib import Path
from typing import Tuple  # noqa: UP035

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchscript_builders import described, layers_of, modes_of, part_of, randomized, rewritten, saved, traced

from bnaudit.description import CUMULATIVE, Carrier, Evidence, NormKind, NormLayer, Part
from bnaudit.errors import MalformedError, NotAuditedError
from bnaudit.formats import Candidate, identify
from bnaudit.reading.byte_source import ByteSource

ROLES = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


class Block(nn.Module):
    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, out, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(out, momentum=0.3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.bn(self.conv(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, eps=1e-3), nn.ReLU())
        self.blocks = nn.ModuleList([Block(8, 8), Block(8, 4)])
        self.instance = nn.InstanceNorm2d(4, affine=True, track_running_stats=True)
        self.group = nn.GroupNorm(2, 4, eps=1e-4)
        self.plain = nn.InstanceNorm2d(4)
        self.layer = nn.LayerNorm(4, eps=1e-6)
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        x = self.plain(self.group(self.instance(x))).mean((2, 3))
        return self.fc(self.drop(self.layer(x)))


IMAGE = torch.randn(2, 3, 8, 8)
NAMES = ["stem.1", "blocks.0.bn", "blocks.1.bn", "instance", "group", "plain", "layer"]


def assert_tensors_equal(layer: NormLayer, module: nn.Module) -> None:
    for role in ROLES:
        expected, found = getattr(module, role, None), getattr(layer, role)
        assert (found is None) == (expected is None), role
        if found is not None:
            assert found.name == f"{layer.name}.{role}"
            assert found.dtype == str(expected.dtype).removeprefix("torch.")
            np.testing.assert_array_equal(found.values, expected.detach().double().numpy())
            assert found.requires_grad == expected.requires_grad


def assert_says(part: Part, net: nn.Module) -> None:
    """Names, kinds, numbers and values of all norm layers are those of the module."""
    layers = layers_of(part)
    kinds = {"stem.1": "batch", "blocks.0.bn": "batch", "blocks.1.bn": "batch", "group": "group", "layer": "layer"}
    assert list(layers) == NAMES
    for name, layer in layers.items():
        module = net.get_submodule(name)
        assert layer.kind.value == kinds.get(name, "instance")
        assert layer.evidence is Evidence.CLASS
        assert layer.class_name == f"{type(module).__module__}.{type(module).__qualname__}"
        assert layer.eps == pytest.approx(module.eps, rel=1e-12)
        assert layer.momentum == getattr(module, "momentum", None)
        assert layer.affine == (getattr(module, "weight", None) is not None)
        assert_tensors_equal(layer, module)


@pytest.mark.parametrize("training", [True, False])
def test_a_scripted_module_says_what_the_python_module_says(tmp_path: Path, training: bool) -> None:
    net = randomized(Net()).train(training)
    part = part_of(torch.jit.script(net), tmp_path)
    assert_says(part, net)
    assert part.carrier is Carrier.SCRIPT
    assert part.traced is False
    assert {layer.training for layer in part.layers} == {training}
    assert {layer.graph_training for layer in part.layers} == {None}
    assert layers_of(part)["blocks.0.bn"].declared_channels == 8
    assert [layers_of(part)[name].tracks_statistics for name in ("blocks.0.bn", "instance", "plain")] == [
        True,
        True,
        False,
    ]
    drop = modes_of(part)["drop"]
    assert (drop.kind, drop.probability, drop.training, drop.graph_training) == ("dropout", 0.3, training, None)


@pytest.mark.parametrize("training", [True, False])
def test_a_trace_fixes_the_mode_it_was_made_in(tmp_path: Path, training: bool) -> None:
    net = randomized(Net()).train(training)
    trace = traced(net, IMAGE)
    part = part_of(trace, tmp_path)
    assert_says(part, net)
    assert part.traced is True
    fixed = {name: layer.graph_training for name, layer in layers_of(part).items()}
    modal = ("stem.1", "blocks.0.bn", "blocks.1.bn", "instance")
    assert fixed == {name: training if name in modal else None for name in NAMES}
    assert modes_of(part)["drop"].graph_training is training
    assert modes_of(part)["drop"].probability == 0.3


def test_a_trace_in_training_mode_stays_so_after_eval(tmp_path: Path) -> None:
    part = part_of(traced(Net().train(), IMAGE).eval(), tmp_path)
    for layer in (layers_of(part)["blocks.1.bn"], modes_of(part)["drop"]):
        assert (layer.training, layer.graph_training) == (False, True)


def test_a_trace_in_eval_mode_stays_so_after_train(tmp_path: Path) -> None:
    part = part_of(traced(Net().eval(), IMAGE).train(), tmp_path)
    for layer in (layers_of(part)["blocks.1.bn"], modes_of(part)["drop"]):
        assert (layer.training, layer.graph_training) == (True, False)


def test_the_example_of_a_trace_tells_dtype_and_rank_of_the_input(tmp_path: Path) -> None:
    (found,) = part_of(traced(Net().eval(), IMAGE), tmp_path).inputs
    assert (found.name, found.dtype, found.shape) == ("x", "float32", (None, None, None, None))


def test_parameters_outside_norms_are_counted_by_their_flag(tmp_path: Path) -> None:
    net = Net()
    net.stem[0].weight.requires_grad_(False)
    part = part_of(torch.jit.script(net), tmp_path)
    assert (part.trainable, part.frozen) == (5, 1)  # trainable: stem bias, two block weights, fc
    assert part.tensors == len(list(net.parameters())) + len(list(net.buffers()))
    assert part.floating_dtypes == ("float32",)


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


def test_archives_from_before_1_4_are_named(tmp_path: Path) -> None:
    path = saved(torch.jit.script(Net()), tmp_path / "net.pt")
    old = rewritten(path, tmp_path / "old.pt", {"data.pkl": lambda _: None}, {"model.json": b"{}"})
    with pytest.raises(NotAuditedError, match=r"torch\.jit\.save"):
        described(old)


def test_it_is_told_from_other_torch_archives(tmp_path: Path) -> None:
    script = saved(torch.jit.script(Net()), tmp_path / "net.pth")
    plain = tmp_path / "state.pt"
    torch.save(Net().state_dict(), plain)
    for path, expected in ((script, "TorchScript"), (plain, "PyTorch zip checkpoint")):
        with ByteSource.open(path) as source:
            assert identify(Candidate(path, source)).name == expected


def test_a_pickle_without_an_object_is_no_script(tmp_path: Path) -> None:
    path = saved(torch.jit.script(Net()), tmp_path / "net.pt")
    broken = rewritten(path, tmp_path / "broken.pt", {"data.pkl": lambda _: b"\x80\x02K\x01."})
    with pytest.raises(MalformedError, match="object"):
        described(broken)


def test_a_cumulative_norm_is_cumulative_where_the_code_says_so(tmp_path: Path) -> None:
    net = nn.Sequential(nn.BatchNorm1d(4, momentum=None))
    assert part_of(torch.jit.script(net), tmp_path).layers[0].momentum is CUMULATIVE
    # A trace in eval mode passes momentum 0, which says nothing.
    assert part_of(traced(net.eval(), torch.randn(3, 4)), tmp_path).layers[0].momentum is None


def test_a_norm_without_tracking_uses_the_batch_by_configuration(tmp_path: Path) -> None:
    net = nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False)).eval()
    for module in (torch.jit.script(net), traced(net, torch.randn(3, 4))):
        (layer,) = part_of(module, tmp_path).layers
        assert (layer.tracks_statistics, layer.graph_training, layer.running_mean) == (False, True, None)


def test_tracking_switched_off_with_buffers_left_is_seen(tmp_path: Path) -> None:
    net = nn.Sequential(nn.BatchNorm1d(4)).eval()
    net[0].track_running_stats = False
    (layer,) = part_of(torch.jit.script(net), tmp_path).layers
    assert layer.tracks_statistics is False
    assert layer.running_mean is not None
    assert layer.graph_training is None  # the buffers in eval mode, the batch in training mode


def test_names_that_are_python_keywords_are_read(tmp_path: Path) -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.add_module("lambda", nn.BatchNorm1d(4))
            self.add_module("async", nn.BatchNorm1d(4))
            self.add_module("a-b", nn.BatchNorm1d(4))

        def forward(self, x: Tensor) -> Tensor:
            for name in ("lambda", "async", "a-b"):
                x = getattr(self, name)(x)
            return x

    part = part_of(traced(Odd().train(), torch.randn(3, 4)), tmp_path)
    assert [(layer.name, layer.graph_training) for layer in part.layers] == [
        ("lambda", True),
        ("async", True),
        ("a-b", True),
    ]


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("var", torch.ones(4))
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = F.batch_norm(x, self.mean, self.var, training=True)
        x = F.dropout(F.dropout(x, 0.2), 0.4, self.training)
        return F.layer_norm(x, [4], self.inner.bias)


def test_literal_training_flags_of_functions_are_fixed(tmp_path: Path) -> None:
    net = nn.Sequential(Functional(), Functional()).eval()
    for module in (torch.jit.script(net), traced(net, torch.randn(3, 4))):
        part = part_of(module, tmp_path)
        layers = layers_of(part)
        assert list(layers) == [f"{n}.forward.{op}" for n in (0, 1) for op in ("batch_norm", "layer_norm")]
        norm = layers["1.forward.batch_norm"]
        assert (norm.kind, norm.evidence, norm.graph_training) == (NormKind.BATCH, Evidence.OPERATOR, True)
        assert norm.running_mean is not None and norm.running_mean.name == "1.mean"
        assert (norm.affine, norm.class_name) == (False, "torch.batch_norm")
        assert modes_of(part)["0.forward.dropout"].graph_training is True
        assert modes_of(part)["0.forward.dropout"].probability == 0.2


def test_a_functional_flag_that_follows_the_module_obeys(tmp_path: Path) -> None:
    part = part_of(torch.jit.script(Functional().eval()), tmp_path)
    obeying = modes_of(part)["forward.dropout_1"]
    assert (obeying.probability, obeying.training, obeying.graph_training) == (0.4, False, None)


def test_weight_standardization_does_not_mix_samples(tmp_path: Path) -> None:
    class Standardized(nn.Conv2d):
        def forward(self, x: Tensor) -> Tensor:
            flat = self.weight.reshape(1, self.out_channels, -1)
            weight = F.batch_norm(flat, None, None, training=True, momentum=0.0).reshape_as(self.weight)
            return F.conv2d(x, weight, self.bias)

    net = nn.Sequential(Standardized(3, 4, 3)).eval()
    for module in (torch.jit.script(net), traced(net, IMAGE)):
        (layer,) = part_of(module, tmp_path).layers
        assert (layer.kind, layer.graph_training) == (NormKind.INSTANCE, None)


class OwnState(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.running_mean = torch.tensor([1.0, 2.0])
        self.running_var = torch.tensor([3.0, 4.0])

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(x, self.running_mean, self.running_var, None, None, self.training)

    @torch.jit.export
    def __getstate__(self) -> Tuple[Tensor, Tensor, bool]:  # noqa: UP006 - TorchScript reads the annotation
        return self.running_var, self.running_mean, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[Tensor, Tensor, bool]) -> None:  # noqa: UP006
        self.running_var = state[0]
        self.running_mean = state[1]
        self.training = state[2]


def test_a_state_without_names_is_read_through_the_code_that_restores_it(tmp_path: Path) -> None:
    path = saved(torch.jit.script(nn.Sequential(OwnState().eval())), tmp_path / "net.pt")
    found = described(path)
    (layer,) = found.parts[0].layers
    assert (layer.name, layer.training, found.gaps) == ("0", False, ())
    assert layer.mean is not None and layer.mean.tolist() == [1.0, 2.0]
    assert layer.var is not None and layer.var.tolist() == [3.0, 4.0]


def test_the_running_statistics_of_an_unknown_class_make_it_a_norm(tmp_path: Path) -> None:
    class Standard(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("running_mean", torch.tensor([1.0, 2.0]))
            self.register_buffer("running_var", torch.tensor([3.0, 4.0]))

        def forward(self, x: Tensor) -> Tensor:
            return (x - self.running_mean) / torch.sqrt(self.running_var)

    (layer,) = part_of(torch.jit.script(nn.Sequential(Standard())), tmp_path).layers
    assert (layer.name, layer.kind, layer.spelled_out) == ("0", NormKind.UNKNOWN, True)
    assert layer.var is not None and layer.var.tolist() == [3.0, 4.0]


class FrozenBatchNorm2d(nn.Module):
    """Like torchvision's: four buffers and plain arithmetic."""

    def __init__(self, channels: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        for name in ROLES[:4]:
            self.register_buffer(name, torch.rand(channels) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        return x * scale.reshape(1, -1, 1, 1) + (self.bias - self.running_mean * scale).reshape(1, -1, 1, 1)


def test_frozen_batch_norm_is_known_by_its_class_and_spelled_out(tmp_path: Path) -> None:
    net = nn.Sequential(FrozenBatchNorm2d(4, 1e-3))
    for module, eps in ((torch.jit.script(net), 1e-3), (traced(net, torch.randn(1, 4, 2, 2)), None)):
        (layer,) = part_of(module, tmp_path).layers
        assert (layer.kind, layer.spelled_out, layer.affine, layer.eps) == (NormKind.FROZEN_BATCH, True, True, eps)
        assert (layer.num_batches_tracked, layer.graph_training) == (None, None)
        np.testing.assert_array_equal(layer.var, net[0].running_var.double().numpy())


def test_synchronized_batch_norm_is_told_by_its_class(tmp_path: Path) -> None:
    (layer,) = part_of(traced(nn.Sequential(nn.SyncBatchNorm(4)).eval(), torch.randn(3, 4)), tmp_path).layers
    assert (layer.name, layer.kind, layer.graph_training) == ("0", NormKind.SYNC_BATCH, False)


def test_a_function_without_a_module_is_read(tmp_path: Path) -> None:
    def normalize(x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        return F.batch_norm(x, mean, var, training=True)

    part = part_of(torch.jit.script(normalize), tmp_path)
    (layer,) = part.layers
    assert (layer.name, layer.graph_training, layer.tensors) == ("forward.batch_norm", True, ())
    assert [found.name for found in part.inputs] == ["x", "mean", "var"]


def test_a_hook_that_was_scripted_with_its_module_is_followed(tmp_path: Path) -> None:
    def hook(self: nn.Module, input: Tuple[Tensor], output: Tensor) -> Tensor:  # noqa: UP006
        return F.dropout(output, 0.5, True)

    net = nn.Sequential(nn.BatchNorm1d(4)).eval()
    net[0].register_forward_hook(hook)
    assert [entry.graph_training for entry in part_of(torch.jit.script(net), tmp_path).mode_dependent] == [True]


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
