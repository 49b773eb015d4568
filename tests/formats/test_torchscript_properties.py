"""Random small nets: what is read is what torch holds, and a fixed training flag is one that eval() does not reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torchscript_builders import described, part_of, randomized, saved, traced

from bnaudit.description import CUMULATIVE, NormKind, Part

WIDTH = 6
ROLES = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
NORMS = (nn.BatchNorm1d, nn.LayerNorm, nn.GroupNorm)


class Literal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.register_buffer("var", torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(x, self.mean, self.var, training=True)


class Following(Literal):
    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(x, self.mean, self.var, training=self.training)


class Dropping(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5)


class Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.5 * self.inner(x)


def batch_norm(affine: bool, tracking: bool, momentum: float | None, eps: float) -> nn.Module:
    return nn.BatchNorm1d(WIDTH, eps=eps, momentum=momentum, affine=affine, track_running_stats=tracking)


LAYERS = st.one_of(
    st.builds(
        batch_norm, st.booleans(), st.booleans(), st.sampled_from([0.1, 0.5, None]), st.sampled_from([1e-5, 1e-3])
    ),
    st.builds(lambda eps: nn.LayerNorm(WIDTH, eps=eps), st.sampled_from([1e-5, 1e-6])),
    st.builds(lambda groups: nn.GroupNorm(groups, WIDTH), st.sampled_from([1, 2, 3])),
    st.builds(nn.Dropout, st.sampled_from([0.0, 0.5])),
    st.builds(nn.Linear, st.just(WIDTH), st.just(WIDTH)),
    st.builds(Literal),
    st.builds(Following),
    st.builds(Dropping),
    st.builds(nn.ReLU),
)
NETS = st.recursive(
    LAYERS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda layers: nn.Sequential(*layers)), inner.map(Residual)
    ),
    max_leaves=6,
).map(nn.Sequential)


def written(net: nn.Module, form: str) -> Any:
    if form == "scripted":
        return torch.jit.script(net)
    if form == "frozen":
        return torch.jit.freeze(torch.jit.script(net.eval()), optimize_numerics=False)
    return traced(net.train(form == "traced in training mode"), torch.randn(4, WIDTH))


FORMS = st.sampled_from(["scripted", "traced in training mode", "traced in eval mode", "frozen"])


def anchor_moves(path: Path) -> bool:
    """Whether after eval() the answer for one input depends on what stands beside it, or on chance."""
    torch.manual_seed(1)  # dropout draws from the global generator
    generator = torch.Generator().manual_seed(1)
    anchor = torch.rand(1, WIDTH, generator=generator)
    answers = []
    for scale in (1.0, 3.0) * 6:  # two masks over a few channels are equal too often
        module = torch.jit.load(str(path)).eval()
        companions = torch.randn(3, WIDTH, generator=generator) * scale
        answers.append(module(torch.cat([anchor, companions]))[0].detach())
    return any(not torch.allclose(answers[0], other, atol=1e-5) for other in answers[1:])


def is_fixed_to_training(part: Part) -> bool:
    norms = [layer.graph_training for layer in part.layers if layer.kind is NormKind.BATCH]
    return True in (*norms, *(entry.graph_training for entry in part.mode_dependent))


@settings(max_examples=60)
@given(net=NETS, form=FORMS, seed=st.integers(0, 99))
def test_a_flag_is_fixed_exactly_when_the_answer_moves_after_eval(
    tmp_path: Path, net: nn.Module, form: str, seed: int
) -> None:
    path = saved(written(randomized(net, seed), form), tmp_path / "net.pt")
    part = described(path).parts[0]
    assert is_fixed_to_training(part) == anchor_moves(path)


@settings(max_examples=40)
@given(net=NETS, form=FORMS.filter(lambda form: form != "frozen"), seed=st.integers(0, 99))
def test_every_norm_of_the_net_is_read_with_its_values(tmp_path: Path, net: nn.Module, form: str, seed: int) -> None:
    found = {layer.name: layer for layer in part_of(written(randomized(net, seed), form), tmp_path).layers}
    expected = {name: module for name, module in net.named_modules() if isinstance(module, NORMS)}
    literal = {name for name, module in net.named_modules() if isinstance(module, Literal)}
    assert set(found) == set(expected) | literal
    for name, module in expected.items():
        layer = found[name]
        assert layer.eps == module.eps
        assert layer.training == module.training
        for role in ROLES:
            tensor, stored = getattr(module, role, None), getattr(layer, role)
            assert (tensor is None) == (stored is None)
            if stored is not None:
                assert stored.name == f"{name}.{role}"
                np.testing.assert_array_equal(stored.values, tensor.detach().double().numpy())
        if form == "scripted" and isinstance(module, nn.BatchNorm1d):
            assert layer.tracks_statistics == module.track_running_stats
            assert layer.momentum == (CUMULATIVE if module.momentum is None else module.momentum)
