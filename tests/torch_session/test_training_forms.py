"""A fixed graph in training form computes what the module computes with its norms in training mode."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from small_nets import PreNorm, SharedHead, WeightStandardized, trained
from torch import nn

from bnaudit.torch_session.training_forms import has_training_form, in_training_form

KEEPING = (nn.BatchNorm2d, nn.InstanceNorm2d)


def tracking(channels: int) -> nn.Module:
    return nn.InstanceNorm2d(channels, affine=True, track_running_stats=True)


def instance() -> nn.Module:
    return PreNorm(tracking)


NETS: list[Callable[[], nn.Module]] = [PreNorm, SharedHead, WeightStandardized, instance]


def program(net: nn.Module, x: torch.Tensor) -> Any:
    return torch.export.export(net, (x,)).module()


def decomposed(net: nn.Module, x: torch.Tensor) -> Any:
    return torch.export.export(net, (x,)).run_decompositions().module()


def traced(net: nn.Module, x: torch.Tensor) -> Any:
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.trace(net, x, check_trace=False), buffer)
    buffer.seek(0)
    return torch.jit.load(buffer)


CARRIERS = [program, decomposed, traced]


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("build", NETS)
def test_it_computes_as_the_module_does_in_training(build: Any, carrier: Any) -> None:
    net = trained(build(), 3).eval()
    x = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    reference = copy.deepcopy(net)
    original = carrier(net, x)
    before = {name: tensor.clone() for name, tensor in original.state_dict().items()}
    assert has_training_form(original)
    with torch.no_grad():
        inference = original(x)
        form = in_training_form(original)
        for module in reference.modules():
            if isinstance(module, KEEPING):
                module.train()
        torch.testing.assert_close(form(x), reference(x), rtol=1e-5, atol=1e-6)
        assert not torch.equal(form(x), inference)
        assert torch.equal(original(x), inference)
    assert all(torch.equal(before[name], tensor) for name, tensor in original.state_dict().items())


@pytest.mark.parametrize("carrier", CARRIERS)
def test_parameters_are_shared_and_buffers_are_not(carrier: Any) -> None:
    original = carrier(trained(PreNorm(), 3).eval(), torch.randn(4, 3, 8, 8))
    form = in_training_form(original)
    places = {tensor.data_ptr() for tensor in original.parameters()}
    assert {tensor.data_ptr() for tensor in form.parameters()} == places
    assert {tensor.data_ptr() for tensor in form.buffers()}.isdisjoint(t.data_ptr() for t in original.buffers())


@pytest.mark.parametrize("carrier", CARRIERS)
def test_there_is_no_such_form_without_statistics(carrier: Any) -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.InstanceNorm2d(4)).eval()
    assert not has_training_form(carrier(net, torch.randn(4, 3, 8, 8)))
