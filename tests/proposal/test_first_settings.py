"""`bnaudit init` on folders as users have them: what it writes loads, and the gate works with it as written."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from bnaudit.errors import UsageError
from bnaudit.gating import Order, gate
from bnaudit.policy import load
from bnaudit.policy.document import parsed
from bnaudit.proposal import folder_search
from bnaudit.proposal.first_settings import write_first_settings
from bnaudit.results import Question

NET = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6))

    def forward(self, x):
        return self.stem(x)

def build():
    return Net()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two checkpoints of one net, a scripted model, inputs, code, a file that is broken, and an environment."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NET, encoding="utf-8")
    (tmp_path / "weights").mkdir()
    torch.manual_seed(0)
    net = nn.ModuleDict({"stem": nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6))})
    for name in ("first", "second"):
        for _ in range(60):
            net["stem"](torch.randn(32, 4))
        nn.init.uniform_(net["stem"][1].weight, 0.5, 1.5)
        torch.save(net.state_dict(), tmp_path / "weights" / f"{name}.pt")
    torch.jit.script(net["stem"].eval()).save(str(tmp_path / "served.pt"))
    import numpy as np

    np.savez(tmp_path / "samples.npz", inputs=np.zeros((8, 4), dtype=np.float32))
    for hidden in ("venv/lib", ".cache"):
        (tmp_path / hidden).mkdir(parents=True)
        torch.save(net.state_dict(), tmp_path / hidden / "hidden.pt")
    return tmp_path


def written(folder: Path) -> str:
    write_first_settings(Path(), Path("bnaudit.toml"))
    return (folder / "bnaudit.toml").read_text(encoding="utf-8")


def test_it_says_what_is_there_and_what_each_needs(folder: Path) -> None:
    text = written(folder)
    values = parsed(text, "bnaudit.toml")
    assert values["paths"] == ["*.pt", "weights"]
    assert list(values["files"]) == ["served.pt", "weights/*.pt"]
    sections = text.partition("\n# TorchScript")[2]
    assert "\n# run = true\n" in sections.partition("[files.")[2]
    assert (
        "# 2 files: weights/first.pt, weights/second.pt\n# PyTorch zip checkpoint, state dict: 1 batch norm\n" in text
    )
    assert '# model = "net.py:build"\n# model = "net.py:Net"\n# inputs = "samples.npz"\n' in text
    assert "hidden" not in text
    assert all(len(line) <= 110 for line in text.splitlines())


def test_the_gate_works_with_it_as_written(folder: Path) -> None:
    written(folder)
    policy = load(None, folder, {})
    assert policy.settings(folder / "weights" / "first.pt").require == (Question.BUFFERS,)
    assert gate(Order(outputs=("json=out.json",))) == 0


def test_the_gate_works_when_its_proposals_are_taken(folder: Path) -> None:
    text = written(folder)
    for proposal in ('model = "net.py:build"', "run = true"):
        assert f"# {proposal}\n" in text
        text = text.replace(f"# {proposal}\n", f"{proposal}\n", 1)
    text = text.replace("# inputs =", "inputs =")
    (folder / "bnaudit.toml").write_text(text, encoding="utf-8")
    settings = load(None, folder, {}).settings(folder / "weights" / "first.pt")
    assert settings.run.model == "net.py:build"
    assert settings.run.inputs == "samples.npz"
    assert Question.NEIGHBOURS in settings.require
    assert load(None, folder, {}).settings(folder / "served.pt").run.run


def test_every_key_that_it_explains_is_taken_as_it_is_written(folder: Path) -> None:
    """Each commented line of a setting, put into force by itself."""
    (folder / ".bnaudit-baseline.json").write_text("{}", encoding="utf-8")
    text = written(folder).partition("[files.")[0].partition("# [[accept]]")[0]
    examples = [line[2:] for line in text.splitlines() if line.startswith("# ") and " = " in line]
    assert len(examples) >= 8
    for example in examples:
        (folder / "bnaudit.toml").write_text(f"{example}\n", encoding="utf-8")
        load(None, folder, {})


def test_it_does_not_overwrite(folder: Path) -> None:
    text = written(folder)
    with pytest.raises(UsageError, match=r"bnaudit\.toml is there already and is not overwritten"):
        write_first_settings(Path(), Path("bnaudit.toml"))
    assert (folder / "bnaudit.toml").read_text(encoding="utf-8") == text


def test_it_does_not_add_a_second_file_of_settings(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.bnaudit]\nseed = 1\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"pyproject\.toml has settings already"):
        write_first_settings(Path(), Path("bnaudit.toml"))
    assert not (folder / "bnaudit.toml").exists()


def test_it_may_be_written_elsewhere(folder: Path) -> None:
    (folder / "ci").mkdir()
    told = write_first_settings(Path(), Path("ci", "strict.toml"))
    assert f"bnaudit gate --config {Path('ci', 'strict.toml')}" in told
    policy = load(str(Path("ci", "strict.toml")), folder, {})
    assert Path("weights") in policy.paths
    assert policy.sections_for(folder / "weights" / "first.pt") == (1,)
    with pytest.raises(UsageError, match=r"no folder .*nowhere"):
        write_first_settings(Path(), Path("nowhere", "bnaudit.toml"))


def test_how_to_use_it_depends_on_where_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "ci").mkdir()
    below = Path("ci", "bnaudit.toml")
    assert f"bnaudit gate --config {below} --show-settings" in write_first_settings(Path(), below)
    monkeypatch.chdir(folder / "ci")
    assert "--config" not in write_first_settings(Path(), Path("..", "bnaudit.toml"))


@pytest.mark.parametrize("name", ["", ".", "a" * 300])
def test_where_no_file_can_be_it_is_not_written(name: str, folder: Path) -> None:
    with pytest.raises(UsageError, match=r"\(--output .*\): (name a file|give another)"):
        write_first_settings(Path(), Path(name))


def test_what_cannot_be_audited_is_said(folder: Path) -> None:
    (folder / "weights" / "broken.pt").write_bytes((folder / "weights" / "first.pt").read_bytes()[:900])
    text = written(folder)
    assert "#   weights/broken.pt: " in text
    assert '# exclude = ["weights/broken.pt"]' in text
    assert "1 file looks like a model and cannot be audited" in write_first_settings(Path(), Path("second.toml"))
    assert gate(Order(outputs=("json=out.json",))) == 2
    (folder / "bnaudit.toml").write_text(text.replace("# exclude", "exclude"), encoding="utf-8")
    assert gate(Order(outputs=("json=out.json",))) == 0


def test_a_folder_without_models_is_said_to_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "no model was found" in write_first_settings(Path(), Path("bnaudit.toml"))
    assert load(None, tmp_path, {}).paths == ()


def test_a_huge_folder_is_looked_at_within_bounds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_search, "MOST_MODELS", 1)
    found = folder_search.search(Path())
    assert len(found.models) + len(found.refused) == 1
    assert Path("weights", "first.pt") in found.unread
    monkeypatch.setattr(folder_search, "MOST_ENTRIES", 2)
    assert not folder_search.search(Path()).complete
    load(None, folder, {"config": None})
    write_first_settings(Path(), Path("bnaudit.toml"))
    assert "too large to look through" in (folder / "bnaudit.toml").read_text(encoding="utf-8")
    load(None, folder, {})


@pytest.mark.skipif(sys.platform != "linux", reason="other file systems refuse such names")
def test_hostile_names_make_a_file_that_loads(folder: Path) -> None:
    content = (folder / "weights" / "first.pt").read_bytes()
    names = [
        b"esc\x1b[31m.pt",
        b'quo"te\\.pt',
        b"new\nline.pt",
        "rtl\u202e.pt".encode(),
        b"[x]*.pt",
        b"# x.pt",
        b"no\xfftext.pt",
    ]
    for name in names:
        (folder / "weights" / os.fsdecode(name)).write_bytes(content)
    (folder / "weights" / "first.pt").unlink()  # no pattern fits the others alone
    torch.save({"other.running_mean": torch.zeros(2)}, folder / "weights" / "zero.pt")
    text = written(folder)
    assert all(line.isprintable() for line in text.splitlines())
    assert len(parsed(text, "bnaudit.toml")["files"]) == len(names) + 3
    assert load(None, folder, {}).settings(folder / "weights" / "[x]*.pt").require == (Question.BUFFERS,)
