"""The same inputs through two models: how far apart they are, and the first place where they part."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from both_sides import INPUTS, beyond, changed, exported, resnet, run
from torch import nn

from bnaudit.session import NotPossibleError

NET = resnet()


def answers(model: nn.Module, inputs: Any = INPUTS) -> Any:
    with torch.no_grad():
        return model(torch.tensor(inputs)).numpy()


def kept_in_training(model: Any) -> None:
    norm = model.get_submodule("layer1.1.bn1").train()
    norm.train = lambda mode=True: norm


def test_a_model_and_its_copy_are_equal_bit_for_bit() -> None:
    found = run(NET, copy.deepcopy(NET))
    assert found.outputs[0].shift.exact and (found.parts_at, found.flips, found.decisions) == ("", 0, 40)
    assert (found.reference_in_eval, found.subject_in_eval, found.samples, found.synthetic) == (True, True, 40, False)
    assert [parting.layer for parting in found.partings][:3] == ["bn1", "layer1.0.bn1", "layer1.0.bn2"]
    assert all(parting.entered == 0.0 and not parting.originates for parting in found.partings)


PLANTED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "epsilon": (
        lambda m: setattr(m.layer1[1].bn2, "eps", 1e-3),
        "layer1.1.bn2 (epsilon 0.001 instead of 1e-05)",
    ),
    "older statistics": (
        lambda m: (m.layer2[0].bn1.running_mean.add_(0.1), m.layer2[0].bn1.running_var.mul_(1.25)),
        "layer2.0.bn1 (its running mean, by up to ",
    ),
    "gamma": (lambda m: m.layer2[1].bn1.weight.mul_(1.05), "layer2.1.bn1 (gamma)"),
    "beta": (lambda m: m.bn1.bias[3].add_(0.1), "bn1 (beta)"),
    "left in training": (kept_in_training, "layer1.1.bn1 (the subject normalizes with the batch)"),
    "another convolution": (
        lambda m: m.layer2[0].conv2.weight.mul_(1.02),
        "a place between layer2.0.bn1 and layer2.0.bn2 that is no norm layer",
    ),
    "permuted input channels": (
        lambda m: m.conv1.weight.copy_(m.conv1.weight[:, [2, 1, 0]].clone()),
        "a place before bn1, the first norm layer",
    ),
    "another head": (lambda m: m.fc.weight.mul_(1.02), "a place after layer2.1.bn2, the last norm layer"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_the_first_place_where_they_part_is_named(name: str) -> None:
    change, place = PLANTED[name]
    subject = changed(NET, change)
    found = run(NET, subject)
    assert found.parts_at.startswith(place)
    expected = np.abs(answers(subject) - answers(NET)).max()
    assert found.outputs[0].shift.difference == pytest.approx(expected, rel=1e-3)
    assert found.outputs[0].rows[0] == int(np.abs(answers(subject) - answers(NET)).max(axis=1).argmax())
    assert found.flips == int((answers(subject).argmax(1) != answers(NET).argmax(1)).sum())
    origins = [parting.layer for parting in found.partings if parting.originates]
    assert origins == ([place.partition(" ")[0]] if not place.startswith("a place") else [])


@pytest.mark.parametrize("name", ["epsilon", "older statistics", "left in training", "another convolution"])
def test_the_same_between_a_module_and_a_graph_in_both_directions(name: str, tmp_path: Path) -> None:
    change, place = PLANTED[name]
    graph = exported(changed(NET, change), tmp_path / "subject.onnx")
    assert run(NET, graph).parts_at.startswith(place)
    back = run(graph, NET)
    where = place.partition(" (")[0]
    assert back.parts_at.startswith(where)
    assert back.reference_in_eval is (name != "left in training")


def test_two_changes_are_named_by_the_first_and_the_later_one_does_not_originate() -> None:
    subject = changed(NET, lambda m: (m.layer1[0].bn2.running_mean.add_(0.1), m.layer2[1].bn2.weight.mul_(2)))
    found = run(NET, subject)
    assert found.parts_at.startswith("layer1.0.bn2")
    assert [parting.layer for parting in found.partings if parting.originates] == ["layer1.0.bn2"]
    later = {parting.layer: parting for parting in found.partings}["layer2.1.bn2"]
    assert later.entered > 100 * later.floor


def test_a_reference_that_uses_the_batch_is_none() -> None:
    found = run(changed(NET, kept_in_training), NET)
    assert found.reference_in_eval is False and found.subject_in_eval is True
    assert found.reference_why == "layer1.1.bn1 normalizes with the batch"


class Drops(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(192, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(self.fc(x.flatten(1)), 0.5, training=True)


def test_a_reference_that_drops_at_random_is_none() -> None:
    found = run(Drops(), Drops())
    assert found.reference_in_eval is False
    assert found.reference_why == "the model drops at random; its outputs depend on random numbers"


class Remembers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.get_buffer("seen").add_(1)
        return x.mean((2, 3)) * self.get_buffer("seen")


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.get_buffer("seen").add_(1)
        return x.mean((2, 3))


def test_a_reference_that_remembers_is_none_and_one_that_only_counts_is_one() -> None:
    found = run(Remembers(), Remembers())
    assert found.reference_in_eval is False and "what ran before: seen changes" in found.reference_why
    assert run(Counts(), Counts()).reference_in_eval is True


def test_a_graph_with_a_fixed_batch_is_fed_in_its_size(tmp_path: Path) -> None:
    graph = exported(NET, tmp_path / "seven.onnx", 7, fixed=True)
    found = run(NET, graph)
    assert found.samples == 40 and not beyond(found)
    made = run(graph, NET, inputs=None)
    assert made.synthetic and not beyond(made)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_that_were_stored_in_half_precision_are_within_its_rounding_too(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    def rounded(model: Any) -> Any:
        model = copy.deepcopy(model)
        model.load_state_dict({k: v.to(dtype) if v.is_floating_point() else v for k, v in model.state_dict().items()})
        return model

    for one, other in ((NET, rounded(NET)), (rounded(NET), NET)):
        found = run(one, other)
        assert not beyond(found) and found.parts_at == "" and not found.outputs[0].shift.exact
    fault = copy.deepcopy(NET)
    with torch.no_grad():
        fault.layer1[0].bn1.running_mean += 0.5
    found = run(NET, rounded(fault))
    assert beyond(found) and found.parts_at.startswith("layer1.0.bn1")


def test_half_precision_is_within_its_measured_floor_and_a_fault_in_it_is_not(tmp_path: Path) -> None:
    half = copy.deepcopy(NET).half()
    assert not beyond(run(NET, half)) and not beyond(run(NET, exported(half, tmp_path / "half.onnx")))
    fault = changed(NET, lambda m: m.layer1[1].bn2.running_mean.add_(0.1))
    found = run(NET, fault.half())
    assert beyond(found) and found.parts_at.startswith("layer1.1.bn2 (its running mean, by up to")
    assert "rounding was measured: the baseline in float16" in found.remarks
    # 64 steps of float16 would have hidden it
    assert found.outputs[0].shift.epsilons < 64


def test_folded_norms_are_compared_by_outputs_alone(tmp_path: Path) -> None:
    found = run(NET, exported(NET, tmp_path / "folded.onnx", folded=True))
    assert not beyond(found) and found.partings == ()
    assert any("folded into other layers: only outputs were compared" in remark for remark in found.remarks)


def test_scripts_and_programs_are_compared_as_they_are(tmp_path: Path) -> None:
    script, program = tmp_path / "script.pt", tmp_path / "program.pt2"
    subject = changed(NET, PLANTED["epsilon"][0])
    torch.jit.save(torch.jit.script(subject), str(script))  # type: ignore[no-untyped-call]
    batch = {0: torch.export.Dim("batch", min=2, max=39)}
    torch.export.save(torch.export.export(NET, (torch.zeros(2, 3, 8, 8),), dynamic_shapes=(batch,)), program)
    assert run(NET, script, run=True).parts_at == PLANTED["epsilon"][1]
    assert run(program, script, run=True).parts_at == PLANTED["epsilon"][1]
    assert not beyond(run(NET, program, run=True))
    with pytest.raises(NotPossibleError, match="the subject cannot be run: it needs --run"):
        run(NET, script)


def test_nan_equals_nan_and_differs_from_a_number() -> None:
    broken = changed(NET, lambda m: m.fc.bias[2].fill_(float("nan")))
    assert run(broken, copy.deepcopy(broken)).outputs[0].shift.exact
    found = run(NET, broken)
    assert found.outputs[0].shift.difference == float("inf")
    assert found.parts_at == "a place after layer2.1.bn2, the last norm layer"
    statistics = changed(NET, lambda m: m.layer1[0].bn1.running_var[0].fill_(float("nan")))
    assert run(NET, statistics).parts_at == "layer1.0.bn1 (its running variance, which is not finite)"


class Twice(nn.Module):
    """One norm at two places, and one that never runs."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.bn, self.unused = nn.BatchNorm2d(8), nn.BatchNorm2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.bn(self.one(x)).relu()
        return self.bn(self.two(x)).mean((2, 3))


def test_a_layer_that_runs_twice_is_paired_call_by_call_and_one_that_does_not_run_is_no_matter() -> None:
    torch.manual_seed(0)
    net = Twice().eval()
    found = run(net, changed(net, lambda m: (m.two.weight.mul_(1.1), m.unused.weight.mul_(9))))
    assert [parting.layer for parting in found.partings] == ["bn", "bn"]
    assert found.parts_at == "a place between bn and bn that is no norm layer"


class Normed(nn.Module):
    """A layer norm, whose input is not watched, between two batch norms."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.ln, self.b = nn.BatchNorm2d(3), nn.LayerNorm((3, 8, 8)), nn.BatchNorm2d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.ln(self.a(x))).mean((2, 3))


def test_a_norm_that_cannot_be_watched_is_named_when_it_is_what_differs() -> None:
    net = Normed().eval()
    found = run(net, changed(net, lambda m: m.ln.weight.mul_(1.1)))
    assert found.parts_at == "ln (gamma)"


def test_inputs_that_can_be_read_once_serve_both() -> None:
    found = run(NET, copy.deepcopy(NET), inputs=iter([INPUTS[:10], INPUTS[10:25]]))
    assert found.samples == 25 and found.outputs[0].shift.exact


def test_the_batch_size_that_was_asked_for_is_used() -> None:
    one = run(NET, changed(NET, kept_in_training), batch_size=40)
    other = run(NET, changed(NET, kept_in_training), batch_size=5)
    assert one.outputs[0].shift.difference != other.outputs[0].shift.difference


def test_a_model_that_does_not_take_the_inputs_is_one_sentence() -> None:
    with pytest.raises(NotPossibleError, match="the subject raised on these inputs: the model raised RuntimeError"):
        run(NET, nn.Linear(3, 2))
    with pytest.raises(NotPossibleError, match="the baseline raised on these inputs"):
        run(nn.Linear(3, 2), NET)
    with pytest.raises(NotPossibleError, match=r"the subject raised on synthetic inputs.*--inputs"):
        run(NET, nn.Sequential(nn.Flatten(), nn.Linear(7, 2)), inputs=None)


def test_other_shapes_are_said_and_nothing_flips() -> None:
    found = run(NET, nn.Sequential(nn.Flatten(), nn.Linear(192, 2)))
    assert found.outputs[0].shift.shapes == "[10] and [2]"
    assert (found.flips, found.decisions) == (0, 0)
    assert beyond(found)


def test_many_samples_are_watched_in_part_and_compared_in_full() -> None:
    many = np.concatenate([INPUTS] * 8)
    many[300] += 1.0
    subject = changed(NET, lambda m: m.fc.bias[0].add_(1e-3))
    found = run(NET, subject, inputs=many)
    assert found.samples == 320
    assert found.outputs[0].shift.difference == pytest.approx(1e-3, rel=1e-2)


class AddsSpread(nn.Module):
    """What an input gets depends on its neighbours, so 16 samples alone get other outputs than among 40."""

    def __init__(self, head: float = 1.0) -> None:
        super().__init__()
        self.norm, self.head = nn.BatchNorm2d(3), head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = self.norm(x).mean((2, 3))
        return (features + features.std(0)) * self.head


def test_rounding_is_measured_among_the_same_neighbours() -> None:
    found = run(AddsSpread().eval(), AddsSpread(1.001).eval()).outputs[0]
    assert found.floor < 1e-4 * found.shift.scale < found.shift.difference
