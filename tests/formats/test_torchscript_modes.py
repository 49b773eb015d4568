"""Layers of TorchScript archives whose output depends on the mode, against what torch does in either mode."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchscript_builders import described, layers_of, modes_of, part_of, rewritten, saved, traced

SEQUENCE = torch.randn(5, 2, 8)


class Attentive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.1)
        self.deep = nn.LSTM(8, 8, num_layers=2, dropout=0.2)
        self.shallow = nn.GRU(8, 8, num_layers=1)
        self.leak = nn.RReLU()
        self.channels = nn.Dropout1d(0.25)
        self.off = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        x = self.attention(x, x, x)[0]
        x = self.shallow(self.deep(x)[0])[0]
        return self.off(self.channels(self.leak(x)))


KINDS = {"attention": "attention", "deep": "recurrent", "leak": "rrelu", "channels": "dropout"}
PROBABILITIES = {"attention": 0.1, "deep": 0.2, "leak": None, "channels": 0.25}


@pytest.mark.parametrize("training", [True, False])
def test_scripted_layers_obey_their_flag(tmp_path: Path, training: bool) -> None:
    modes = modes_of(part_of(torch.jit.script(Attentive().train(training)), tmp_path))
    assert {name: entry.kind for name, entry in modes.items()} == KINDS
    assert {name: entry.probability for name, entry in modes.items()} == PROBABILITIES
    assert {entry.training for entry in modes.values()} == {training}
    assert {entry.graph_training for entry in modes.values()} == {None}


def test_layers_traced_in_training_mode_are_fixed(tmp_path: Path) -> None:
    modes = modes_of(part_of(traced(Attentive().train(), SEQUENCE).eval(), tmp_path))
    assert {name: entry.kind for name, entry in modes.items()} == KINDS
    assert {name: entry.probability for name, entry in modes.items()} == PROBABILITIES
    assert {(entry.training, entry.graph_training) for entry in modes.values()} == {(False, True)}


def test_layers_traced_in_eval_mode_never_draw(tmp_path: Path) -> None:
    modes = modes_of(part_of(traced(Attentive().eval(), SEQUENCE), tmp_path))
    assert {entry.graph_training for entry in modes.values()} == {False}


def test_attention_weights_dropped_by_a_literal_are_fixed(tmp_path: Path) -> None:
    class Direct(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(x, x, F.scaled_dot_product_attention(x, x, x), dropout_p=0.3)

    for module in (torch.jit.script(Direct().eval()), traced(Direct().eval(), SEQUENCE)):
        ((name, entry),) = modes_of(part_of(module, tmp_path)).items()
        assert name.startswith("forward.scaled_dot_product_attention")
        assert (entry.kind, entry.probability, entry.graph_training) == ("attention", 0.3, True)


class StochasticDepth(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        noise = torch.empty([x.shape[0], 1, 1], dtype=x.dtype).bernoulli_(1.0 - self.p)
        return x * noise


def test_stochastic_depth_is_known_by_its_class_and_its_draw(tmp_path: Path) -> None:
    (entry,) = part_of(torch.jit.script(nn.Sequential(StochasticDepth(0.2))), tmp_path).mode_dependent
    assert (entry.name, entry.kind, entry.probability, entry.graph_training) == ("0", "stochastic-depth", 0.2, None)
    (entry,) = part_of(traced(nn.Sequential(StochasticDepth(0.2)).eval().train(), SEQUENCE), tmp_path).mode_dependent
    assert (entry.kind, entry.graph_training) == ("stochastic-depth", True)


def test_transformer_layers_in_eval_mode_are_healthy(tmp_path: Path) -> None:
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2).eval()
    for module in (torch.jit.script(net), traced(net, SEQUENCE)):
        part = part_of(module, tmp_path)
        assert True not in {entry.graph_training for entry in part.mode_dependent}
        assert len(part.layers) == 4


def test_a_net_with_both_kinds_of_code_is_neither_traced_nor_scripted(tmp_path: Path) -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.recorded = traced(nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.1)), torch.randn(3, 4))
            self.bn = nn.BatchNorm1d(4)

        def forward(self, x: Tensor) -> Tensor:
            return self.bn(self.recorded(x))

    part = part_of(torch.jit.script(Mixed().eval()), tmp_path)
    assert part.traced is None
    fixed = {name: layer.graph_training for name, layer in layers_of(part).items()}
    assert fixed == {"recorded.0": True, "bn": None}
    assert modes_of(part)["recorded.1"].graph_training is True


def test_a_trace_without_stored_examples_is_known_by_its_modules(tmp_path: Path) -> None:
    path = saved(traced(nn.Sequential(nn.BatchNorm1d(4)).eval(), torch.randn(3, 4)), tmp_path / "net.pt")
    old = rewritten(path, tmp_path / "old.pt", {"traced_inputs.pkl": lambda _: None, "traced_inputs/0": lambda _: None})
    assert described(old).parts[0].traced is True


@torch.jit.interface
class Step(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bn = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.bn(x)


class Listed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.ModuleList([Inner(), Inner()])
        self.named = nn.ModuleDict({"first": nn.BatchNorm1d(4), "in-between": nn.BatchNorm1d(4)})
        self.last = nn.BatchNorm1d(4)
        self.unused = nn.BatchNorm1d(4)

    def forward(self, x: Tensor, which: int) -> Tensor:
        step: Step = self.steps[which]
        x = step.forward(x)
        for module in self.named.values():
            x = module(x)
        future = torch.jit.fork(self.last, x)
        return torch.jit.wait(future)


def test_layers_are_found_through_lists_dicts_interfaces_and_forks(tmp_path: Path) -> None:
    part = part_of(torch.jit.script(Listed().eval()), tmp_path)
    called = ["steps.0.bn", "steps.1.bn", "named.first", "named.in-between", "last"]
    assert [layer.name for layer in part.layers] == [*called, "unused"]
    assert {(layer.eps, layer.training, layer.graph_training) for layer in part.layers} == {(1e-5, False, None)}


def test_instances_of_one_class_keep_their_own_flags(tmp_path: Path) -> None:
    net = nn.Sequential(*(nn.Sequential(nn.BatchNorm1d(4)) for _ in range(3))).eval()
    net[1][0].train()
    part = part_of(torch.jit.script(net), tmp_path)
    assert [layer.training for layer in part.layers] == [False, True, False]


def test_a_layer_that_is_called_twice_is_one_layer(tmp_path: Path) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bn = nn.BatchNorm1d(4)

        def forward(self, x: Tensor) -> Tensor:
            return self.bn(torch.relu(self.bn(x)))

    for module in (torch.jit.script(Twice()), traced(Twice(), torch.randn(3, 4))):
        assert [layer.name for layer in part_of(module, tmp_path).layers] == ["bn"]
