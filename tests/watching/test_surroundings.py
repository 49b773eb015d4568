"""What stands around a model or happens to it while it is watched; and that nothing remains of the watch."""

from __future__ import annotations

import copy
import io
import logging
import pickle
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module as hooks
from torch.optim import optimizer as optimizers
from torch.utils.checkpoint import checkpoint
from watching.loops import BatchInEval, batch, net, train

import bnaudit
from bnaudit.errors import UsageError, ViolatedInvariantError


def process_state() -> tuple[Any, ...]:
    """All that a watch touches in the process."""
    return (
        dict(hooks._global_forward_hooks),
        dict(hooks._global_forward_pre_hooks),
        dict(hooks._global_forward_hooks_always_called),
        dict(optimizers._global_optimizer_post_hooks),
        list(warnings.filters),
        torch.get_rng_state().tolist(),
        logging.getLogger("bnaudit").handlers,
    )


@contextmanager
def leaves_nothing() -> Iterator[None]:
    before = process_state()
    yield
    assert process_state() == before


def violations(model: nn.Module, act: Any, **options: Any) -> dict[str, tuple[str, ...]]:
    found: list[Any] = []
    watching = bnaudit.watch(model, on_violation=found.append, **options)
    with leaves_nothing(), watching as guard, torch.random.fork_rng():
        act()
    assert guard.forwards, "no forward was seen"
    return {violation.invariant.value: violation.layers for violation in found}


def pickled(model: nn.Module) -> bytes:
    buffer = io.BytesIO()
    torch.save(model, buffer)
    return buffer.getvalue()


def frozen(model: nn.Module, layer: str) -> nn.Module:
    model.get_submodule(layer).requires_grad_(False)
    return model


# nothing remains


def test_the_model_is_trained_bit_for_bit_as_without() -> None:
    plain, watched = net(), net()
    train(plain, 10)
    with leaves_nothing(), bnaudit.watch(watched):
        train(watched, 10)
    assert all(torch.equal(value, watched.state_dict()[key]) for key, value in plain.state_dict().items())
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(plain.parameters(), watched.parameters(), strict=True))
    for module, other in zip(plain.modules(), watched.modules(), strict=True):
        assert module.__dict__.keys() == other.__dict__.keys()
        assert not other._forward_hooks and not other._forward_pre_hooks


def test_copies_and_files_made_inside_are_those_of_an_unwatched_model() -> None:
    model = net()
    outside = pickled(model)
    with bnaudit.watch(model):
        assert pickled(model) == outside
        copied = copy.deepcopy(model)
        sent = pickle.loads(pickle.dumps(model))
        average = torch.optim.swa_utils.AveragedModel(model)
        train(copied, 2)
        train(sent, 2)
    assert pickled(net()) == outside
    for other in (copied, sent, average):
        assert not any(module._forward_hooks or module._forward_pre_hooks for module in other.modules())


def test_a_copy_of_the_model_is_not_watched() -> None:
    model = net()
    with bnaudit.watch(model) as guard:
        copied = frozen(copy.deepcopy(model), "1")
        train(copied)
        assert guard.forwards == 0
        model(batch())


@pytest.mark.parametrize("error", [ValueError("the user's"), KeyboardInterrupt()])
def test_an_exception_inside_passes_and_nothing_remains(error: BaseException) -> None:
    model = net()
    with leaves_nothing(), pytest.raises(type(error)) as caught, bnaudit.watch(model):
        model(batch())
        raise error
    assert caught.value is error


def test_a_violation_leaves_nothing() -> None:
    with leaves_nothing(), pytest.raises(ViolatedInvariantError), bnaudit.watch(net()) as guard:
        guard.model(torch.full((4, 3), torch.nan))


def test_a_forward_that_raises_is_not_judged_and_the_next_one_is() -> None:
    class Sometimes(nn.Module):
        """Breaks off between its norms."""

        def __init__(self) -> None:
            super().__init__()
            self.norm = BatchInEval(3)

        def forward(self, x: torch.Tensor, stop: bool) -> torch.Tensor:
            x = self.norm(x)
            if stop:
                raise RuntimeError("out of memory")
            return x

    model = Sometimes().eval()
    found: list[Any] = []
    with leaves_nothing(), warnings.catch_warnings(), bnaudit.watch(model, on_violation=found.append):
        warnings.simplefilter("error")
        with pytest.raises(RuntimeError, match="out of memory"):
            model(batch(), True)
        assert not found
        try:
            raise RuntimeError("out of memory")
        except RuntimeError:
            model(batch(), False)  # the retry stands in the handler
        assert len(found) == 1


# other watches


def test_it_can_be_used_again_and_begins_anew() -> None:
    model = frozen(net(), "1")
    found: list[Any] = []
    guard = bnaudit.watch(model, on_violation=found.append)
    for _ in range(2):
        with leaves_nothing(), guard:
            train(model)
        assert len(guard.violations) == 1
        assert guard.forwards == 3
    assert len(found) == 2


def test_it_cannot_be_entered_twice_at_once() -> None:
    guard = bnaudit.watch(net())
    with guard:
        guard.model(batch())
        with pytest.raises(UsageError, match="active"):
            guard.__enter__()


def test_two_watches_see_the_same_and_leave_in_any_order() -> None:
    model = frozen(net(), "1")
    outer, inner = (bnaudit.watch(model, on_violation=lambda violation: None) for _ in range(2))
    with leaves_nothing():
        outer.__enter__()
        inner.__enter__()
        train(model, 1)
        outer.__exit__(None, None, None)
        train(model, 1)
        inner.__exit__(None, None, None)
    assert outer.violations == inner.violations
    assert (outer.forwards, inner.forwards) == (1, 2)


def test_watches_of_a_model_and_of_its_part() -> None:
    model = nn.Sequential(net(), nn.Linear(2, 2))
    frozen(model, "0.1")
    part, whole = (bnaudit.watch(each, on_violation=lambda violation: None) for each in (model[0], model))
    with part, whole:
        train(model)
    assert [violation.layers for violation in part.violations] == [("1",)]
    assert [violation.layers for violation in whole.violations] == [("0.1",)]


# what nothing is seen of


def test_a_model_without_norms_is_said(caplog: pytest.LogCaptureFixture) -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2), nn.BatchNorm1d(2, track_running_stats=False))
    with bnaudit.watch(model):
        train(model)
    assert [record.getMessage() for record in caplog.records] == [
        "nothing to watch: Sequential has no layer with running statistics"
    ]


def test_a_model_that_never_ran_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with bnaudit.watch(net()):
        train(net())
    assert [record.getMessage() for record in caplog.records] == [
        "no forward of Sequential was seen and none of its statistics moved: watch the model that the loop calls"
    ]


# wrappers


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("first", ["compiled", "watched"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_model(backend: str, first: str) -> None:
    torch._dynamo.reset()
    model = frozen(net(), "4")
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    if first == "compiled":
        compiled(batch())
    assert violations(compiled, lambda: train(compiled)) == {"frozen": ("_orig_mod.4",)}
    assert violations(model, lambda: train(compiled)) == {"frozen": ("4",)}
    assert violations(compiled, lambda: train(compiled), intended="frozen=4") == {}
    compiled(batch())


def test_a_model_that_is_compiled_in_place() -> None:
    class Held(nn.Module):
        """`module.compile()` goes past PyTorch's hooks."""

        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x)

    torch._dynamo.reset()
    model = Held()
    model.compile(backend="eager")
    assert violations(model, lambda: train(model)) == {}
    frozen(model, "net.1")
    found = violations(model, lambda: (train(model, 3), train(model, 2)))
    assert found == {"frozen": ("net.1",)}
    model.net[0].weight.data.fill_(torch.nan)
    assert set(violations(model, lambda: train(model), intended="frozen")) == {"finite"}


def compiled_loss(model: nn.Module) -> Any:
    """The model is called in compiled code only, which no hook sees."""
    torch._dynamo.reset()
    return torch.compile(lambda inputs: model(inputs).square().mean(), backend="eager")


def descend(model: nn.Module, loss: Any, steps: int, inputs: Any = batch) -> None:
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01)
    for step in range(steps):
        optimizer.zero_grad()
        loss(inputs(step)).backward()
        optimizer.step()


def test_a_function_that_is_compiled_around_the_model() -> None:
    model = net()
    loss = compiled_loss(model)

    def alternating() -> None:
        for _ in range(2):
            descend(model.train(), loss, 3)
            model(batch())  # seen, in between
            loss(batch())
            model.eval()
            loss(batch())

    assert violations(model, alternating) == {}
    assert violations(model.train(), lambda: descend(model, loss, 2, lambda step: batch() * torch.nan)) == {
        "finite": ("1", "4")
    }
    frozen(model := net(), "1")
    loss = compiled_loss(model)
    found: list[Any] = []
    with bnaudit.watch(model, on_violation=found.append) as guard:
        descend(model, loss, 1)
        assert [violation.layers for violation in found] == [("1",)]
        assert found[0].forward == 1
        descend(model, loss, 2)
    assert guard.forwards == 3
    with leaves_nothing(), pytest.raises(ViolatedInvariantError, match="frozen"), bnaudit.watch(model):
        loss(batch())  # no step follows: found on leaving


def test_unseen_calls_of_frozen_norms_in_eval_mode_may_be_loaded_and_averaged() -> None:
    model = nn.ModuleDict({"student": net(), "teacher": net().requires_grad_(False).eval()})
    torch._dynamo.reset()

    @torch.compile(backend="eager")
    def loss(inputs: torch.Tensor) -> torch.Tensor:
        return (model["student"](inputs) - model["teacher"](inputs)).square().mean()

    def act() -> None:
        for step in range(4):
            descend(model["student"], loss, 1, lambda _, step=step: batch(step))
            for own, other in zip(model["teacher"].buffers(), model["student"].buffers(), strict=True):
                own.copy_(other)

    assert violations(model, act) == {}
    frozen(model["student"], "1")
    assert violations(model, act) == {"frozen": ("student.1",)}


def test_an_average_that_is_written_between_the_steps_of_several_optimizers() -> None:
    model = nn.ModuleDict({"net": net(), "average": net().requires_grad_(False)})  # left in training mode, never run

    def act() -> None:
        optimizers = [torch.optim.SGD(model["net"].parameters(), lr=0.01) for _ in range(3)]
        for step in range(3):
            model["net"](batch(step)).mean().backward()
            for optimizer in optimizers:
                optimizer.step()
            for own, other in zip(model["average"].buffers(), model["net"].buffers(), strict=True):
                own.copy_(other)

    assert violations(model, act) == {}


def test_the_steps_of_another_model_say_nothing(caplog: pytest.LogCaptureFixture) -> None:
    model, other = net(), net()
    with bnaudit.watch(model) as guard:
        train(other, 3)
        train(model, 2)
        train(other, 3)
    assert guard.forwards == 2
    assert not caplog.records


def test_models_that_two_threads_train_at_once() -> None:
    halfway, stepped = threading.Event(), threading.Event()

    class Waits(nn.Module):
        """Another thread steps while it runs."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            halfway.set()
            assert stepped.wait(30)
            return x

    model = frozen(net(), "1")
    model[2] = Waits()

    def train_the_other() -> None:
        assert halfway.wait(30)
        train(net(), 1)
        stepped.set()

    thread = threading.Thread(target=train_the_other)
    found: list[Any] = []
    with leaves_nothing(), bnaudit.watch(model, on_violation=found.append) as guard:
        thread.start()
        model(batch())
        thread.join()
        assert [violation.layers for violation in found] == [("1",)]
    assert guard.forwards == 1


def test_data_parallel() -> None:
    model = frozen(net(), "1")
    wrapped = nn.DataParallel(model)
    assert violations(wrapped, lambda: train(wrapped)) == {"frozen": ("module.1",)}
    assert violations(model, lambda: train(wrapped)) == {"frozen": ("1",)}


def test_distributed_data_parallel(tmp_path: Path) -> None:
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("this PyTorch has no gloo")
    rendezvous = (tmp_path / "store").as_uri()
    torch.distributed.init_process_group("gloo", init_method=rendezvous, rank=0, world_size=1)
    try:
        model = net()
        wrapped = nn.parallel.DistributedDataParallel(model)
        assert violations(wrapped, lambda: train(wrapped)) == {}
        assert violations(model, lambda: (wrapped.eval()(batch()), train(wrapped.train()))) == {}
        wrapped = nn.parallel.DistributedDataParallel(frozen(net(), "1"))
        assert violations(wrapped, lambda: train(wrapped)) == {"frozen": ("module.1",)}
    finally:
        torch.distributed.destroy_process_group()


def test_synchronized_batch_norm() -> None:
    model = nn.SyncBatchNorm.convert_sync_batchnorm(frozen(net(), "1"))
    assert violations(model.eval(), lambda: model(batch())) == {}
    assert violations(model.train(), lambda: train(model)) == {"frozen": ("1",)}


def test_lazy_batch_norm() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.LazyBatchNorm1d(), nn.LazyLinear(2))

    def act() -> None:
        model(batch())
        frozen(model, "1")
        train(model)

    assert violations(model, act) == {}  # it has trained in this watch
    assert violations(model, lambda: train(model)) == {"frozen": ("1",)}


# how training loops run


def test_mixed_precision_and_accumulation() -> None:
    model = net()

    def act() -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step in range(8):
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(batch(step)).square().mean()
            loss.backward()
            if step % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()

    assert violations(model, act) == {}


def test_activation_checkpointing() -> None:
    class Checkpointed(nn.Module):
        """Its block runs once more in every backward pass."""

        def __init__(self) -> None:
            super().__init__()
            self.block, self.head = net(), nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(checkpoint(self.block, x, use_reentrant=False))

    model = Checkpointed()
    assert violations(model, lambda: train(model, 30)) == {}
    frozen(model, "block.4")
    assert violations(model, lambda: train(model, 3)) == {"frozen": ("block.4",)}


def test_modules_that_are_called_one_by_one() -> None:
    model = nn.ModuleDict({"encoder": net(), "decoder": nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))})
    frozen(model, "decoder.1")

    def act() -> None:
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01)
        for step in range(3):
            model["decoder"](model["encoder"](batch(step))).mean().backward()
            optimizer.step()

    assert violations(model, act) == {"frozen": ("decoder.1",)}


def test_a_loop_of_evaluation_settles_when_a_module_runs_again() -> None:
    model = nn.ModuleDict({"encoder": net(), "norm": BatchInEval(2)}).eval()
    found: list[Any] = []
    with bnaudit.watch(model, on_violation=found.append), torch.inference_mode():
        model["norm"](model["encoder"](batch()))
        model["norm"](model["encoder"](batch()))
        assert [violation.layers for violation in found] == [("norm",)]
        model.train()


def test_validation_in_inference_mode_between_steps() -> None:
    model = net()

    def act() -> None:
        for _ in range(3):
            train(model.train())
            with torch.inference_mode():
                model.eval()(batch())

    assert violations(model, act) == {}


def test_a_norm_that_is_added_inside_is_watched_from_its_second_forward() -> None:
    model = net()

    def act() -> None:
        train(model)
        model[2] = nn.Sequential(nn.ReLU(), BatchInEval(4))
        model.eval()
        model(batch())
        model(batch())

    assert violations(model, act) == {"eval": ("2.1",)}


def test_norms_that_nothing_registers_are_left_alone() -> None:
    class Makes(nn.Module):
        """One in each forward, one in a list."""

        def __init__(self) -> None:
            super().__init__()
            self.norm, self.hidden = nn.BatchNorm1d(3), [nn.BatchNorm1d(3)]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.BatchNorm1d(3)(self.hidden[0](self.norm(x)))

    model = Makes().eval()
    assert violations(model, lambda: [model(batch()) for _ in range(5)]) == {}


def test_tracing_exporting_and_functional_calls_inside() -> None:
    model = net().eval()
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    stacked = {key: torch.stack([value, value]) for key, value in state.items()}

    def act() -> None:
        traced = torch.jit.trace(model, batch())
        assert "cat" not in str(traced.inlined_graph)
        torch.export.export(model, (batch(),))
        torch.func.functional_call(model, state, (batch(),))
        inputs = batch()
        torch.func.vmap(lambda one: torch.func.functional_call(model, one, (inputs,)))(stacked)
        with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
            model(torch.empty(2, 3))
        model(batch())

    assert violations(model, act) == {}


def test_a_model_on_the_meta_device() -> None:
    with torch.device("meta"):
        model = net()
    assert violations(model, lambda: model(torch.empty(4, 3, device="meta"))) == {}


def test_a_scripted_model() -> None:
    model = frozen(net(), "1")
    scripted = torch.jit.script(model)
    assert violations(scripted, lambda: train(scripted)) == {"frozen": ("1",)}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_precisions(dtype: torch.dtype) -> None:
    model = nn.Sequential(nn.BatchNorm1d(3), nn.BatchNorm1d(3, dtype=dtype))
    frozen(model, "1")

    def act() -> None:
        model[1](model[0](batch()).to(dtype))

    assert violations(model, act) == {"frozen": ("1",)}


def test_a_layer_that_is_held_twice_is_told_once() -> None:
    norm = nn.BatchNorm1d(3)
    model = nn.Sequential(norm, nn.Linear(3, 3), norm)
    norm.requires_grad_(False)
    assert violations(model, lambda: train(model)) == {"frozen": ("0",)}


def test_inputs_and_outputs_are_never_looked_at() -> None:
    class Untouchable:
        """Breaks when anything asks it for anything but its class."""

        def __getattribute__(self, name: str) -> Any:
            if name == "__class__":
                return Untouchable
            raise AssertionError(f"{name} was asked for")

    class Opaque(nn.Module):
        """Takes and gives what nobody may look at."""

        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(3)

        def forward(self, x: Untouchable) -> Untouchable:
            self.norm(batch())
            return x

    model = Opaque()
    assert violations(model, lambda: model(Untouchable())) == {}
