"""Forwards of a live module: modes, what is returned, what is recorded, what is said of errors."""

from __future__ import annotations

import gc
import random
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_session.snapshots import snapshot

from bnaudit.run_options import RunOptions
from bnaudit.session import Batch, Mode, NotPossibleError, RunError, Session, Watch
from bnaudit.torch_session.opening import opened
from sample_models import digits


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def images(size: int = 4, seed: int = 0) -> Batch:
    values = np.random.default_rng(seed).random((size, 1, 8, 8), dtype=np.float32)
    return Batch(args=(values,), size=size, anchors=tuple(sorted({0, size // 2, size - 1})))


def vectors(size: int = 4, width: int = 4) -> Batch:
    values = np.random.default_rng(0).standard_normal((size, width)).astype(np.float32)
    return Batch(args=(values,), size=size, anchors=(0, size - 1))


def session_of(model: object, **options: Any) -> Any:
    return opened(None, None, RunOptions(model=model, **options))


def values(session: Session, batch: Batch, *args: Any, **kwargs: Any) -> np.ndarray[Any, Any]:
    return session.run(batch, *args, **kwargs).outputs[0].values


class TestModes:
    def test_inference_is_what_eval_gives(self) -> None:
        net, batch = digits.build(), images()
        net(torch.rand(8, 1, 8, 8))
        with session_of(net) as session:
            got = values(session, batch)
        with torch.no_grad():
            assert np.array_equal(got, net.eval()(torch.from_numpy(batch.args[0])).numpy())

    def test_training_norms_use_the_batch_and_nothing_else_trains(self) -> None:
        net, batch = digits.build(), images()
        with session_of(net) as session:
            got = values(session, batch, Mode.TRAINING_NORMS)
        net.train()
        net.dropout.eval()
        with torch.no_grad():
            assert np.array_equal(got, net(torch.from_numpy(batch.args[0])).numpy())

    def test_as_saved_is_offered_only_where_it_differs(self) -> None:
        with session_of(digits.build()) as session:
            assert Mode.AS_SAVED in session.modes
        with session_of(digits.build().eval()) as session:
            assert Mode.AS_SAVED not in session.modes
        with session_of(nn.Linear(4, 2)) as session, pytest.raises(NotPossibleError, match="as saved"):
            session.run(vectors(), Mode.AS_SAVED)

    def test_as_saved_runs_with_the_flags_it_came_with(self) -> None:
        net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.BatchNorm1d(3)).eval()
        net[2].train()
        batch = vectors()
        with session_of(net) as session:
            got = values(session, batch, Mode.AS_SAVED)
        with torch.no_grad():
            assert np.array_equal(got, net(torch.from_numpy(batch.args[0])).numpy())

    def test_a_factory_is_judged_after_eval_unless_as_is(self) -> None:
        def build() -> nn.Module:
            torch.manual_seed(0)
            return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))

        x = torch.from_numpy(vectors().args[0])
        with session_of(build) as session:
            assert session.modes == {Mode.INFERENCE, Mode.TRAINING_NORMS}
            assert [layer.training for layer in session.part.layers] == [False]
            with torch.no_grad():
                assert np.array_equal(values(session, vectors()), build().eval()(x).numpy())
        with session_of(build, as_is=True) as session:
            assert Mode.AS_SAVED not in session.modes
            assert [layer.training for layer in session.part.layers] == [True]
            with torch.no_grad():
                assert np.array_equal(values(session, vectors()), build()(x).numpy())

    def test_an_overridden_train_is_respected(self) -> None:
        class FrozenBackbone(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.backbone = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
                self.head = nn.BatchNorm1d(3)

            def train(self, mode: bool = True) -> FrozenBackbone:
                super().train(mode)
                self.backbone.eval()
                return self

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.head(self.backbone(x))

        with session_of(FrozenBackbone()) as session:
            calls = session.run(vectors(), Mode.TRAINING_NORMS).norm_calls
            part = session.trained()
        assert [call.uses_batch for call in calls] == [False, True]
        assert part is not None
        assert {layer.name: layer.training for layer in part.layers} == {"backbone.1": False, "head": True}

    def test_a_forward_that_looks_at_self_training_acts_as_in_eval(self) -> None:
        class Skipping(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.norm = nn.BatchNorm1d(4)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                x = F.dropout(self.norm(x), 0.5, self.training)
                return x * 0 if self.training else x

        with session_of(Skipping()) as session:
            assert values(session, vectors(), Mode.TRAINING_NORMS).any()
            assert session.run(vectors(), Mode.TRAINING_NORMS).random_calls == ()


class TestState:
    def test_a_plain_eval_forward_changes_nothing(self) -> None:
        with session_of(digits.build()) as session:
            assert session.run(images()).changes == ()

    def test_what_training_changes_is_named(self) -> None:
        with session_of(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))) as session:
            changes = session.run(vectors(), Mode.TRAINING_NORMS).changes
        assert {(change.name, change.kind, change.persistent, change.owner) for change in changes} == {
            (f"1.{name}", "buffer", True, "BatchNorm1d")
            for name in ("running_mean", "running_var", "num_batches_tracked")
        }

    def test_digests_tell_caches_from_statistics(self) -> None:
        class Caching(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.norm = nn.BatchNorm1d(4)
                self.table: torch.Tensor | None = None

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                if self.table is None:
                    self.table = torch.arange(x.shape[1]) / 7
                return self.norm(x) + self.table

        other = Batch(args=(np.ones((4, 4), np.float32) * np.arange(4, dtype=np.float32),), size=4, anchors=(0, 3))
        with session_of(Caching()) as session:
            one, two = (session.run(batch, Mode.TRAINING_NORMS).changes for batch in (vectors(), other))
        first, second = ({change.name: change.digest for change in changes} for changes in (one, two))
        assert first["table"] == second["table"]
        assert first["norm.num_batches_tracked"] == second["norm.num_batches_tracked"]
        assert first["norm.running_mean"] != second["norm.running_mean"]

    def test_a_forward_in_a_row_goes_on_from_where_the_last_one_left(self) -> None:
        class Counting(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("seen", torch.zeros(1))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.seen += 1
                return x * 0 + self.seen

        with session_of(Counting()) as session:
            assert values(session, vectors()).max() == 1
            assert values(session, vectors(), restored=False).max() == 2
            assert values(session, vectors(), restored=False).max() == 3
            assert values(session, vectors()).max() == 1

    def test_hidden_and_private_buffers_are_not_persistent(self) -> None:
        class Hiding(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("private", torch.zeros(1), persistent=False)
                self.norms = [nn.BatchNorm1d(4)]

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.private += 1
                return self.norms[0](x)

        with session_of(Hiding()) as session:
            changes = session.run(vectors()).changes
        assert {change.name: change.persistent for change in changes} == {
            "private": False,
            "norms[0].running_mean": False,
            "norms[0].running_var": False,
            "norms[0].num_batches_tracked": False,
        }

    def test_without_memory_for_a_copy_a_changed_parameter_is_seen_and_said(self, monkeypatch: Any) -> None:
        class Overwriting(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.linear = nn.Linear(300, 300)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.linear.weight.data[7, 11] += 1
                return self.linear(x)

        monkeypatch.setattr("bnaudit.torch_session.session.available_bytes", lambda: 1000)
        with pytest.raises(NotPossibleError, match=r"linear\.weight"), session_of(Overwriting) as session:
            changes = session.run(vectors(width=300)).changes
            assert [(change.name, change.kind) for change in changes] == [("linear.weight", "parameter")]
            session.run(vectors(width=300))


class TestNumbers:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
    def test_inputs_follow_the_models_dtype(self, dtype: torch.dtype) -> None:
        net = digits.build().to(dtype).eval()
        with session_of(net) as session:
            trace = session.run(images())
        assert trace.outputs[0].dtype == trace.compute_dtype == str(dtype).removeprefix("torch.")

    def test_seeds_decide_all_generators(self) -> None:
        class Noisy(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x + torch.rand(1) + random.random() + float(np.random.rand())

        with session_of(Noisy()) as session:
            one, two, other = (values(session, vectors(), seed=seed) for seed in (3, 3, 4))
            free = [values(session, vectors()) for _ in range(2)]
        assert np.array_equal(one, two)
        assert not np.array_equal(one, other)
        assert not np.array_equal(*free)

    def test_float64_agrees_with_the_model_in_float64(self) -> None:
        net = digits.build().eval()
        with session_of(net) as session, session.double() as double:
            got = values(double, images())
        expected = net.double()(torch.from_numpy(images().args[0]).double()).detach().numpy()
        assert np.array_equal(got, expected)

    def test_float64_where_forward_makes_tensors_and_modules_hide(self) -> None:
        class Making(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.hidden = [nn.Linear(4, 4)]

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.hidden[0](x) @ torch.eye(4)

        with session_of(Making()) as session, session.double() as double:
            assert double.run(vectors()).outputs[0].dtype == "float64"

    def test_what_cannot_be_copied_has_no_float64(self) -> None:
        net = nn.Linear(4, 2)
        net.generator = (i for i in range(3))  # type: ignore[assignment]
        with session_of(net) as session, pytest.raises(NotPossibleError, match="float64"), session.double():
            pass

    def test_influence_is_zero_without_a_leak_and_not_with_one(self) -> None:
        class Centering(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.linear = nn.Linear(4, 2)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.softmax(self.linear(x - x.mean(0)), 1)

        with session_of(nn.Linear(4, 2)) as session:
            assert session.influence(vectors()) == 0.0
        with session_of(Centering()) as session:
            assert session.influence(vectors()) > 1e-5

    def test_influence_needs_floating_inputs(self) -> None:
        ids = Batch(args=(np.arange(8).reshape(4, 2),), size=4, anchors=(0, 3))
        with session_of(nn.Embedding(8, 3)) as session, pytest.raises(NotPossibleError, match="floating inputs"):
            session.influence(ids)


class TestErrors:
    def test_one_sentence_with_class_module_and_line(self) -> None:
        class Failing(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                raise ValueError("three channels, please\nsecond line")

        with session_of(nn.Sequential(nn.Linear(4, 4), Failing())) as session, pytest.raises(RunError) as raised:
            session.run(vectors())
        said = str(raised.value)
        assert "ValueError: three channels, please" in said and "second line" not in said
        assert "in 1" in said and "test_session.py:" in said

    def test_a_wrong_shape_is_the_models_error(self) -> None:
        with session_of(digits.build()) as session, pytest.raises(RunError, match="RuntimeError"):
            session.run(vectors())

    def test_after_an_error_the_session_goes_on(self) -> None:
        with session_of(digits.build()) as session:
            before = values(session, images())
            with pytest.raises(RunError):
                session.run(vectors(), Mode.TRAINING_NORMS)
            assert np.array_equal(values(session, images()), before)


class TestWrappers:
    def test_data_parallel(self) -> None:
        net = digits.build().eval()
        with session_of(nn.DataParallel(net)) as session:
            assert session.part.wrappers == ("DataParallel",)
            trace = session.run(images())
        assert np.array_equal(trace.outputs[0].values, net(torch.from_numpy(images().args[0])).detach().numpy())
        assert trace.norm_calls[0].layer == "module.bn1"

    def test_sync_batch_norm_in_one_process(self) -> None:
        net = nn.SyncBatchNorm.convert_sync_batchnorm(digits.build())
        with session_of(net) as session:
            assert [call.uses_batch for call in session.run(images(), Mode.TRAINING_NORMS).norm_calls] == [True] * 6

    def test_a_compiled_module_runs_compiled_without_instruments(self) -> None:
        ran: list[str] = []

        def backend(graph: Any, inputs: Any) -> Any:
            def run(*args: Any) -> Any:
                ran.append("compiled")
                return graph.forward(*args)

            return run

        net = torch.compile(digits.build().eval(), backend=backend)
        before = snapshot(net._orig_mod)
        with session_of(net) as session:
            assert session.has_production_form
            watched = session.run(images())
            assert ran == []
            assert len(watched.norm_calls) == 6
            assert np.array_equal(values(session, images(), watch=Watch.NOTHING), watched.outputs[0].values)
            assert ran == ["compiled"]
            assert {call.uses_batch for call in session.run(images(), Mode.TRAINING_NORMS).norm_calls} == {True}
        assert snapshot(net._orig_mod) == before

    def test_a_plain_module_has_no_other_form(self) -> None:
        with session_of(digits.build()) as session:
            assert not session.has_production_form
            assert session.runner.startswith("PyTorch 2.")


def test_no_garbage_is_collected_inside_a_forward_and_what_the_user_set_is_kept() -> None:
    class Asking(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(gc.isenabled())
            return x

    seen: list[bool] = []
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        try:
            with opened(None, None, RunOptions(model=Asking())) as session:
                session.run(Batch(args=(np.zeros((2, 3), "float32"),), size=2, anchors=(0,)))
            assert gc.isenabled() is enabled
        finally:
            gc.enable()
    assert seen == [False, False]
