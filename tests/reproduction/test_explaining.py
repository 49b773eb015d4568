"""Scores of a planted cause become a script that shows the cause, until production gives those of eval."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diagnoses import tried
from scripts_apart import plain
from torch import nn

from bnaudit.diagnosis import Conclusion, Diagnosis, ScoreKind
from bnaudit.errors import BnauditError, UsageError
from bnaudit.reproduction.checking import Ran
from bnaudit.reproduction.explaining import Explained, reproduce_scores
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6)
        self.conv2, self.bn2 = nn.Conv2d(6, 6, 3), nn.BatchNorm2d(6)
        self.fc = nn.Linear(6, 5)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        return {"logits": self.fc(torch.relu(self.bn2(self.conv2(x))).mean((2, 3)))}

def build():
    return Net()
"""


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bnaudit.reproduction.explaining.ran", lambda script: Ran(1, "explained: it was not run"))


def trained() -> nn.Module:
    names: dict[str, Any] = {}
    exec(compile(NET, "net.py", "exec"), names)
    torch.manual_seed(2)
    net: nn.Module = names["build"]()
    generator = torch.Generator().manual_seed(3)
    for _ in range(40):
        net(torch.randn(16, 1, 9, 9, generator=generator) * 2 + 1)
    return net.eval()


def inputs() -> np.ndarray[Any, Any]:
    return np.random.default_rng(5).normal(1, 2, (12, 1, 9, 9)).astype(np.float32)


def project(folder: Path) -> Path:
    (folder / "net.py").write_text(NET)
    net = trained()
    other = {name: tensor * 1.01 if tensor.is_floating_point() else tensor for name, tensor in net.state_dict().items()}
    torch.save({"state_dict": net.state_dict(), "state_dict_ema": other}, folder / "model.pt")
    np.savez(folder / "x.npz", input=inputs())
    return folder


def scored(folder: Path, change: Callable[[nn.Module], None]) -> None:
    """What production returned after this change."""
    net = trained()
    change(net)
    with torch.no_grad():
        np.save(folder / "scores.npy", net(torch.from_numpy(inputs()))["logits"].numpy())


def made(folder: Path, **more: Any) -> Explained:
    options = RunOptions(model=f"{folder / 'net.py'}:build", inputs=str(folder / "x.npz"), part="state_dict")
    return reproduce_scores(folder / "model.pt", folder / "repro", folder / "scores.npy", Settings(run=options), **more)


def training(net: nn.Module) -> None:
    net.bn2.train()


def lost(net: nn.Module) -> None:
    net.bn1.reset_running_stats()


def swapped(net: nn.Module) -> None:
    state = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    net.bn2.load_state_dict({key[4:]: value for key, value in state.items() if key.startswith("bn1.")})
    net.bn1.load_state_dict({key[4:]: value for key, value in state.items() if key.startswith("bn2.")})


def averaged(net: nn.Module) -> None:
    net.load_state_dict({n: t * 1.01 if t.is_floating_point() else t for n, t in net.state_dict().items()})


@pytest.mark.parametrize(
    ("cause", "rows", "said"),
    [
        (training, 12, "bn2 ran in training mode, all given inputs in one batch"),
        (lost, 1, "bn1 were not loaded"),
        (swapped, 1, "bn1 and bn2 took each other's state"),
        (averaged, 1, "state_dict_ema of the checkpoint was loaded"),
    ],
)
def test_a_cause_is_shown_until_the_scores_are_those_of_eval(
    cause: Callable[[nn.Module], None], rows: int, said: str, tmp_path: Path
) -> None:
    scored(project(tmp_path), cause)
    result = made(tmp_path)
    assert result.exit_code == 1 and said in result.summary
    with np.load(tmp_path / "repro" / "production.npz") as stored:
        assert stored.files == ["input"]  # the state that layers took is read from the user's own file
        assert len(stored["input"]) == rows
    (observation,) = re.findall(r"scores of observation (\d+)", (tmp_path / "repro" / "included.txt").read_text())
    with torch.no_grad():
        row = int(observation)
        eval_scores = trained()(torch.from_numpy(inputs()[row : row + 1]))["logits"][0].tolist()
    script, mended = tmp_path / "repro" / "repro.py", tmp_path / "mended.py"
    text = re.sub(r"OBSERVED = \[.*?\n\]", f"OBSERVED = {eval_scores}", script.read_text(), flags=re.DOTALL)
    mended.write_text(text)
    codes, shown = plain(script, (mended, script))
    assert codes == [1, 0], shown
    assert all(text in shown for text in ("explained: ", said, "mended: "))


def test_labels_of_a_single_probability_are_decided_at_one_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = "nn.Sequential(nn.Linear(6, 1), nn.BatchNorm1d(1), nn.Sigmoid())"
    monkeypatch.setitem(globals(), "NET", NET.replace("nn.Linear(6, 5)", one))
    scored(project(tmp_path), lost)
    labels = (np.load(tmp_path / "scores.npy")[:, 0] > 0.5).astype(int)
    np.save(tmp_path / "scores.npy", labels)
    result = made(tmp_path, kind=ScoreKind.LABELS)
    assert result.folder is not None, result.summary
    codes, shown = plain(tmp_path / "repro" / "repro.py")
    assert codes == [1] and "explained: " in shown


def test_scores_of_eval_leave_no_directory(tmp_path: Path) -> None:
    scored(project(tmp_path), lambda net: None)
    result = made(tmp_path)
    assert result.exit_code == 0 and result.diagnosis.conclusion is Conclusion.NOTHING_TO_EXPLAIN
    assert not (tmp_path / "repro").exists()


@pytest.mark.parametrize("conclusion", [Conclusion.NOT_EXPLAINED, Conclusion.NEAREST, Conclusion.CONSISTENT])
def test_what_is_not_explained_is_not_shown(
    conclusion: Conclusion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored(project(tmp_path), lost)
    found = Diagnosis(version="0", artifact=None, observed="scores", conclusion=conclusion, reason="far away")
    monkeypatch.setattr("bnaudit.reproduction.explaining.diagnose", lambda *_, **__: found)
    result = made(tmp_path)
    assert result.exit_code == 3 and result.folder is None
    assert result.summary == f"{conclusion.value}: far away"
    assert not (tmp_path / "repro").exists()


def test_where_eval_fits_as_well_nothing_is_shown_to_be_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scored(project(tmp_path), lost)
    every = (tried("weights were in bfloat16", 0.0), tried("the model ran in eval", 0.0, name="eval-as-saved"))
    several = Conclusion.SEVERAL
    found = Diagnosis(
        version="0", artifact=None, observed="s", conclusion=several, reason="two fit", explanations=every
    )
    monkeypatch.setattr("bnaudit.reproduction.explaining.diagnose", lambda *_, **__: found)
    result = made(tmp_path)
    assert result.exit_code == 3 and result.folder is None
    assert not (tmp_path / "repro").exists()


def test_nothing_is_overwritten_and_no_model_is_told(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        reproduce_scores("model.pt", tmp_path / "full", tmp_path / "scores.npy", Settings())
    with pytest.raises(UsageError, match="no model"):
        reproduce_scores(None, tmp_path / "new", tmp_path / "scores.npy", Settings())


def test_a_script_that_does_not_show_it_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bnaudit.reproduction.explaining.ran", lambda script: Ran(1, "the observed scores are neither"))
    scored(project(tmp_path), lost)
    with pytest.raises(BnauditError, match="does not show it"):
        made(tmp_path)
    assert not (tmp_path / "repro").exists()
