"""A defect is planted in a user's model; the script that comes of it shows it without bnaudit, until it is mended."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scripts_apart import plain

from bnaudit.errors import BnauditError, UsageError
from bnaudit.reproduction.checking import Ran, ran
from bnaudit.reproduction.demonstration import Kind
from bnaudit.reproduction.reproducing import Reproduction, reproduce
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings

HEAD = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.conv = nn.Conv2d(1, 4, 3)
        self.bn1 = nn.BatchNorm2d(4)
        self.bn2 = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 3)
        self.register_buffer("seen", torch.zeros(()))

    def features(self, x):
        return self.bn2(torch.relu(self.bn1(self.conv(x)))).mean((2, 3))

    def forward(self, x):
        return self.fc(self.features(x))
"""
HEALTHY = HEAD + "\ndef build():\n    return Net()\n"
LEAK = (
    HEAD
    + """
class Leak(Net):
    def train(self, mode=True):
        super().train(mode)
        self.bn2.train()  # the defect
        return self

def build():
    return Leak()
"""
)
DROPS = (
    HEAD
    + """
class Drops(Net):
    def forward(self, x):
        return self.fc(nn.functional.dropout(self.features(x), 0.5))  # the defect

def build():
    return Drops()
"""
)
HISTORY = (
    HEAD
    + """
class History(Net):
    def forward(self, x):
        self.seen += 1  # the defect
        return super().forward(x) + self.seen

def build():
    return History()
"""
)
COUNTS = (
    HEAD
    + """
class Counts(Net):
    def forward(self, x):
        self.seen += 1  # the defect
        return super().forward(x)

def build():
    return Counts()
"""
)
SQUEEZES = (
    HEAD
    + """
class Squeezes(Net):
    def forward(self, x):
        return super().forward(x).squeeze(0)  # the defect

def build():
    return Squeezes()
"""
)
RAISES = (
    HEAD
    + """
class Raises(Net):
    def forward(self, x):
        if len(x) == 1:
            raise ValueError("one is too few")  # the defect
        return super().forward(x)

def build():
    return Raises()
"""
)
PLACES = (
    HEAD
    + """
class Places(Net):
    def forward(self, x):
        return super().forward(x) + torch.arange(len(x))[:, None]  # the defect

def build():
    return Places()
"""
)
DEFECTS = {
    "neighbours": (LEAK, Kind.NEIGHBOURS, "BN301", "the same sample has two outputs"),
    "random": (DROPS, Kind.RANDOM, "BN302", "by chance"),
    "history": (HISTORY, Kind.REPEAT, "BN306", "the second time"),
    "state": (COUNTS, Kind.STATE, "BN402", "seen"),
    "squeezed": (SQUEEZES, Kind.SIZE, "BN303", "shape"),
    "places": (PLACES, Kind.COPIES, "BN305", "copies of one sample have different outputs"),
    "raises": (RAISES, Kind.SIZE, "BN303", "one is too few"),
}


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts are run here, by Python itself; that `reproduce` runs each once before is tested apart."""
    monkeypatch.setattr("bnaudit.reproduction.reproducing.ran", lambda script: Ran(1, "it was not run"))


def project(folder: Path, code: str, name: str = "net.py") -> Path:
    """A folder with the user's code, a checkpoint with statistics of these inputs, and the inputs."""
    (folder / name).write_text(code, encoding="utf-8")
    generator = np.random.default_rng(0)
    np.savez(folder / "x.npz", input=generator.normal(size=(20, 1, 6, 6)).astype(np.float32))
    net = measured(user_model(code), folder)
    torch.save(net.state_dict(), folder / "model.pt")
    return folder


def measured(net: Any, folder: Path) -> Any:
    """Its statistics are those of the inputs."""
    for module in net.train().modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None
    net.float()(torch.from_numpy(np.load(folder / "x.npz")["input"]))
    return net


def user_model(code: str) -> Any:
    names: dict[str, Any] = {}
    exec(compile(code, "net.py", "exec"), names)
    return names["build"]()


def made(folder: Path, name: str = "net.py", **more: Any) -> Reproduction:
    options = RunOptions(model=f"{folder / name}:build", inputs=str(folder / "x.npz"))
    return reproduce(folder / "model.pt", folder / "repro", Settings(run=options), **more)


@pytest.mark.parametrize("defect", DEFECTS)
def test_the_script_exits_1_on_the_defect_and_0_once_it_is_mended(defect: str, tmp_path: Path) -> None:
    code, kind, rule, said = DEFECTS[defect]
    result = made(project(tmp_path, code))
    assert result.exit_code == 1 and result.found is not None
    assert (result.found.kind, result.found.rule) == (kind, rule)
    script = tmp_path / "repro" / "repro.py"
    (tmp_path / "mended.py").write_text(HEALTHY, encoding="utf-8")
    codes, shown = plain(script, (tmp_path / "mended.py", tmp_path / "net.py"))
    assert codes == [1, 0], shown
    assert said in shown and "mended" in shown
    assert "bnaudit" not in [line.split()[1] for line in script.read_text().splitlines() if line.startswith("import ")]


def test_no_more_is_included_than_needed(tmp_path: Path) -> None:
    found = made(project(tmp_path, LEAK)).found
    assert found is not None
    with np.load(tmp_path / "repro" / "inputs.npz") as stored:
        assert stored.files == ["input"]
        assert stored["input"].shape == (3, 1, 6, 6)  # the sample, a companion, and the one in its place
        given = np.load(tmp_path / "x.npz")["input"]
        kept = stored["input"]
        for row, label in zip(kept, found.labels, strict=True):
            own = given[int(label.split()[1])]
            assert np.array_equal(row[row != 0], own[row != 0])
        assert (kept == 0).mean() > 0.5
    listed = (tmp_path / "repro" / "included.txt").read_text()
    assert all(label in listed for label in found.labels)
    assert sorted(path.name for path in (tmp_path / "repro").iterdir()) == [
        "README.md",
        "included.txt",
        "inputs.npz",
        "repro.py",
    ]


def test_stored_statistics_that_do_not_fit_are_shown_until_they_are_measured_again(tmp_path: Path) -> None:
    project(tmp_path, HEALTHY)
    fitting = torch.load(tmp_path / "model.pt")
    stale = {**fitting, "bn2.running_mean": fitting["bn2.running_mean"] + 3}
    torch.save(stale, tmp_path / "model.pt")
    result = made(tmp_path)
    assert result.found is not None and result.found.statistics is not None
    assert result.found.statistics.layer == "bn2" and result.found.rule == "BN404"
    torch.save(fitting, tmp_path / "fitting.pt")
    script = tmp_path / "repro" / "repro.py"
    codes, shown = plain(script, (tmp_path / "fitting.pt", tmp_path / "model.pt"))
    assert codes == [1, 0], shown
    assert f"{result.found.statistics.shift:.3g} stored standard deviations" in shown


def test_the_guilty_norm_is_named_with_its_numbers(tmp_path: Path) -> None:
    found = made(project(tmp_path, LEAK)).found
    assert found is not None and found.case is not None
    assert found.layers == ("bn2",)
    text = (tmp_path / "repro" / "README.md").read_text()
    assert f"## bn2, channel {found.case.channel}" in text
    net = user_model(LEAK).eval()
    net.load_state_dict(torch.load(tmp_path / "model.pt"))
    stored = np.load(tmp_path / "repro" / "inputs.npz")["input"]
    for rows, mean, var in zip(found.batches, found.case.means, found.case.variances, strict=True):
        with torch.no_grad():
            seen = torch.relu(net.bn1(net.conv(torch.from_numpy(stored[list(rows)]))))[:, found.case.channel]
        assert mean == pytest.approx(float(seen.mean()), rel=1e-4, abs=1e-6)
        assert var == pytest.approx(float(seen.var(correction=0)), rel=1e-4, abs=1e-6)


def test_what_the_script_said_is_in_the_read_me(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bnaudit.reproduction.reproducing.ran", ran)
    made(project(tmp_path, LEAK))
    assert "the same sample has two outputs" in (tmp_path / "repro" / "README.md").read_text()


def test_a_script_that_does_not_show_it_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bnaudit.reproduction.reproducing.ran", lambda script: Ran(0, "mended: nothing\n"))
    with pytest.raises(BnauditError, match="a script of its own does not show it: it said 'mended: nothing'"):
        made(project(tmp_path, LEAK))
    assert not (tmp_path / "repro").exists() and not list(tmp_path.glob(".*"))


def test_the_same_comes_of_it_each_time(tmp_path: Path) -> None:
    project(tmp_path, LEAK)
    made(tmp_path)
    (tmp_path / "repro").rename(tmp_path / "first")
    made(tmp_path)
    for name in ("repro.py", "included.txt"):
        assert (tmp_path / "repro" / name).read_text() == (tmp_path / "first" / name).read_text()


def test_a_healthy_model_leaves_no_directory(tmp_path: Path) -> None:
    result = made(project(tmp_path, HEALTHY))
    assert result.exit_code == 0 and result.folder is None
    assert result.summary.startswith("No defect showed") and "stored statistics" in result.summary
    assert not (tmp_path / "repro").exists()


def test_a_rule_chooses_what_is_looked_for(tmp_path: Path) -> None:
    result = made(project(tmp_path, HISTORY), rule="BN402")
    assert result.found is not None and result.found.rule == "BN402"
    with pytest.raises(UsageError, match="BN103 is no defect that a script"):
        made(tmp_path, rule="BN103")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    project(tmp_path, LEAK)
    (tmp_path / "repro").mkdir()
    (tmp_path / "repro" / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        made(tmp_path)
    assert [path.name for path in (tmp_path / "repro").iterdir()] == ["mine.txt"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_without_the_model_the_script_says_so(tmp_path: Path) -> None:
    made(project(tmp_path, LEAK))
    (tmp_path / "model.pt").rename(tmp_path / "elsewhere.pt")
    codes, shown = plain(tmp_path / "repro" / "repro.py")
    assert codes == [2]
    assert "model.pt is not there" in shown and "Traceback" not in shown


def test_a_copy_of_the_model_is_read_when_it_is_included(tmp_path: Path) -> None:
    made(project(tmp_path, LEAK), include_model=True)
    (tmp_path / "model.pt").unlink()
    assert plain(tmp_path / "repro" / "repro.py")[0] == [1]
    assert "model.pt" in (tmp_path / "repro" / "included.txt").read_text()


HOSTILE = 'we"ird\'\'\'""" ${x} {y} \\n'


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    folder = tmp_path / HOSTILE.replace("\\", "_" if os.name == "nt" else "\\").replace(
        '"', "_" if os.name == "nt" else '"'
    )
    folder.mkdir()
    code = LEAK.replace("self.bn2 = nn.BatchNorm2d(4)", "self.add_module(NAME, nn.BatchNorm2d(4))").replace(
        "self.bn2", "self._modules[NAME]"
    )
    name = 'bn\x1b[31m"""\nimport os; exit(3)\n"""\ud83d|<b>'
    project(folder, f"NAME = {name!r}\n{code}")
    result = made(folder)
    assert result.exit_code == 1
    codes, shown = plain(folder / "repro" / "repro.py")
    assert codes == [1], shown
    text = (folder / "repro" / "repro.py").read_text(encoding="utf-8")
    assert "\x1b" not in text and "\nimport os" not in text
    assert "\x1b" not in (folder / "repro" / "README.md").read_text(encoding="utf-8")


def test_a_part_with_wrappers_is_loaded_by_the_script(tmp_path: Path) -> None:
    project(tmp_path, LEAK)
    state = torch.load(tmp_path / "model.pt")
    wrapped = {"epoch": 3, "model": {f"module.{name}": tensor for name, tensor in state.items()}}
    torch.save(wrapped, tmp_path / "model.pt")
    result = made(tmp_path)
    assert result.exit_code == 1
    assert 'HEAD = "model.module."' in (tmp_path / "repro" / "repro.py").read_text()
    assert plain(tmp_path / "repro" / "repro.py")[0] == [1]


def test_a_model_in_double_precision_gets_its_inputs_so(tmp_path: Path) -> None:
    result = made(project(tmp_path, LEAK.replace("return Leak()", "return Leak().double()")))
    assert result.exit_code == 1
    text = (tmp_path / "repro" / "repro.py").read_text()
    assert "def fitted(" in text
    assert plain(tmp_path / "repro" / "repro.py")[0] == [1]


def test_a_module_saved_in_training_mode_is_shown_with_seeds_where_it_drops(tmp_path: Path) -> None:
    """Dropout draws in the mode that it was saved in: companions are compared with the same draws."""
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Dropout(0.5))
    torch.save(net.train(), tmp_path / "whole.pt")
    np.savez(tmp_path / "x.npz", input=np.random.default_rng(0).normal(size=(9, 1, 5, 5)).astype(np.float32))
    options = RunOptions(trust_pickle=True, inputs=str(tmp_path / "x.npz"))
    result = reproduce(tmp_path / "whole.pt", tmp_path / "repro", Settings(run=options), rule="BN201")
    assert result.found is not None and result.found.seed == 0
    assert result.found.layers == ("1",)
    torch.save(net.eval(), tmp_path / "eval.pt")
    codes, shown = plain(tmp_path / "repro" / "repro.py", (tmp_path / "eval.pt", tmp_path / "whole.pt"))
    assert codes == [1, 0], shown


def test_a_model_that_only_drops_has_no_companions_that_matter(tmp_path: Path) -> None:
    torch.save(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(0.5)).train(), tmp_path / "whole.pt")
    np.savez(tmp_path / "x.npz", input=np.random.default_rng(0).normal(size=(9, 1, 5, 5)).astype(np.float32))
    options = RunOptions(trust_pickle=True, inputs=str(tmp_path / "x.npz"))
    result = reproduce(tmp_path / "whole.pt", tmp_path / "repro", Settings(run=options), rule="BN201")
    assert result.folder is None


def test_restored_buffers_mend_it(tmp_path: Path) -> None:
    """A checkpoint whose norms kept no statistics: the factory falls back to the batch until they are there."""
    code = (
        HEAD
        + """
class Falls(Net):
    def load_state_dict(self, state, **more):
        done = super().load_state_dict(state, **more)
        if "bn2.running_mean" not in state:
            self.bn2.track_running_stats, self.bn2.running_mean, self.bn2.running_var = False, None, None
        return done

def build():
    return Falls()
"""
    )
    project(tmp_path, code)
    whole = torch.load(tmp_path / "model.pt")
    torch.save({name: value for name, value in whole.items() if "bn2.running" not in name}, tmp_path / "model.pt")
    assert made(tmp_path).exit_code == 1
    script = tmp_path / "repro" / "repro.py"
    torch.save(whole, tmp_path / "whole.pt")
    codes, shown = plain(script, (tmp_path / "whole.pt", tmp_path / "model.pt"))
    assert codes == [1, 0] and "model.pt has changed" in shown


def test_a_live_model_cannot_be_written_down(tmp_path: Path) -> None:
    project(tmp_path, LEAK)
    options = RunOptions(model=user_model(LEAK), inputs=str(tmp_path / "x.npz"))
    with pytest.raises(BnauditError, match="live model"):
        reproduce(None, tmp_path / "repro", Settings(run=options))
    assert not (tmp_path / "repro").exists()
