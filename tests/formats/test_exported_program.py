"""torch.export programs against the modules they were exported from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from exported_builders import described, export, randomized, saved
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from bnaudit.description import Carrier, Description, Evidence, NormKind, NormLayer

KINDS = {
    nn.BatchNorm1d: NormKind.BATCH,
    nn.BatchNorm2d: NormKind.BATCH,
    nn.SyncBatchNorm: NormKind.SYNC_BATCH,
    nn.InstanceNorm2d: NormKind.INSTANCE,
    nn.GroupNorm: NormKind.GROUP,
    nn.LayerNorm: NormKind.LAYER,
    nn.RMSNorm: NormKind.RMS,
}
TENSORS = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


class Zoo(nn.Module):
    """One norm of each kind, with unlike settings."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.block = nn.Sequential(nn.Sequential(nn.BatchNorm2d(4, eps=1e-3, momentum=0.2)))
        self.plain_instance = nn.InstanceNorm2d(4)
        self.affine_instance = nn.InstanceNorm2d(4, affine=True, eps=1e-4)
        self.tracking_instance = nn.InstanceNorm2d(4, track_running_stats=True, momentum=0.3)
        self.untracked = nn.BatchNorm2d(4, track_running_stats=False)
        self.bare = nn.BatchNorm2d(4, affine=False)
        self.group = nn.GroupNorm(2, 4, eps=1e-6)
        self.layer = nn.LayerNorm(6)
        self.rms = nn.RMSNorm(6, eps=1e-7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.block(self.conv(x))
        x = self.tracking_instance(self.affine_instance(self.plain_instance(x)))
        x = self.group(self.bare(self.untracked(x)))
        return self.rms(self.layer(x))


def norms_of(module: nn.Module) -> dict[str, nn.Module]:
    return {name: inner for name, inner in module.named_modules() if type(inner) in KINDS}


def assert_same_tensors(layer: NormLayer, name: str, module: nn.Module) -> None:
    for slot in TENSORS:
        real, stored = getattr(module, slot, None), getattr(layer, slot)
        if real is None:
            assert stored is None, (name, slot)
            continue
        assert stored is not None, (name, slot)
        assert stored.name == (f"{name}.{slot}" if name else slot)
        assert stored.dtype == str(real.dtype).removeprefix("torch.")
        assert stored.shape == tuple(real.shape)
        wide = real.detach().double() if real.is_floating_point() else real.detach()
        np.testing.assert_array_equal(stored.values, wide.numpy())
        assert stored.requires_grad is real.requires_grad


def assert_same_layers(description: Description, module: nn.Module) -> None:
    found = {layer.name: layer for layer in description.parts[0].layers}
    assert list(found) == list(norms_of(module))
    for name, real in norms_of(module).items():
        layer = found[name]
        assert layer.kind is KINDS[type(real)], name
        assert layer.affine is (getattr(real, "weight", None) is not None)
        assert layer.class_name == f"{type(real).__module__}.{type(real).__qualname__}"
        if layer.evidence is Evidence.OPERATOR:
            assert layer.eps == real.eps
        if isinstance(real, nn.modules.batchnorm._NormBase):
            assert layer.momentum == real.momentum
            assert layer.channels == real.num_features
            assert layer.tracks_statistics is (real.running_mean is not None)
        assert_same_tensors(layer, name, real)


def expected_mode(module: nn.Module, training: bool) -> bool | None:
    """What a norm's exported operator fixes: batch norm without buffers uses the batch in either mode."""
    if not isinstance(module, nn.modules.batchnorm._NormBase):
        return None
    if isinstance(module, nn.InstanceNorm2d):
        return training if module.track_running_stats else None
    return training or not module.track_running_stats


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("decomposed", [False, True], ids=["as exported", "decomposed"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["batch of 4", "free batch"])
def test_norms_are_those_of_the_module(tmp_path: Path, training: bool, decomposed: bool, dynamic: bool) -> None:
    module = randomized(Zoo())
    program = export(module, torch.randn(4, 3, 8, 8), training=training, decomposed=decomposed, dynamic=dynamic)
    description = described(saved(program, tmp_path / "zoo.pt2"))
    assert not description.gaps
    assert_same_layers(description, module)
    part = description.parts[0]
    for layer in part.layers:
        assert layer.graph_training is expected_mode(module.get_submodule(layer.name), training), layer.name
        assert layer.spelled_out is (decomposed and layer.name == "rms")  # RMSNorm decomposes to arithmetic
    assert set(part.buffers_to_mutate) == set(program.graph_signature.buffers_to_mutate.values())
    assert part.carrier is Carrier.PROGRAM
    assert part.tensors == len(program.state_dict)
    assert (part.trainable, part.frozen) == (2, 0)  # the convolution
    assert part.operators == sum(
        node.op == "call_function" and "getitem" not in str(node.target) for node in program.graph.nodes
    )
    assert part.inputs[0].name == "x"
    batch = part.inputs[0].shape[0] if part.inputs[0].shape else None
    assert isinstance(batch, str) if dynamic else batch == 4
    assert part.inputs[0].shape is not None
    assert part.inputs[0].shape[1:] == (3, 8, 8)


def test_the_artifact_says_what_wrote_it_and_how_little_was_read(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Conv2d(3, 512, 3), nn.BatchNorm2d(512), nn.Conv2d(512, 64, 3))
    path = saved(export(module, torch.randn(4, 3, 8, 8)), tmp_path / "wide.pt2")
    artifact = described(path).artifact
    assert artifact.format == "torch.export program"
    assert artifact.producer == f"pytorch {torch.__version__}"
    assert artifact.size == path.stat().st_size
    weights = sum(tensor.numel() * 4 for tensor in module[2].parameters())
    assert artifact.bytes_read < artifact.size - weights


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_values_of_other_dtypes_are_exact(tmp_path: Path, dtype: torch.dtype) -> None:
    module = randomized(nn.Sequential(nn.BatchNorm2d(4))).to(dtype)
    program = export(module, torch.randn(4, 4, 3, 3).to(dtype))
    assert_same_layers(described(saved(program, tmp_path / "m.pt2")), module)


def test_frozen_parameters_are_counted(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1))
    module[0].requires_grad_(False)
    module[1].requires_grad_(False)
    part = described(saved(export(module, torch.randn(4, 3, 8, 8)), tmp_path / "m.pt2")).parts[0]
    assert (part.trainable, part.frozen) == (2, 2)
    assert part.layers[0].requires_grad is False


def test_weights_that_share_one_storage_are_told_apart(tmp_path: Path) -> None:
    class Views(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            table = torch.arange(24, dtype=torch.float32).reshape(4, 6) + 1
            self.register_buffer("running_mean", table[1])
            self.register_buffer("running_var", table[:, 2][:4].repeat(2)[:6])
            self.weight = nn.Parameter(table.t()[:, 3])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight)

    module = Views()
    layer = described(saved(export(module, torch.randn(4, 6)), tmp_path / "m.pt2")).parts[0].layers[0]
    assert layer.name == ""
    np.testing.assert_array_equal(layer.mean, module.running_mean.numpy())
    np.testing.assert_array_equal(layer.gamma, module.weight.detach().numpy())


def test_a_module_that_is_called_twice_is_one_layer(tmp_path: Path) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm2d(4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.norm(x) * 2)

    for decomposed in (False, True):
        program = export(Twice(), torch.randn(4, 4, 3, 3), training=True, decomposed=decomposed)
        layers = described(saved(program, tmp_path / "m.pt2")).parts[0].layers
        assert [layer.name for layer in layers] == ["norm"]
        assert layers[0].graph_training is True


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.yes, self.no, self.quiet = nn.BatchNorm1d(4), nn.BatchNorm1d(4), nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.cond(x.sum() > 0, lambda x: self.yes(x), lambda x: self.no(x) + 1, (x,))
        with torch.no_grad():
            return self.quiet(x)


def test_norms_in_subgraphs_are_found_under_their_names(tmp_path: Path) -> None:
    module = randomized(Branches())
    part = described(saved(export(module, torch.randn(3, 4), dynamic=False), tmp_path / "m.pt2")).parts[0]
    assert [layer.name for layer in part.layers] == ["yes", "no", "quiet"]
    for layer in part.layers:
        assert layer.graph_training is False
        assert_same_tensors(layer, layer.name, module.get_submodule(layer.name))


_NORMS = st.sampled_from(["batch", "bare", "untracked", "instance", "tracking", "group"])


def _norm(kind: str, eps: float, momentum: float) -> nn.Module:
    if kind == "group":
        return nn.GroupNorm(2, 4, eps=eps)
    if kind in ("instance", "tracking"):
        return nn.InstanceNorm2d(4, eps, momentum, affine=True, track_running_stats=kind == "tracking")
    return nn.BatchNorm2d(4, eps, momentum, affine=kind != "bare", track_running_stats=kind != "untracked")


@given(
    norms=st.lists(
        st.tuples(_NORMS, st.sampled_from([1e-5, 1e-3, 1e-12]), st.sampled_from([0.1, 0.01, 1.0])),
        min_size=1,
        max_size=4,
    ),
    training=st.booleans(),
    decomposed=st.booleans(),
    dynamic=st.booleans(),
    seed=st.integers(0, 1000),
)
@settings(max_examples=15)
def test_any_small_net(
    tmp_path: Path,
    norms: list[tuple[str, float, float]],
    training: bool,
    decomposed: bool,
    dynamic: bool,
    seed: int,
) -> None:
    module = nn.Sequential(*(nn.Sequential(nn.Conv2d(4, 4, 1), _norm(*norm)) for norm in norms))
    randomized(module, seed)
    program = export(module, torch.randn(3, 4, 5, 5), training=training, decomposed=decomposed, dynamic=dynamic)
    description = described(saved(program, tmp_path / "any.pt2"))
    assert_same_layers(description, module)
    for layer in description.parts[0].layers:
        assert layer.graph_training is expected_mode(module.get_submodule(layer.name), training)
