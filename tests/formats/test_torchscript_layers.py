"""Norm layers of every kind in TorchScript: settings, functions, odd names, classes of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Tuple  # noqa: UP035

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchscript_builders import described, layers_of, modes_of, part_of, saved, traced
from torchscript_nets import IMAGE, ROLES

from bnaudit.description import CUMULATIVE, Evidence, NormKind


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
