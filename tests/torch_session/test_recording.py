"""What a Recorder sees of a forward besides norms, and that it leaves nothing behind."""

from __future__ import annotations

import inspect
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules import module as torch_module
from torch_session.recorded import recorded

from bnaudit.session import Watch
from bnaudit.torch_session.recording import LayerNames, Recorder


def hooks() -> tuple[int, int]:
    return len(torch_module._global_forward_pre_hooks), len(torch_module._global_forward_hooks)


def modes() -> int:
    return torch._C._len_torch_dispatch_stack()


class Raising(nn.Module):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        raise self.error


class Drops(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.3, training=True)


class DropPath(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        keep = x.new_empty((len(x), 1)).bernoulli_(0.8)
        return x * keep.div_(0.8)


class Noise(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand_like(x) + torch.empty(2, 8).bernoulli_(0.5)[0]


class Attention(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(x, x, x, dropout_p=self.p)


@pytest.mark.parametrize("watch", [Watch.CALLS, Watch.ROWS])
@pytest.mark.parametrize("error", [ValueError("bad"), KeyboardInterrupt()])
def test_nothing_is_left_behind_when_the_model_raises(error: BaseException, watch: Watch) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Sequential(Raising(error)))
    before = hooks(), modes()
    recorder = Recorder(model, LayerNames.of(model), watch=watch, size=2, anchors=(0, 1))
    with pytest.raises(type(error)), torch.no_grad(), recorder:
        model(torch.randn(2, 8))
    assert (hooks(), modes()) == before
    assert (recorder.current.module, recorder.current.class_name) == ("1.0", "Raising")
    lines, first = inspect.getsourcelines(Raising.forward)
    assert recorder.current.source == f"test_recording.py:{first + len(lines) - 1}"


def test_an_error_that_the_model_catches_is_no_place() -> None:
    class Catching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Raising(ValueError("bad"))
            self.bn = nn.BatchNorm1d(8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            try:
                return self.inner(x)
            except ValueError:
                return F.dropout(self.bn(x), 0.5, training=True)

    recorder = recorded(Catching().eval(), torch.randn(4, 8))
    assert [call.layer for call in recorder.norm_calls] == ["bn"]
    assert [call.place.module for call in recorder.random_calls] == [""]
    assert recorder.current.module == ""


def test_what_runs_right_after_a_caught_error_is_named_rightly() -> None:
    class Catching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Raising(ValueError("bad"))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            try:
                return self.inner(x)
            except ValueError:
                return F.batch_norm(x, None, None, training=True)

    (call,) = recorded(nn.Sequential(Catching()), torch.randn(4, 8)).norm_calls
    assert (call.place.module, call.place.class_name) == ("0", "Catching")


def test_modules_that_other_threads_run_are_not_mixed_up() -> None:
    stop = threading.Event()
    other = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))

    def work() -> None:
        while not stop.is_set():
            other(torch.randn(2, 4))

    model = nn.Sequential(*[nn.Sequential(nn.BatchNorm1d(8), nn.ReLU()) for _ in range(60)]).eval()
    threads = [threading.Thread(target=work) for _ in range(2)]
    before = hooks()
    for thread in threads:
        thread.start()
    try:
        recorder = recorded(model, torch.randn(4, 8))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert [call.place.module for call in recorder.norm_calls] == [f"{number}.0" for number in range(60)]
    assert recorder.random_calls == ()
    assert hooks() == before


@pytest.mark.parametrize("model", [nn.Dropout(0.3), Drops(), nn.AlphaDropout(0.3), nn.Sequential(nn.Dropout(0.3))])
def test_dropout_is_seen_with_its_probability(model: nn.Module) -> None:
    (call,) = recorded(model.train(), torch.randn(4, 8)).random_calls
    assert call.is_dropout and call.probability == pytest.approx(0.3)


def test_dropout_is_named_by_module_and_line() -> None:
    (call,) = recorded(nn.Sequential(nn.ReLU(), Drops()), torch.randn(4, 8)).random_calls
    first = inspect.getsourcelines(Drops)[1]
    assert (call.place.module, call.place.class_name) == ("1", "Drops")
    assert call.place.source == f"test_recording.py:{first + 2}"


def test_stochastic_depth_is_a_dropout() -> None:
    (call,) = recorded(DropPath(), torch.randn(4, 8)).random_calls
    assert call.is_dropout and call.probability == pytest.approx(0.2)


def test_noise_is_random_and_no_dropout() -> None:
    calls = recorded(Noise(), torch.randn(4, 8)).random_calls
    assert [(call.place.operator, call.is_dropout) for call in calls] == [
        ("aten.rand_like", False),
        ("aten.bernoulli_", False),
    ]


@pytest.mark.parametrize(
    "model",
    [
        nn.Dropout(0.3).eval(),
        nn.Dropout(0.0).train(),
        nn.RReLU().eval(),
        nn.LSTM(8, 8, 2, dropout=0.3).eval(),
        Attention(0.0),
    ],
)
def test_what_draws_nothing_is_not_random(model: nn.Module) -> None:
    assert recorded(model, torch.randn(4, 5, 8)).random_calls == ()


def test_rrelu_in_training_mode_draws() -> None:
    (call,) = recorded(nn.RReLU().train(), torch.randn(4, 8)).random_calls
    assert call.place.operator == "aten.rrelu_with_noise" and call.is_dropout


@pytest.mark.parametrize("model", [nn.LSTM(8, 8, 2, dropout=0.3).train(), Attention(0.3)])
def test_dropout_inside_other_operators_is_seen(model: nn.Module) -> None:
    calls = recorded(model, torch.randn(4, 5, 8)).random_calls
    assert calls and all(call.is_dropout and call.probability == pytest.approx(0.3) for call in calls)


@pytest.mark.parametrize("watch", [Watch.CALLS, Watch.MOMENTS, Watch.ROWS])
def test_outputs_and_random_numbers_are_those_of_an_unwatched_forward(watch: Watch) -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Dropout(0.5), nn.InstanceNorm2d(8)).train()
    batch, outputs = torch.randn(4, 3, 8, 8), []
    model.register_forward_hook(lambda module, args, result: outputs.append(result))
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    torch.manual_seed(3)
    with torch.no_grad():
        model(batch)
    left, after = torch.get_rng_state(), {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.load_state_dict(state)
    torch.manual_seed(3)
    recorded(model, batch, watch=watch)
    assert torch.equal(torch.get_rng_state(), left)
    # With moments the batch's statistics are made of the samples', which rounds otherwise.
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if watch is Watch.MOMENTS else {"rtol": 0.0, "atol": 0.0}
    torch.testing.assert_close(outputs[1], outputs[0], **tolerance)
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor, after[name], **tolerance)


class Odd(nn.Module):
    """Tensors that are no plain memory."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.fft.rfft(x).conj() * 2
        nested = torch.nested.nested_tensor([x[0, :3], x[1, :5]]) * 2
        sparse = (x.relu().to_sparse() * 2).to_dense()
        dense = x.to_mkldnn().relu().to_dense()
        empty = x[:, :0].sum(1, keepdim=True)
        meta = torch.empty(4, 8, device="meta") + 1
        assert meta.shape == (4, 8)
        return torch.fft.irfft(spectrum, 8) + nested.unbind()[0].sum() + sparse + dense + empty


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("watch", [Watch.CALLS, Watch.MOMENTS, Watch.ROWS])
def test_tensors_of_other_kinds_pass_through(watch: Watch) -> None:
    recorder = recorded(Odd(), torch.randn(4, 8), watch=watch)
    assert recorder.operator_count > 10


@pytest.mark.parametrize("watch", [Watch.CALLS, Watch.ROWS])
def test_meta_tensors_pass_through(watch: Watch) -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).to("meta").train()
    (call,) = recorded(model, torch.empty(4, 3, 8, 8, device="meta"), watch=watch).norm_calls
    assert call.uses_batch and call.batch_mean is None and call.stored_mean is None


class Subclassed(torch.Tensor):
    """A tensor with a name, as vision libraries have."""


@pytest.mark.parametrize("watch", [Watch.CALLS, Watch.ROWS])
def test_tensor_subclasses_pass_through(watch: Watch) -> None:
    batch = torch.randn(4, 3, 8, 8).as_subclass(Subclassed)
    (call,) = recorded(nn.Sequential(nn.BatchNorm2d(3)).eval(), batch, watch=watch).norm_calls
    assert call.layer == "0"


def test_control_flow_of_an_exported_program_runs_and_is_seen_into() -> None:
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bn = nn.BatchNorm1d(8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda y: self.bn(y), lambda y: y.cos(), (x,))

    program = torch.export.export(Branching().eval(), (torch.ones(4, 8),))
    (call,) = recorded(program.module(), torch.ones(4, 8)).norm_calls
    assert call.layer == "bn"


def test_the_coarsest_dtype_of_parameters_and_results_is_reported() -> None:
    class Halves(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x.half() * 2).float()

    assert recorded(nn.Linear(8, 8), torch.randn(2, 8)).compute_dtype == "float32"
    assert recorded(nn.Sequential(nn.Linear(8, 8), Halves()), torch.randn(2, 8)).compute_dtype == "float16"
    assert recorded(nn.Linear(8, 8).double(), torch.randn(2, 8).double()).compute_dtype == "float64"
    assert recorded(nn.Flatten(), torch.ones(2, 8, dtype=torch.int64)).compute_dtype == "float32"
