"""TorchScript archives, against the modules they were made from."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import pytest
import torch
from torch import nn
from torchscript_builders import described, layers_of, modes_of, part_of, randomized, rewritten, saved, traced
from torchscript_nets import IMAGE, NAMES, Net, assert_says

from bnaudit.description import Carrier
from bnaudit.errors import MalformedError, NotAuditedError
from bnaudit.formats import Candidate, identify
from bnaudit.reading.byte_source import ByteSource


@pytest.mark.parametrize("training", [True, False])
def test_a_scripted_module_says_what_the_python_module_says(tmp_path: Path, training: bool) -> None:
    net = randomized(Net()).train(training)
    part = part_of(torch.jit.script(net), tmp_path)
    assert_says(part, net)
    assert part.carrier is Carrier.SCRIPT
    assert part.traced is False
    assert set(part.modules or ()) == {name for name, _ in net.named_modules()}
    assert {layer.training for layer in part.layers} == {training}
    assert {layer.graph_training for layer in part.layers} == {None}
    assert layers_of(part)["blocks.0.bn"].declared_channels == 8
    assert [layers_of(part)[name].tracks_statistics for name in ("blocks.0.bn", "instance", "plain")] == [
        True,
        True,
        False,
    ]
    drop = modes_of(part)["drop"]
    assert (drop.kind, drop.probability, drop.training, drop.graph_training) == ("dropout", 0.3, training, None)


@pytest.mark.parametrize("training", [True, False])
def test_a_trace_fixes_the_mode_it_was_made_in(tmp_path: Path, training: bool) -> None:
    net = randomized(Net()).train(training)
    trace = traced(net, IMAGE)
    part = part_of(trace, tmp_path)
    assert_says(part, net)
    assert part.traced is True
    fixed = {name: layer.graph_training for name, layer in layers_of(part).items()}
    modal = ("stem.1", "blocks.0.bn", "blocks.1.bn", "instance")
    assert fixed == {name: training if name in modal else None for name in NAMES}
    assert modes_of(part)["drop"].graph_training is training
    assert modes_of(part)["drop"].probability == 0.3


def test_a_trace_in_training_mode_stays_so_after_eval(tmp_path: Path) -> None:
    part = part_of(traced(Net().train(), IMAGE).eval(), tmp_path)
    for layer in (layers_of(part)["blocks.1.bn"], modes_of(part)["drop"]):
        assert (layer.training, layer.graph_training) == (False, True)


def test_a_trace_in_eval_mode_stays_so_after_train(tmp_path: Path) -> None:
    part = part_of(traced(Net().eval(), IMAGE).train(), tmp_path)
    for layer in (layers_of(part)["blocks.1.bn"], modes_of(part)["drop"]):
        assert (layer.training, layer.graph_training) == (True, False)


def test_the_example_of_a_trace_tells_dtype_and_rank_of_the_input(tmp_path: Path) -> None:
    (found,) = part_of(traced(Net().eval(), IMAGE), tmp_path).inputs
    assert (found.name, found.dtype, found.shape) == ("x", "float32", (None, None, None, None))


def test_parameters_outside_norms_are_counted_by_their_flag(tmp_path: Path) -> None:
    net = Net()
    net.stem[0].weight.requires_grad_(False)
    part = part_of(torch.jit.script(net), tmp_path)
    assert (part.trainable, part.frozen) == (5, 1)  # trainable: stem bias, two block weights, fc
    assert part.tensors == len(list(net.parameters())) + len(list(net.buffers()))
    assert part.floating_dtypes == ("float32",)


def test_archives_from_before_1_4_are_named(tmp_path: Path) -> None:
    path = saved(torch.jit.script(Net()), tmp_path / "net.pt")
    old = rewritten(path, tmp_path / "old.pt", {"data.pkl": lambda _: None}, {"model.json": b"{}"})
    with pytest.raises(NotAuditedError, match=r"torch\.jit\.save"):
        described(old)


def test_it_is_told_from_other_torch_archives(tmp_path: Path) -> None:
    script = saved(torch.jit.script(Net()), tmp_path / "net.pth")
    plain = tmp_path / "state.pt"
    torch.save(Net().state_dict(), plain)
    for path, expected in ((script, "TorchScript"), (plain, "PyTorch zip checkpoint")):
        with ByteSource.open(path) as source:
            assert identify(Candidate(path, source)).name == expected


def test_a_pickle_without_an_object_is_no_script(tmp_path: Path) -> None:
    path = saved(torch.jit.script(Net()), tmp_path / "net.pt")
    broken = rewritten(path, tmp_path / "broken.pt", {"data.pkl": lambda _: b"\x80\x02K\x01."})
    with pytest.raises(MalformedError, match="object"):
        described(broken)


class Layout(Enum):
    FIRST = "channels first"
    LAST = "channels last"


class WithEnum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layout = Layout.LAST
        self.bn = nn.BatchNorm2d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.layout == Layout.LAST:
            x = x.permute(0, 3, 1, 2)
        return self.bn(x)


def test_an_attribute_that_is_a_member_of_an_enum_hides_nothing(tmp_path: Path) -> None:
    """Its class is called with the bare value, as in the scripted vision transformers of timm."""
    net = randomized(WithEnum())
    part = part_of(torch.jit.script(net), tmp_path)
    (layer,) = part.layers
    assert layer.name == "bn"
    assert layer.mean is not None
    assert layer.mean.tolist() == net.bn.running_mean.tolist()
