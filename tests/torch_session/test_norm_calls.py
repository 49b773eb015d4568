"""Normalization operators as the recorder shows them, whoever calls them."""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_session.recorded import recorded

from bnaudit.description import NormKind
from bnaudit.session import Held, NormCall, Watch


class Around(nn.Module):
    """A convolution and one norm."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = norm

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x))


class Functional(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, None, None, training=True)


class MadeInForward(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.BatchNorm2d(3)(x)


class Hiding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Module()
        self.encoder.norms = [nn.Identity(), nn.Identity(), nn.Sequential(nn.BatchNorm2d(3))]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.encoder.norms[2](x)


class Stubborn(nn.BatchNorm2d):
    def train(self, mode: bool = True) -> Stubborn:
        return super().train(True)


class StandardizedConv(nn.Conv2d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = F.batch_norm(self.weight.reshape(1, self.out_channels, -1), None, None, training=True, momentum=0.0)
        return F.conv2d(x, weight.reshape_as(self.weight), self.bias)


class Rms(nn.Module):
    """A Llama-like norm without an operator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class LlamaRMSNorm(Rms):
    pass


def images(size: int = 4, channels: int = 3) -> torch.Tensor:
    return torch.randn(size, channels, 6, 6, generator=torch.Generator().manual_seed(1)) + 0.5


def only(calls: tuple[NormCall, ...]) -> NormCall:
    assert len(calls) == 1
    return calls[0]


def line_of(owner: type, text: str) -> str:
    import inspect

    lines, first = inspect.getsourcelines(owner)
    return f"test_norm_calls.py:{first + next(i for i, line in enumerate(lines) if text in line)}"


def test_a_batch_norm_in_eval_mode_uses_what_is_stored() -> None:
    model = Around(nn.BatchNorm2d(8)).eval()
    model.norm.running_mean.copy_(torch.arange(8.0))
    call = only(recorded(model, images()).norm_calls)
    assert (call.place.module, call.place.class_name, call.layer) == ("norm", "BatchNorm2d", "norm")
    assert (call.kind, call.uses_batch, call.updates, call.eps) == (NormKind.BATCH, False, False, 1e-5)
    assert (call.channels, call.values_per_statistic, call.values_per_sample) == (8, 4 * 36, 36)
    np.testing.assert_array_equal(call.stored_mean, np.arange(8.0))
    assert call.batch_mean is None and call.stored_var is not None


def test_a_batch_norm_in_training_mode_shows_the_batch_and_what_was_stored_before() -> None:
    model = Around(nn.BatchNorm2d(8)).train()
    batch = images()
    before = model.norm.running_mean.clone()
    call = only(recorded(model, batch).norm_calls)
    received = model.conv(batch).detach().double().numpy()
    assert (call.uses_batch, call.mixes_samples, call.updates, call.momentum) == (True, True, True, 0.1)
    np.testing.assert_allclose(call.batch_mean, received.mean((0, 2, 3)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(call.batch_var, received.var((0, 2, 3)), rtol=1e-5)
    np.testing.assert_array_equal(call.stored_mean, before.double().numpy())
    assert not torch.equal(model.norm.running_mean, before)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_batch_statistics_are_right_in_other_precisions(dtype: torch.dtype) -> None:
    model = nn.BatchNorm2d(3).to(dtype)
    batch = images().to(dtype)
    recorder = recorded(model, batch)
    call = only(recorder.norm_calls)
    np.testing.assert_allclose(call.batch_mean, batch.double().mean((0, 2, 3)).numpy(), atol=2e-3)
    np.testing.assert_allclose(call.batch_var, batch.double().var((0, 2, 3), correction=0).numpy(), rtol=2e-3)
    assert recorder.compute_dtype == str(dtype).removeprefix("torch.")


def test_tracking_switched_off_hands_over_nothing() -> None:
    model = nn.BatchNorm2d(3)
    model.track_running_stats = False
    call = only(recorded(model, images()).norm_calls)
    assert call.uses_batch and not call.updates
    assert call.stored_mean is None and call.stored_var is None
    model.eval()
    call = only(recorded(model, images()).norm_calls)
    assert not call.uses_batch and call.stored_mean is not None


def test_a_functional_call_is_named_by_the_module_and_line_that_made_it() -> None:
    call = only(recorded(nn.Sequential(nn.ReLU(), Functional()).eval(), images()).norm_calls)
    assert (call.place.module, call.place.class_name, call.layer) == ("1", "Functional", None)
    assert (call.uses_batch, call.mixes_samples, call.place.hidden) == (True, True, False)
    assert call.place.source == line_of(Functional, "F.batch_norm")
    assert call.place.operator == "aten.native_batch_norm"


def test_a_module_built_in_forward_is_named_by_where_it_was_made() -> None:
    call = only(recorded(nn.Sequential(MadeInForward()).eval(), images()).norm_calls)
    assert (call.place.module, call.place.class_name) == ("<made in forward of 0>", "BatchNorm2d")
    assert call.place.hidden and call.layer is None
    assert call.place.source == line_of(MadeInForward, "nn.BatchNorm2d(3)(x)")


def test_a_module_in_a_plain_list_is_named_by_the_way_to_it() -> None:
    call = only(recorded(Hiding().eval(), images()).norm_calls)
    assert (call.place.module, call.place.hidden, call.layer) == ("encoder.norms[2].0", True, None)
    assert call.uses_batch


def test_an_overridden_train_is_seen_through() -> None:
    call = only(recorded(Around(Stubborn(8)).eval(), images()).norm_calls)
    assert call.uses_batch and call.layer == "norm"


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("tracks", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_instance_norm_is_no_batch_norm(dims: int, training: bool, tracks: bool, affine: bool) -> None:
    kind = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)[dims - 1]
    model = nn.Sequential(kind(3, affine=affine, track_running_stats=tracks)).train(training)
    batch = torch.randn(4, 3, *([5] * dims))
    call = only(recorded(model, batch).norm_calls)
    assert (call.kind, call.mixes_samples, call.layer) == (NormKind.INSTANCE, False, "0")
    assert call.uses_batch == (training or not tracks)
    assert (call.channels, call.values_per_statistic, call.values_per_sample) == (3, 5**dims, 5**dims)
    assert (call.stored_mean is not None) == tracks
    assert call.stored_mean is None or call.stored_mean.shape == (3,)


def test_a_functional_instance_norm_is_recognized_by_its_view() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.instance_norm(x)

    call = only(recorded(Net(), images()).norm_calls)
    assert (call.kind, call.mixes_samples, call.channels) == (NormKind.INSTANCE, False, 3)


@pytest.mark.parametrize("size", [1, 4])
def test_weight_standardization_mixes_nothing(size: int) -> None:
    call = only(recorded(StandardizedConv(3, 8, 3).eval(), images(size)).norm_calls)
    assert (call.kind, call.uses_batch, call.mixes_samples) == (NormKind.INSTANCE, True, False)


@pytest.mark.parametrize(
    ("norm", "kind", "covered"),
    [
        (nn.LayerNorm(6), NormKind.LAYER, 6),
        (nn.LayerNorm((8, 6, 6)), NormKind.LAYER, 288),
        (nn.GroupNorm(2, 8), NormKind.GROUP, 144),
        (nn.RMSNorm(6), NormKind.RMS, 6),
        (LlamaRMSNorm(), NormKind.RMS, 6),
    ],
)
def test_norms_within_a_sample_are_seen_and_mix_nothing(norm: nn.Module, kind: NormKind, covered: int) -> None:
    call = only(recorded(Around(norm).eval(), images()).norm_calls)
    assert (call.kind, call.mixes_samples, call.layer, call.uses_batch) == (kind, False, "norm", True)
    assert (call.values_per_statistic, call.values_per_sample) == (covered, covered)


def test_a_layer_norm_over_the_batch_mixes() -> None:
    call = only(recorded(nn.LayerNorm((4, 6), elementwise_affine=False), torch.randn(4, 6)).norm_calls)
    assert call.mixes_samples is True


def test_a_frozen_batch_norm_counts_as_one() -> None:
    class FrozenBatchNorm2d(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("running_mean", torch.ones(8))
            self.register_buffer("running_var", torch.full((8,), 4.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x - self.running_mean.view(-1, 1, 1)) * (self.running_var + 1e-5).rsqrt().view(-1, 1, 1)

    call = only(recorded(Around(FrozenBatchNorm2d()).eval(), images()).norm_calls)
    assert (call.kind, call.uses_batch, call.layer) == (NormKind.FROZEN_BATCH, False, "norm")
    np.testing.assert_array_equal(call.stored_var, np.full(8, 4.0))


def test_sync_batch_norm_is_seen_on_one_process() -> None:
    call = only(recorded(Around(nn.SyncBatchNorm(8)).train(), images()).norm_calls)
    assert (call.kind, call.mixes_samples, call.layer) == (NormKind.SYNC_BATCH, True, "norm")


def test_the_fast_path_of_a_transformer_is_taken_and_its_norms_are_named() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    recorder = recorded(model, torch.randn(4, 5, 16), watch=Watch.ROWS)
    assert "aten._transformer_encoder_layer_fwd" in {call.place.operator for call in recorder.operators}
    assert [call.layer for call in recorder.norm_calls] == [
        f"layers.{number}.norm{which}" for number in (0, 1) for which in (1, 2)
    ]
    assert all(call.kind is NormKind.LAYER and call.mixes_samples is False for call in recorder.norm_calls)


@pytest.mark.parametrize("how", ["script", "trace"])
def test_torchscript_is_attributed_by_the_addresses_of_its_tensors(how: str) -> None:
    model = nn.Sequential(Around(nn.BatchNorm2d(8)), nn.InstanceNorm2d(8, affine=True, track_running_stats=True))
    model.eval()
    scripted = torch.jit.script(model) if how == "script" else torch.jit.trace(model, images())
    for _ in range(3):  # the executor specializes the code after the first runs
        calls = recorded(scripted, images()).norm_calls
        assert [call.layer for call in calls] == ["0.norm", "1"]
        assert [call.kind for call in calls] == [NormKind.BATCH, NormKind.INSTANCE]
        assert not any(call.uses_batch for call in calls)


def test_a_graph_traced_in_training_mode_is_seen_to_use_the_batch() -> None:
    traced = torch.jit.trace(Around(nn.BatchNorm2d(8)).train(), images(), check_trace=False).eval()
    call = only(recorded(traced, images()).norm_calls)
    assert call.uses_batch and call.layer == "norm"


@pytest.mark.parametrize("stored", [False, True])
def test_an_exported_program_names_modules_and_lines(stored: bool) -> None:
    model = nn.Sequential(Around(nn.BatchNorm2d(8)), Around(nn.InstanceNorm2d(8)), Functional())
    model[1].conv = nn.Identity()
    program = torch.export.export(model.eval(), (images(),))
    if stored:
        buffer = io.BytesIO()
        torch.export.save(program, buffer)
        buffer.seek(0)
        program = torch.export.load(buffer)
    calls = recorded(program.module(), images()).norm_calls
    assert [(call.place.module, call.place.class_name) for call in calls] == [
        ("0.norm", "BatchNorm2d"),
        ("1.norm", "InstanceNorm2d"),
        ("2", "Functional"),
    ]
    assert [call.layer for call in calls] == ["0.norm", "1.norm", None]
    assert [call.kind for call in calls] == [NormKind.BATCH, NormKind.INSTANCE, NormKind.BATCH]
    assert calls[2].place.source == line_of(Functional, "F.batch_norm")


def test_sample_moments_are_those_of_numpy() -> None:
    model = Around(nn.BatchNorm2d(8)).eval()
    batch = images(5) * 30 + 1000
    call = only(recorded(model, batch, watch=Watch.MOMENTS).norm_calls)
    with torch.no_grad():
        received = model.conv(batch).double().numpy()
    np.testing.assert_allclose(call.sample_mean, received.mean((2, 3)), rtol=1e-6)
    np.testing.assert_allclose(call.sample_var, received.var((2, 3)), rtol=1e-5)


def test_moments_make_the_batch_statistics_exact() -> None:
    model, batch = nn.BatchNorm2d(3), images(5).double()
    call = only(recorded(model.double(), batch, watch=Watch.MOMENTS).norm_calls)
    np.testing.assert_allclose(call.batch_mean, batch.numpy().mean((0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(call.batch_var, batch.numpy().var((0, 2, 3)), rtol=1e-12)


def test_held_statistics_replace_the_batch_and_leave_state_alone() -> None:
    model, batch = nn.BatchNorm2d(3).train(), images()
    rng = np.random.default_rng(0)
    mean, var = rng.normal(size=3), rng.uniform(0.5, 2, size=3)
    before = copy.deepcopy(model.state_dict())
    results: list[torch.Tensor] = []
    model.register_forward_hook(lambda module, args, result: results.append(result))
    call = only(recorded(model, batch, watch=Watch.ROWS, hold=(Held(index=0, mean=mean, var=var),)).norm_calls)
    expected = (batch.double().numpy() - mean[:, None, None]) / np.sqrt(var + 1e-5)[:, None, None]
    np.testing.assert_allclose(results[0].numpy(), expected, rtol=1e-4, atol=1e-5)
    assert torch.equal(model.running_mean, before["running_mean"])
    np.testing.assert_allclose(call.batch_mean, batch.double().mean((0, 2, 3)).numpy(), rtol=1e-5)


def test_one_layer_that_runs_twice_is_two_calls() -> None:
    norm = nn.BatchNorm2d(3)
    calls = recorded(nn.Sequential(norm, nn.ReLU(), norm), images()).norm_calls
    assert [(call.index, call.layer) for call in calls] == [(0, "0"), (1, "0")]
    assert not np.array_equal(calls[0].stored_mean, calls[1].stored_mean)


def test_autocast_is_seen_in_the_compute_dtype() -> None:
    model = Around(nn.BatchNorm2d(8)).eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        recorder = recorded(model, images(), watch=Watch.ROWS)
    assert recorder.compute_dtype == "bfloat16"
    assert only(recorder.norm_calls).layer == "norm"


def test_quantized_batch_norm_is_seen() -> None:
    class Quantized(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            ones = torch.ones(3)
            q = torch.quantize_per_tensor(x, 0.1, 0, torch.quint8)
            return torch.ops.quantized.batch_norm2d(q, ones, ones, ones, ones * 2, 1e-5, 0.1, 0).dequantize()

    for watch in (Watch.CALLS, Watch.MOMENTS, Watch.ROWS):
        call = only(recorded(Quantized(), images().clamp(0, 5), watch=watch).norm_calls)
        assert (call.kind, call.uses_batch, call.channels) == (NormKind.BATCH, False, 3)
        np.testing.assert_array_equal(call.stored_var, np.full(3, 2.0))
