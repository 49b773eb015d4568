"""Checkpoints of every kind in the user's model, and what is said of how they fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from bnaudit import describe
from bnaudit.errors import UnreadableError
from bnaudit.measurement import Loaded
from bnaudit.run_options import RunOptions
from bnaudit.session import Batch, Session
from bnaudit.torch_session.checkpoint_loading import load_checkpoint
from bnaudit.torch_session.opening import opened
from sample_models import digits

BATCH = Batch(args=(np.random.default_rng(0).random((4, 1, 8, 8), dtype=np.float32),), size=4, anchors=(0, 2, 3))
LAYERS = ("bn1", "layer1.0.bn1", "layer1.0.bn2", "layer2.0.bn1", "layer2.0.bn2", "layer2.0.downsample.1")


def used() -> nn.Module:
    """A model whose statistics have moved."""
    torch.manual_seed(1)
    net = digits.build()
    for _ in range(3):
        net(torch.rand(16, 1, 8, 8))
    return net.eval()


def state() -> dict[str, torch.Tensor]:
    return dict(used().state_dict())


def session_of(path: Path, **options: Any) -> Any:
    return opened(path, describe(path), RunOptions(**{"model": digits.build, **options}))


def expected() -> np.ndarray[Any, Any]:
    with torch.no_grad():
        output: np.ndarray[Any, Any] = used()(torch.from_numpy(BATCH.args[0])).numpy()
    return output


def loaded(session: Session) -> Loaded:
    assert session.loaded is not None
    return session.loaded


def save_shards(folder: Path) -> Path:
    tensors = state()
    names = sorted(tensors)
    halves = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, half in halves.items():
        save_file({name: tensors[name].contiguous() for name in half}, folder / file)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": {n: f for f, half in halves.items() for n in half}}))
    return index


def save_folder(folder: Path) -> Path:
    (folder / "config.json").write_text("{}")
    save_file({name: tensor.contiguous() for name, tensor in state().items()}, folder / "model.safetensors")
    return folder


def saver(name: str, value: Callable[[], object], **options: Any) -> Callable[[Path], Path]:
    def save(folder: Path) -> Path:
        torch.save(value(), folder / name, **options)
        return folder / name

    return save


def save_npz(folder: Path) -> Path:
    np.savez(folder / "a.npz", **{name: tensor.numpy() for name, tensor in state().items()})
    return folder / "a.npz"


def prefixed(prefix: str) -> Callable[[], dict[str, torch.Tensor]]:
    return lambda: {f"{prefix}{name}": tensor for name, tensor in state().items()}


KINDS: dict[str, Callable[[Path], Path]] = {
    "zip": saver("a.pt", state),
    "legacy": saver("a.pth", state, _use_new_zipfile_serialization=False),
    "nested": saver("a.ckpt", lambda: {"epoch": 3, "model_state": state(), "optimizer": {"state": {}}}),
    "DataParallel": saver("a.pt", prefixed("module.")),
    "compiled": saver("a.pt", prefixed("_orig_mod.")),
    "Lightning": saver("a.pt", lambda: {"state_dict": prefixed("net.")()}),
    "averaged": saver("a.pt", lambda: torch.optim.swa_utils.AveragedModel(used()).state_dict()),
    "npz": save_npz,
    "shards": save_shards,
    "folder": save_folder,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_loaded(kind: str, tmp_path: Path) -> None:
    path = KINDS[kind](tmp_path)
    with session_of(path) as session:
        assert np.array_equal(session.run(BATCH).outputs[0].values, expected())
        report = loaded(session)
        assert report.matched == LAYERS
        assert (report.missing, report.unexpected, report.filled_counters, report.mismatched) == ((), (), (), ())
        (first, *_) = session.part.layers
        assert first.mean is not None and np.array_equal(first.mean, used().bn1.running_mean.double().numpy())


def test_a_checkpoint_in_a_live_model_leaves_that_as_it_was(tmp_path: Path) -> None:
    model = digits.build()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with session_of(KINDS["zip"](tmp_path), model=model) as session:
        assert np.array_equal(session.run(BATCH).outputs[0].values, expected())
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert model.training


def test_filled_counters_and_dropped_buffers(tmp_path: Path) -> None:
    tensors = {k: v for k, v in state().items() if "num_batches" not in k and k != "bn1.running_var"}
    torch.save(tensors, tmp_path / "a.pt")
    with session_of(tmp_path / "a.pt") as session:
        report = loaded(session)
        layers = {layer.name: layer for layer in session.part.layers}
    assert report.missing == ("bn1.running_var",)
    assert report.filled_counters == tuple(f"{name}.num_batches_tracked" for name in LAYERS)
    assert report.matched == LAYERS[1:]
    assert layers["bn1"].running_var is None and layers["bn1"].running_mean is not None
    assert all(layer.num_batches_tracked is None for layer in layers.values())


def test_affine_only_layers_are_what_the_model_says(tmp_path: Path) -> None:
    """One state dict without buffers is instance norm's or a stripped batch norm's: the model proves which."""
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.InstanceNorm2d(2, affine=True), nn.LayerNorm(6))
    torch.save(net.state_dict(), tmp_path / "a.pt")
    with session_of(tmp_path / "a.pt", model=lambda: net) as session:
        kinds = [layer.kind.value for layer in session.part.layers]
        report = loaded(session)
    assert kinds == ["instance", "layer"]
    assert report.missing == () and report.matched == ("1", "2")


def test_missing_unexpected_and_mismatched_layers(tmp_path: Path) -> None:
    tensors = {k: v for k, v in state().items() if not k.startswith("layer1.0.bn1")}
    tensors["old.running_mean"] = torch.zeros(3)
    tensors["bn1.weight"] = torch.ones(5)
    torch.save(tensors, tmp_path / "a.pt")
    with session_of(tmp_path / "a.pt") as session:
        report = loaded(session)
    assert report.missing == ("layer1.0.bn1",)
    assert report.unexpected == ("old.running_mean",)
    assert report.mismatched == ("bn1.weight",)
    assert "bn1" not in report.matched


def test_the_part_that_is_asked_for_else_the_one_that_fits(tmp_path: Path) -> None:
    other = {name: tensor + 1 for name, tensor in state().items()}
    torch.save({"ema": other, "model": state(), "critic": nn.Linear(3, 3).state_dict()}, tmp_path / "a.pt")
    names = {part.name for part in describe(tmp_path / "a.pt").parts}
    assert {"ema", "model"} <= names
    with session_of(tmp_path / "a.pt", part="model") as session:
        assert session.part.name == "model"
        assert np.array_equal(session.run(BATCH).outputs[0].values, expected())
    with session_of(tmp_path / "a.pt", part="ema") as session:
        assert not np.array_equal(session.run(BATCH).outputs[0].values, expected())
    with pytest.raises(UnreadableError, match="no part 'weights'"), session_of(tmp_path / "a.pt", part="weights"):
        pass


def test_nothing_fits(tmp_path: Path) -> None:
    torch.save(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).state_dict(), tmp_path / "a.pt")
    with pytest.raises(UnreadableError, match="not one tensor"), session_of(tmp_path / "a.pt"):
        pass


class Config:
    """A class of the user's, as trainers leave them in checkpoints."""


def test_classes_in_a_checkpoint_need_trust(tmp_path: Path) -> None:
    torch.save({"model": state(), "config": Config()}, tmp_path / "a.pt")
    with pytest.raises(UnreadableError, match=r"Config.*--trust-pickle"), session_of(tmp_path / "a.pt"):
        pass
    with session_of(tmp_path / "a.pt", trust_pickle=True) as session:
        assert np.array_equal(session.run(BATCH).outputs[0].values, expected())


def test_what_a_model_wraps_is_loaded_into(tmp_path: Path) -> None:
    with session_of(KINDS["DataParallel"](tmp_path), model=lambda: nn.DataParallel(digits.build())) as session:
        assert np.array_equal(session.run(BATCH).outputs[0].values, expected())
        assert loaded(session).matched == LAYERS
        assert session.part.layers[0].running_mean is not None


def test_norm_layers_of_another_size_alone_are_of_another_model(tmp_path: Path) -> None:
    """The head fits; what would run is a model that nobody trained."""

    def net(width: int) -> nn.Module:
        return nn.Sequential(nn.Linear(4, width), nn.BatchNorm1d(width), nn.Linear(width, 3))

    torch.save(net(8).state_dict(), tmp_path / "wide.pt")
    description = describe(tmp_path / "wide.pt")
    model = net(4)
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    with pytest.raises(UnreadableError, match=r"not one norm layer .*1\.weight is \(8,\) there and \(4,\)"):
        load_checkpoint(model, tmp_path / "wide.pt", description, "", "net")
    assert all(torch.equal(tensor, before[key]) for key, tensor in model.state_dict().items())
