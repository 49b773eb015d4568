"""The sample repository as a user has it: its text files, and three small checkpoints made from seeds."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import torch

SOURCE = Path(__file__).parent / "sample_repository"


def make(folder: Path) -> Path:
    """Copy the repository into `folder` and write its models."""
    shutil.copytree(SOURCE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "models").mkdir()
    state = trained()
    torch.save(state, folder / "models" / "healthy.pt")
    torch.save({**state, **virgin("stem.norm"), **immature("head.norm", state)}, folder / "models" / "accepted.pt")
    torch.save({**state, "body.norm.running_var": -state["body.norm.running_var"]}, folder / "models" / "new.pt")
    return folder


def mend(folder: Path) -> None:
    """Save the model with the new finding as it should have been."""
    shutil.copy(folder / "models" / "healthy.pt", folder / "models" / "new.pt")


def trained() -> dict[str, torch.Tensor]:
    """A state dict whose statistics are those of the data."""
    spec = importlib.util.spec_from_file_location("sample_repository_net", SOURCE / "net.py")
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = module.build()
        for name, parameter in net.named_parameters():
            if "norm" in name:
                torch.nn.init.uniform_(parameter, 0.5, 1.5)
    with torch.no_grad():
        for _ in range(40):
            for batch in module.batches():
                net(batch)
    state: dict[str, torch.Tensor] = {name: value.clone() for name, value in net.state_dict().items()}
    return state


def virgin(layer: str) -> dict[str, torch.Tensor]:
    """Statistics as they are built."""
    return {
        f"{layer}.running_mean": torch.zeros(16),
        f"{layer}.running_var": torch.ones(16),
        f"{layer}.num_batches_tracked": torch.tensor(0),
    }


def immature(layer: str, state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Statistics after three updates with momentum 0.1: 0.9³ of the initial ones is left."""
    left = 0.9**3
    return {
        f"{layer}.running_mean": state[f"{layer}.running_mean"] * (1 - left),
        f"{layer}.running_var": state[f"{layer}.running_var"] * (1 - left) + left,
        f"{layer}.num_batches_tracked": torch.tensor(3),
    }
