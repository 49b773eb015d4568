"""A traced channel against torch's own batch norm on the same activations, in double precision."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from bnaudit.errors import BnauditError, UsageError
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings
from bnaudit.tracing.channel import trace
from bnaudit.tracing.page import page
from bnaudit.tracing.showing import show
from bnaudit.tracing.trace_objects import trace_object
from bnaudit.tracing.worked import worked

NET = """
import torch
from torch import nn

def build(norm=nn.BatchNorm1d):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 4), nn.BatchNorm1d(4))

def build_none():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6, momentum=None))

def build_group():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(NET)
    inputs = np.random.default_rng(0).normal(2.0, 3.0, (20, 5)).astype(np.float32)
    np.savez(tmp_path / "x.npz", input=inputs)
    torch.save(trained(tmp_path).state_dict(), tmp_path / "model.pt")
    return tmp_path


def trained(folder: Path, factory: str = "build") -> nn.Module:
    """The net after a few training forwards on other data, so that its statistics are of some batch."""
    names: dict[str, Any] = {}
    exec(compile(NET, "net.py", "exec"), names)
    net: nn.Module = names[factory]()
    generator = torch.Generator().manual_seed(1)
    for _ in range(5):
        net(torch.randn(8, 5, generator=generator) + 1)
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.BatchNorm1d):
                module.weight.uniform_(0.5, 1.5, generator=generator)
                module.bias.uniform_(-1, 1, generator=generator)
    return net


def settings(folder: Path, factory: str = "build", **more: Any) -> Settings:
    options = {"model": f"{folder / 'net.py'}:{factory}", "inputs": str(folder / "x.npz"), **more}
    return Settings(run=RunOptions(**options))


def received(net: nn.Module, inputs: np.ndarray, place: int) -> torch.Tensor:
    """What the layer receives, (samples, channels)."""
    with torch.no_grad():
        return net[:place](torch.from_numpy(inputs)).detach()  # type: ignore[index]


def test_eval_is_what_torch_computes(folder: Path) -> None:
    net = trained(folder).eval()
    inputs = np.load(folder / "x.npz")["input"][:16]
    layer = net[4]  # type: ignore[index]
    activation = received(net, inputs, 4).double()
    expected = torch.nn.functional.batch_norm(
        activation,
        layer.running_mean.double(),
        layer.running_var.double(),
        layer.weight.detach().double(),
        layer.bias.detach().double(),
        False,
        0.0,
        layer.eps,
    )
    found = trace(folder / "model.pt", "4", 2, settings(folder))
    assert found.in_eval is not None and found.in_eval.sample_mean is not None
    np.testing.assert_allclose(found.in_eval.sample_mean, activation[:, 2].numpy(), rtol=1e-5, atol=1e-6)
    column = worked(found).columns[0]
    ours = activation[:, 2].numpy() * column.gain.exact + column.shift.exact
    np.testing.assert_allclose(ours, expected[:, 2].numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("layer", "place"), [("1", 1), ("4", 4)])
def test_training_and_its_update_are_what_torch_computes(folder: Path, layer: str, place: int) -> None:
    net = trained(folder).train()
    inputs = np.load(folder / "x.npz")["input"][:16]
    seen: list[torch.Tensor] = []
    net[place].register_forward_pre_hook(lambda _, args: seen.append(args[0].detach().double()))  # type: ignore[index]
    before = {name: value.clone().double() for name, value in net.state_dict().items()}
    net(torch.from_numpy(inputs))
    found = trace(folder / "model.pt", layer, 1, settings(folder))
    assert found.in_training is not None
    activation = seen[0][:, 1]
    assert found.in_training.values == 16
    assert found.in_training.mean == pytest.approx(float(activation.mean()), rel=1e-5)
    assert found.in_training.biased == pytest.approx(float(activation.var(correction=0)), rel=1e-5)
    assert found.in_training.unbiased == pytest.approx(float(activation.var(correction=1)), rel=1e-5)
    updated = {update.name: update.new.exact for update in worked(found).updates}
    after = net.state_dict()
    assert updated["running_mean"] == pytest.approx(float(after[f"{layer}.running_mean"][1]), rel=1e-5)
    assert updated["running_var"] == pytest.approx(float(after[f"{layer}.running_var"][1]), rel=1e-5)
    assert before[f"{layer}.num_batches_tracked"] + 1 == after[f"{layer}.num_batches_tracked"]
    output = net[place](seen[0].float())  # type: ignore[index]
    column = worked(found).columns[1]
    ours = activation.numpy() * column.gain.exact + column.shift.exact
    np.testing.assert_allclose(ours, output[:, 1].detach().numpy(), rtol=1e-4, atol=1e-5)


def test_a_cumulative_average_weighs_one_over_the_updates(folder: Path) -> None:
    net = trained(folder, "build_none").train()
    torch.save(net.state_dict(), folder / "none.pt")
    net(torch.from_numpy(np.load(folder / "x.npz")["input"][:16]))
    found = trace(folder / "none.pt", "1", 0, settings(folder, "build_none"))
    update = worked(found).updates[1]
    assert update.weight.text == "0.166666667"  # after five batches the next one weighs 1/6
    assert update.new.exact == pytest.approx(float(net[1].running_var[0]), rel=1e-5)  # type: ignore[index]


def test_every_printed_number_follows_from_those_above_it(folder: Path) -> None:
    text = page(trace(folder / "model.pt", "4", 3, settings(folder)))
    rows = [line.rsplit(None, 2) for line in text.splitlines()]
    value: dict[str, Decimal] = {}
    checked = 0
    for row, line in zip(rows, text.splitlines(), strict=True):
        if line.strip().startswith("x ="):
            value["x"] = number(line.split("=")[1].split(",")[0])
        for label in ("variance +", "root:", "x − mean", "/ root", "· gamma", "+ beta"):
            if line.strip().startswith(label):
                value[label] = number(row[-2])
                value[f"{label} as printed"] = number(row[-2])
        names = {"  mean ": "mean", "  variance  ": "var", "  weight (gamma)": "gamma", "  bias (beta)": "beta"}
        for start, name in names.items():
            if line.startswith(start):
                value[name] = number(line.split()[2] if "(" in line else row[-2])
        if line.strip().startswith("+ beta"):
            centred = value["x"] - value["mean"]
            close(value["x − mean"], centred)
            close(value["/ root"], value["x − mean"] / value["root:"])
            close(value["· gamma"], value["/ root"] * value["gamma"])
            close(value["+ beta"], value["· gamma"] + value["beta"])
            checked += 1
    assert checked == 3
    close(value["root:"], value["variance +"].sqrt())


def number(text: str) -> Decimal:
    return Decimal(text.strip().replace("−", "-").replace(",", ""))


def close(printed: Decimal, by_calculator: Decimal) -> None:
    """Equal to the last printed digit."""
    exponent = printed.as_tuple().exponent
    assert isinstance(exponent, int)
    assert abs(printed - by_calculator) <= Decimal(1).scaleb(exponent) / 2 + Decimal("1e-24")


def test_without_inputs_nothing_runs_and_the_page_says_what_they_would_show(folder: Path) -> None:
    found = trace(folder / "model.pt", "1", 0)
    text = page(found)
    assert found.in_eval is None and "give --inputs" in text
    assert "PyTorch's default: not in the file" in text
    steps = worked(found).examples
    assert [name for name, _, _ in steps] == [
        "one sd below the stored mean",
        "the stored mean",
        "one sd above the stored mean",
    ]


def test_a_norm_of_another_kind_says_how_it_differs(folder: Path) -> None:
    names: dict[str, Any] = {}
    exec(compile(NET, "net.py", "exec"), names)
    torch.save(names["build_group"]().state_dict(), folder / "group.pt")
    np.savez(folder / "images.npz", input=np.zeros((4, 1, 5, 5), np.float32))
    options = RunOptions(model=f"{folder / 'net.py'}:build_group", inputs=str(folder / "images.npz"))
    text = page(trace(folder / "group.pt", "1", 0, Settings(run=options)))
    assert "A group norm takes both over the channels of a group," in text
    assert "running_mean" not in text


def test_a_model_without_inputs_tells_what_a_state_dict_does_not(folder: Path) -> None:
    options = RunOptions(model=f"{folder / 'net.py'}:build_none")
    torch.save(trained(folder, "build_none").state_dict(), folder / "none.pt")
    found = trace(folder / "none.pt", "1", 0, Settings(run=options))
    assert found.class_name == "BatchNorm1d" and not found.state.eps_assumed
    assert "batch number n weighs 1/n" in page(found) and "give --inputs" in page(found)


def test_a_layer_that_runs_twice_is_said_to(folder: Path) -> None:
    code = (
        NET
        + """
class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm1d(5)

    def forward(self, x):
        return self.bn(self.bn(x) + 3)

def build_twice():
    return Twice()
"""
    )
    (folder / "net.py").write_text(code)
    torch.save(nn.ModuleDict({"bn": nn.BatchNorm1d(5)}).state_dict(), folder / "twice.pt")
    found = trace(folder / "twice.pt", "bn", 1, settings(folder, "build_twice"))
    assert found.in_eval is not None and found.in_eval.calls == 2
    given = np.load(folder / "x.npz")["input"][:16, 1]
    assert found.in_eval.mean == pytest.approx(float(given.mean()), rel=1e-5)
    assert "runs 2 times in one forward" in page(found)


def test_a_negative_variance_is_said_to_have_no_root(folder: Path) -> None:
    state = trained(folder).state_dict()
    state["1.running_var"][0] = -1
    torch.save(state, folder / "negative.pt")
    assert "has no square root: every output of this channel is NaN" in page(trace(folder / "negative.pt", "1", 0))


def test_a_part_of_a_file_is_traced(folder: Path) -> None:
    one, other = trained(folder).state_dict(), trained(folder).state_dict()
    other["1.running_mean"] = other["1.running_mean"] + 10
    torch.save({"state_dict": one, "state_dict_ema": other}, folder / "both.pt")
    plain = trace(folder / "both.pt", "1", 0)
    averaged = trace(f"{folder / 'both.pt'}#state_dict_ema", "1", 0)
    assert plain.part == "state_dict" and averaged.part == "state_dict_ema"
    assert averaged.state.mean == pytest.approx((plain.state.mean or 0) + 10)
    assert "also in state_dict_ema" in page(plain)


@pytest.mark.parametrize(
    ("layer", "channel", "said"),
    [
        ("nope", 0, "no norm layer is called nope"),
        ("1", 6, "give one from 0 to 5"),
        ("1", -1, "there is no channel -1"),
    ],
)
def test_what_does_not_exist_is_told_with_what_does(folder: Path, layer: str, channel: int, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        trace(folder / "model.pt", layer, channel)


def test_inputs_without_code_are_told(folder: Path) -> None:
    with pytest.raises(BnauditError, match="--model"):
        trace(folder / "model.pt", "1", 0, Settings(run=RunOptions(inputs=str(folder / "x.npz"))))


def test_the_page_has_80_columns_and_json_is_its_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-m", "bnaudit", "trace", str(folder / "model.pt"), "4", "--channel", "3"]
    more = ["--model", f"{folder / 'net.py'}:build", "--inputs", str(folder / "x.npz")]
    shown = subprocess.run([*command, *more], capture_output=True, text=True, encoding="utf-8", check=True).stdout
    lines = [line for line in shown.splitlines() if str(folder) not in line]
    assert max(map(len, lines)) <= 80
    assert show(str(folder / "model.pt"), "4", 3, "json", settings(folder)) == 0
    written = capsys.readouterr().out
    found = trace(folder / "model.pt", "4", 3, settings(folder))
    assert json.loads(written) == json.loads(json.dumps(trace_object(found)))
    assert json.loads(written)["schema"] == "bnaudit.trace/1"


def test_a_hostile_name_cannot_reach_the_terminal(tmp_path: Path) -> None:
    name = "bn\x1b[31m\nerror"
    state = {f"{name}.{key}": torch.ones(2) for key in ("weight", "bias", "running_mean", "running_var")}
    torch.save(state, tmp_path / "model.pt")
    text = page(trace(tmp_path / "model.pt", name, 0))
    assert "\x1b" not in text and "\nerror" not in text
