"""Folds between real files of every format, written by torch, onnx, safetensors and numpy."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from folded_layers import folds_of
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

import bnaudit
from bnaudit.auditing import describe
from bnaudit.comparison import FoldCause
from bnaudit.folding.recomputing import _of_frozen
from bnaudit.results import Severity

NORMS = ("stem.1", "depth.1", "up.1", "head.1")
OPERATORS = ("conv", "depthwise conv", "transposed conv", "linear")


class Mixed(nn.Module):
    """One of each: conv, depthwise, transposed, linear; a convolution without a norm between them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.depth = nn.Sequential(nn.Conv2d(8, 8, 3, groups=8), nn.BatchNorm2d(8), nn.ReLU())
        self.plain = nn.Conv2d(8, 8, 1)
        self.up = nn.Sequential(nn.ConvTranspose2d(8, 6, 2, stride=2), nn.BatchNorm2d(6), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(6, 10), nn.BatchNorm1d(10))
        self.last = nn.Linear(10, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.up(self.plain(self.depth(self.stem(x))))
        return self.last(self.head(x.mean((2, 3))))


EXAMPLE = torch.zeros(2, 3, 8, 8)


def trained() -> Mixed:
    torch.manual_seed(0)
    net = Mixed().eval()
    for module in net.modules():
        if isinstance(module, (nn.BatchNorm2d, nn.BatchNorm1d)):
            nn.init.normal_(module.running_mean)  # type: ignore[arg-type]
            nn.init.uniform_(module.running_var, 0.01, 2)  # type: ignore[arg-type]
            nn.init.uniform_(module.weight, 0.2, 1.5)
            nn.init.normal_(module.bias)
    return net


def fuse(net: nn.Module) -> nn.Module:
    """Every norm folded into the layer before it by PyTorch's own functions."""
    for block in (net.stem, net.depth, net.up, net.head):
        assert isinstance(block, nn.Sequential)
        if isinstance(block[0], nn.Linear):
            block[0] = fuse_linear_bn_eval(block[0], block[1])
        else:
            block[0] = fuse_conv_bn_eval(block[0], block[1], transpose=isinstance(block[0], nn.ConvTranspose2d))
        block[1] = nn.Identity()
    return net


def onnx_file(net: nn.Module, path: Path, *, folded: bool) -> None:
    training = torch.onnx.TrainingMode.EVAL if folded else torch.onnx.TrainingMode.PRESERVE
    torch.onnx.export(
        net, (EXAMPLE,), str(path), dynamo=False, do_constant_folding=folded, training=training, opset_version=13
    )


def scripted(net: nn.Module, path: Path) -> None:
    torch.jit.script(net).save(str(path))


KEPT: dict[str, Callable[[nn.Module, Path], Any]] = {
    "zip.pt": lambda net, path: torch.save(net.state_dict(), path),
    "legacy.pth": lambda net, path: torch.save(net.state_dict(), path, _use_new_zipfile_serialization=False),
    "nested.ckpt": lambda net, path: torch.save({"epoch": 1, "state_dict": net.state_dict()}, path),
    "model.safetensors": lambda net, path: save_file(net.state_dict(), path),
    "arrays.npz": lambda net, path: np.savez(path, **{k: v.numpy() for k, v in net.state_dict().items()}),
    "scripted.pt": scripted,
    "program.pt2": lambda net, path: torch.export.save(torch.export.export(net, (EXAMPLE,)), path),
    "decomposed.pt2": lambda net, path: torch.export.save(
        torch.export.export(net, (EXAMPLE,)).run_decompositions(), path
    ),
    "kept.onnx": lambda net, path: onnx_file(net, path, folded=False),
}
FOLDED: dict[str, Callable[[nn.Module, Path], Any]] = {
    "fused.pt": lambda net, path: torch.save(fuse(net).state_dict(), path),
    "frozen.pt": lambda net, path: torch.jit.freeze(torch.jit.script(net)).save(str(path)),
    "fused.pt2": lambda net, path: torch.export.save(torch.export.export(fuse(net), (EXAMPLE,)), path),
    "fused.onnx": lambda net, path: onnx_file(fuse(net), path, folded=True),
}


def written(writer: Callable[[nn.Module, Path], Any], net: nn.Module, path: Path) -> Path:
    writer(copy.deepcopy(net), path)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the same net in every format, its norms kept and folded."""
    directory = tmp_path_factory.mktemp("folds")
    for name, writer in {**KEPT, **FOLDED}.items():
        written(writer, trained(), directory / name)
    return directory


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("folded", FOLDED)
@pytest.mark.parametrize("kept", KEPT)
def test_every_norm_is_equal_after_folding(kept: str, folded: str, files: Path) -> None:
    baseline, subject = files / kept, files / folded
    found = folds_of(subject, baseline)
    assert found is not None
    # PyTorch's freezing does not know the one behind a transposed convolution: that norm is in both files.
    kept_norms = len(describe(subject).parts[0].layers)
    assert kept_norms == (1 if folded == "frozen.pt" else 0)
    expected = [pair for pair in zip(NORMS, OPERATORS, strict=True) if not kept_norms or pair[1] != "transposed conv"]
    assert found.folded == "subject"
    assert [fold.cause for fold in found.folds] == [FoldCause.EQUAL] * len(expected), found.folds
    assert sorted((fold.layer, fold.operator) for fold in found.folds) == sorted(expected)
    assert all(fold.linear == fold.layer.replace(".1", ".0") for fold in found.folds)
    assert (found.unfound, found.remarks) == ((), ())
    backwards = folds_of(baseline, subject)
    assert backwards is not None and backwards.folded == "baseline"
    assert [fold.cause for fold in backwards.folds] == [FoldCause.EQUAL] * len(expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("folded", FOLDED)
def test_a_wrong_epsilon_is_found_in_every_format(folded: str, files: Path, tmp_path: Path) -> None:
    net = trained()
    for module in net.modules():
        if isinstance(module, (nn.BatchNorm2d, nn.BatchNorm1d)):
            module.eps = 1e-3
    found = folds_of(written(FOLDED[folded], net, tmp_path / folded), files / "kept.onnx")
    assert found is not None and found.folds
    assert {(fold.cause, fold.eps) for fold in found.folds} == {(FoldCause.EPSILON, 1e-3)}


@pytest.mark.parametrize("kept", ["zip.pt", "kept.onnx"])
def test_no_fold_is_claimed_between_nets_without_one(kept: str, files: Path, tmp_path: Path) -> None:
    assert folds_of(files / "legacy.pth", files / kept) is None
    state = {name: value for name, value in trained().state_dict().items() if "head.1" not in name}
    torch.save(state, tmp_path / "headless.pt")
    assert folds_of(tmp_path / "headless.pt", files / kept) is None


class FrozenBatchNorm2d(nn.Module):
    """torchvision's: buffers and arithmetic, which an exporter writes as a product and a sum."""

    def __init__(self, norm: nn.BatchNorm2d) -> None:
        super().__init__()
        for name in ("weight", "bias", "running_mean", "running_var"):
            self.register_buffer(name, getattr(norm, name).detach().clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        buffers = dict(self.named_buffers())
        scale = buffers["weight"] * (buffers["running_var"] + 1e-5).rsqrt()
        shift = buffers["bias"] - buffers["running_mean"] * scale
        return x * scale.reshape(1, -1, 1, 1) + shift.reshape(1, -1, 1, 1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("frozen", [(1,), (1, 4)])
@pytest.mark.parametrize("folding", [True, False])
def test_frozen_norms_are_neither_left_out_nor_missing_in_a_graph(
    folding: bool, frozen: tuple[int, ...], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, bias=False), nn.BatchNorm2d(8)
    )
    for at in (1, 4):
        norm: Any = net[at]
        for values in (norm.running_mean, norm.bias.data):
            values.normal_()
        for values in (norm.running_var, norm.weight.data):
            values.uniform_(0.5, 2)
        norm.num_batches_tracked.fill_(500)
        net[at] = FrozenBatchNorm2d(norm) if at in frozen else norm
    net.eval()
    torch.save(net.state_dict(), tmp_path / "net.pt")
    x = torch.randn(2, 3, 9, 9)
    torch.onnx.export(net, (x,), str(tmp_path / "net.onnx"), dynamo=False, do_constant_folding=folding)
    for baseline, subject in (("net.pt", "net.onnx"), ("net.onnx", "net.pt")):
        (audit,) = bnaudit.compare(tmp_path / baseline, tmp_path / subject).audits
        assert [each.message for each in audit.findings if each.severity > Severity.NOTE] == []
        folds = audit.comparison.folds if audit.comparison is not None else None
        assert (folds is not None) == (folding and frozen == (1,))
        if folds is not None:
            (remark,) = folds.remarks
            assert remark.startswith("1 not compared: frozen") and remark.endswith("was not looked for")


def test_frozen_norms_that_were_not_looked_for_are_one_remark() -> None:
    assert list(_of_frozen([])) == []
    (one,), (more,) = _of_frozen(["a"]), _of_frozen(["a", "b", "c"])
    assert one.startswith("a not compared") and more.startswith("a and 2 more not compared")
