"""Models that are no plain tree of float modules: they run and are left as they were, or one sentence says why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch_session.snapshots import snapshot

from bnaudit.description import Carrier
from bnaudit.errors import UnreadableError, UsageError
from bnaudit.run_options import RunOptions
from bnaudit.session import Batch, Mode, NotPossibleError, RunError
from bnaudit.torch_session.opening import opened

VALUES = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
BATCH = Batch(args=(VALUES,), size=4, anchors=(0, 2, 3))


def session_of(model: object) -> Any:
    return opened(None, None, RunOptions(model=model))


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(x))


class Tied(Small):
    """One norm under two names, one parameter in two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.again = self.norm
        self.other = nn.Linear(4, 4)
        self.other.weight = self.linear.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.again(self.other(super().forward(x)))


class Odd(Small):
    """Holds tensors of unusual kinds, a module of Python, and much data."""

    def __init__(self) -> None:
        super().__init__()
        self.sparse = torch.eye(5).to_sparse()
        self.expanded = torch.zeros(1).expand(5)
        self.complex = torch.randn(3, dtype=torch.complex128)
        self.quantized = torch.quantize_per_tensor(torch.rand(3), 0.1, 0, torch.quint8)
        self.register_buffer("transposed", torch.randn(4, 6).t())
        self.python = torch
        self.data = list(np.arange(50_000.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.complex += 1
        self.transposed += 1
        self.expanded.data[0] = 3  # one element of memory stands for all five
        return super().forward(x)


class Drawing(Small):
    """Draws from a generator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + torch.rand(1, generator=self.generator)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "tied": Tied,
    "drawing": Drawing,
    "spectral": lambda: nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)), nn.BatchNorm1d(4)),
    "weight norm": lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), nn.BatchNorm1d(4)),
    "fx": lambda: torch.fx.symbolic_trace(Small()),
    "averaged": lambda: torch.optim.swa_utils.AveragedModel(Small()),
}


@pytest.mark.parametrize("name", MODELS)
def test_runs_in_every_mode_from_one_state_and_is_left_as_it_was(name: str) -> None:
    model = MODELS[name]()
    before = snapshot(model)
    with session_of(model) as session:
        for mode in sorted(session.modes):
            first, again = (session.run(BATCH, mode) for _ in range(2))
            assert np.array_equal(first.outputs[0].values, again.outputs[0].values)
            assert first.changes == again.changes
    assert snapshot(model) == before


def test_odd_tensors_are_put_back() -> None:
    model = Odd()
    kept = {name: getattr(model, name).clone() for name in ("complex", "transposed", "expanded")}
    with session_of(model) as session:
        names = {change.name for change in session.run(BATCH).changes}
        assert {"complex", "transposed", "expanded"} <= names
    for name, value in kept.items():
        assert torch.equal(getattr(model, name), value)
    assert len(model.data) == 50_000 and model.python is torch


def test_dynamic_quantization() -> None:
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 2)), {nn.Linear})
    with session_of(model) as session:
        assert session.run(BATCH).outputs[0].values.shape == (4, 2)


def test_the_module_of_an_exported_program() -> None:
    model = torch.export.export(Small().eval(), (torch.randn(4, 4),)).module()
    with session_of(model) as session:
        assert session.carrier is Carrier.PROGRAM
        assert session.run(BATCH, Mode.TRAINING_NORMS).norm_calls[0].uses_batch


def test_a_model_without_outputs_has_none() -> None:
    class Silent(nn.Module):
        def forward(self, x: torch.Tensor) -> None:
            return None

    with session_of(Silent()) as session:
        assert session.run(BATCH).outputs == ()


def test_lazy_layers_must_have_run() -> None:
    model = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
    with pytest.raises(NotPossibleError, match="first forward"), session_of(model):
        pass
    model(torch.rand(4, 4))
    with session_of(model) as session:
        assert session.run(BATCH).outputs[0].values.shape == (4, 3)


def test_a_model_without_values() -> None:
    with pytest.raises(NotPossibleError, match="meta"), session_of(lambda: Small().to("meta")):
        pass


def test_an_eval_that_raises() -> None:
    class Refusing(nn.Linear):
        def train(self, mode: bool = True) -> Refusing:
            raise RuntimeError("never")

    with pytest.raises(UnreadableError, match="RuntimeError: never"), session_of(Refusing(4, 2)):
        pass


class Locked(Small):
    """Refuses to have its mode set."""

    def __setattr__(self, name: str, value: object) -> None:
        if name == "training" and "norm" in self.__dict__.get("_modules", {}):
            raise AttributeError("the mode is fixed")
        super().__setattr__(name, value)


def test_a_model_that_refuses_its_mode_is_told_in_one_sentence() -> None:
    model = Locked()
    before = snapshot(model)
    with (
        pytest.raises(UnreadableError, match=r"eval\(\) of the model raised AttributeError: the mode is fixed"),
        session_of(model),
    ):
        pass
    assert snapshot(model) == before


def test_fake_tensors_have_no_values() -> None:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        model = Small()
    with pytest.raises(NotPossibleError, match="it is a FakeTensor: build the model outside"), session_of(model):
        pass


class Leaving(Small):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise SystemExit("done")


def test_a_forward_that_ends_the_program_is_an_error_of_the_model() -> None:
    with session_of(Leaving()) as session, pytest.raises(RunError, match="the model raised SystemExit: done"):
        session.run(BATCH)


@pytest.mark.parametrize("device", ["meta", "privateuseone", "nowhere"])
def test_devices_that_cannot_be_used_are_wrong_usage(device: str) -> None:
    options = RunOptions(model=Small, device=device)
    with pytest.raises(UsageError, match=f"--device {device}"), opened(None, None, options):
        pass
