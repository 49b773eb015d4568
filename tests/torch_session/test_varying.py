"""A live model with something changed, against the same change made by hand in plain PyTorch."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_nets import FrozenBatchNorm2d, resnet
from torch import nn
from torch_session.snapshots import snapshot, surroundings

from bnaudit.run_options import RunOptions
from bnaudit.session import Batch, Mode, NotPossibleError, RunError, Session, Watch
from bnaudit.torch_session.opening import opened
from bnaudit.variation import Altered, Variation

Change = Callable[[Any], object]


def images(size: int = 4, seed: int = 0) -> Batch:
    values = np.random.default_rng(seed).standard_normal((size, 3, 8, 8)).astype(np.float32)
    return Batch(args=(values,), size=size, anchors=(0, size - 1))


def session_of(net: nn.Module) -> Any:
    return opened(None, None, RunOptions(model=net))


def expected(net: nn.Module, batch: Batch, change: Change, seed: int | None = None) -> np.ndarray[Any, Any]:
    """What plain PyTorch returns after the change."""
    changed = copy.deepcopy(net).eval()
    with torch.no_grad():
        change(changed)
        if seed is not None:
            torch.manual_seed(seed)
        answer: np.ndarray[Any, Any] = changed(torch.from_numpy(batch.args[0])).numpy()
    return answer


def values(session: Session, batch: Batch, **kwargs: Any) -> np.ndarray[Any, Any]:
    return session.run(batch, **kwargs).outputs[0].values


def refused(session: Session, variation: Variation, said: str) -> None:
    with pytest.raises(NotPossibleError, match=said), session.varied(variation):
        pass


NAME = "layer1.0.bn2"
NEW = np.linspace(0.25, 2.0, 8)


def norm(net: Any) -> Any:
    return net.get_submodule(NAME)


CHANGES: dict[str, tuple[Altered, Change]] = {
    "training": (Altered(training=True), lambda net: norm(net).train()),
    "mean": (Altered(mean=NEW), lambda net: norm(net).running_mean.copy_(torch.from_numpy(NEW))),
    "var": (Altered(var=NEW), lambda net: norm(net).running_var.copy_(torch.from_numpy(NEW))),
    "gamma": (Altered(gamma=NEW), lambda net: norm(net).weight.copy_(torch.from_numpy(NEW))),
    "beta": (Altered(beta=NEW), lambda net: norm(net).bias.copy_(torch.from_numpy(NEW))),
    "eps": (Altered(eps=1e-1), lambda net: setattr(norm(net), "eps", 1e-1)),
}


class TestOneLayer:
    @pytest.mark.parametrize("watch", [Watch.NOTHING, Watch.CALLS])
    @pytest.mark.parametrize("what", CHANGES)
    def test_is_bit_for_bit_what_the_same_change_by_hand_gives(self, what: str, watch: Watch) -> None:
        altered, by_hand = CHANGES[what]
        net, batch = resnet(), images()
        before, around = snapshot(net), surroundings()
        with session_of(net) as session:
            as_it_is = values(session, batch)
            with session.varied(Variation(layers={NAME: altered})) as varied:
                got = values(varied, batch, watch=watch)
                again = values(varied, batch, watch=watch)
            assert np.array_equal(values(session, batch), as_it_is)
        assert np.array_equal(got, expected(net, batch, by_hand))
        assert np.array_equal(got, again)
        assert not np.array_equal(got, as_it_is)
        assert snapshot(net) == before
        assert surroundings() == around

    def test_only_the_named_layer_uses_the_batch(self) -> None:
        with (
            session_of(resnet()) as session,
            session.varied(Variation(layers={NAME: Altered(training=True)})) as varied,
        ):
            trace = varied.run(images())
        assert [call.layer for call in trace.norm_calls if call.uses_batch] == [NAME]
        assert {change.name for change in trace.changes} == {
            f"{NAME}.{key}" for key in ("running_mean", "running_var", "num_batches_tracked")
        }

    def test_what_the_variation_writes_is_no_change_of_the_forwards(self) -> None:
        with session_of(resnet()) as session, session.varied(Variation(layers={NAME: Altered(mean=NEW)})) as varied:
            assert varied.run(images()).changes == ()
            assert varied.run(images()).changes == ()

    def test_statistics_go_on_only_where_they_are_asked_to(self) -> None:
        net = resnet()
        with session_of(net) as session, session.varied(Variation(layers={NAME: Altered(training=True)})) as varied:
            varied.run(images(), restored=False)
            trace = varied.run(images(), restored=False)
            fresh = varied.run(images())
        stored = [next(c.stored_mean for c in t.norm_calls if c.layer == NAME) for t in (trace, fresh)]
        assert np.array_equal(stored[1], norm(net).running_mean.double().numpy())
        assert not np.array_equal(*stored)


def test_several_layers_at_once() -> None:
    net, batch = resnet(), images()
    layers = {"bn1": Altered(eps=0.0, gamma=np.ones(8)), NAME: Altered(training=True, beta=NEW)}

    def by_hand(net: Any) -> None:
        net.bn1.eps = 0.0
        net.bn1.weight.fill_(1.0)
        norm(net).train()
        norm(net).bias.copy_(torch.from_numpy(NEW))

    with session_of(net) as session, session.varied(Variation(layers=layers)) as varied:
        assert np.array_equal(values(varied, batch), expected(net, batch, by_hand))


def test_wrapped_models_keep_the_names_of_their_part() -> None:
    net, batch = resnet(), images()
    wrapped = nn.DataParallel(net)
    with session_of(wrapped) as session:
        name = next(layer.name for layer in session.part.layers if layer.name.endswith(NAME))
        with session.varied(Variation(layers={name: Altered(training=True)})) as varied:
            got = values(varied, batch, watch=Watch.NOTHING)
    assert np.array_equal(got, expected(net, batch, lambda net: norm(net).train()))


@cache
def program() -> Any:
    """Of the residual net."""
    return torch.export.export(resnet().eval(), (torch.from_numpy(images().args[0]),))


@cache
def decomposed() -> Any:
    return program().run_decompositions()


CODED = {
    "script": lambda net: torch.jit.script(net),
    "trace": lambda net: torch.jit.trace(net, torch.from_numpy(images().args[0])),
    "program": lambda net: program(),
    "decomposed program": lambda net: decomposed(),
}


class TestModelsWithCode:
    @pytest.mark.parametrize("kind", CODED)
    @pytest.mark.parametrize("what", ["training", "gamma", "eps"])
    def test_a_change_is_what_the_module_computes_with_it(self, kind: str, what: str) -> None:
        altered, by_hand = CHANGES[what]
        net, batch = resnet().eval(), images()
        if kind == "script" and what == "eps":
            pytest.skip("its code is one with that of other norms")
        with session_of(CODED[kind](net)) as session:
            as_it_is = values(session, batch)
            with session.varied(Variation(layers={NAME: altered})) as varied:
                got = values(varied, batch, watch=Watch.NOTHING)
                watched = varied.run(batch)
            assert np.array_equal(values(session, batch), as_it_is)
        assert np.allclose(got, expected(net, batch, by_hand), rtol=1e-4, atol=1e-5)
        assert np.allclose(watched.outputs[0].values, got, rtol=1e-5, atol=1e-6)
        assert not np.allclose(got, as_it_is, rtol=1e-4, atol=1e-5)
        assert [call.layer for call in watched.norm_calls if call.uses_batch] == [NAME] * altered.training

    @pytest.mark.parametrize("kind", CODED)
    def test_code_and_vectors_at_once(self, kind: str) -> None:
        net, batch = resnet().eval(), images()
        every = [name for name, module in net.named_modules() if isinstance(module, nn.BatchNorm2d)]
        layers = {name: Altered(eps=0.1) for name in every}
        layers |= {NAME: Altered(training=True, gamma=NEW, eps=0.1), "bn1": Altered(mean=NEW, eps=0.1)}

        def by_hand(net: Any) -> None:
            norm(net).train()
            for name in every:
                net.get_submodule(name).eps = 0.1
            norm(net).weight.copy_(torch.from_numpy(NEW))
            net.bn1.running_mean.copy_(torch.from_numpy(NEW))

        model = CODED[kind](net)
        with session_of(model) as session:
            as_it_is = values(session, batch)
            with session.varied(Variation(layers=layers)) as varied:
                assert np.allclose(values(varied, batch), expected(net, batch, by_hand), rtol=1e-4, atol=1e-5)
            assert np.array_equal(values(session, batch), as_it_is)
        with session_of(model) as session:
            assert np.array_equal(values(session, batch), as_it_is)

    @pytest.mark.parametrize("kind", CODED)
    def test_half_precision(self, kind: str) -> None:
        net, batch = resnet().eval(), images()
        with session_of(net) as session, session.varied(Variation(dtype="float16")) as varied:
            of_the_module = values(varied, batch)
        with session_of(CODED[kind](net)) as session, session.varied(Variation(dtype="float16")) as varied:
            assert np.allclose(values(varied, batch), of_the_module, atol=4e-3 * np.abs(of_the_module).max())

    def test_a_script_whose_norms_share_their_code_changes_no_single_epsilon(self) -> None:
        with session_of(torch.jit.script(resnet().eval())) as session:
            refused(session, Variation(layers={NAME: Altered(eps=0.1)}), "shares its code")

    @pytest.mark.parametrize("kind", ["trace", "program"])
    def test_what_is_not_there_is_refused(self, kind: str) -> None:
        with session_of(CODED[kind](resnet().eval())) as session:
            refused(session, Variation(layers={"nowhere": Altered(eps=0.1)}), "no norm layer nowhere")
            refused(session, Variation(drops=True), "fixed in the model's graph")


@pytest.mark.parametrize(
    "kind", [lambda c: nn.InstanceNorm2d(c, affine=True, track_running_stats=True), nn.SyncBatchNorm]
)
def test_other_kinds_of_norms_train(kind: Callable[[int], nn.Module]) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), kind(4))
    net(torch.randn(4, 3, 8, 8)) if isinstance(net[1], nn.InstanceNorm2d) else net[1].running_mean.fill_(0.5)
    batch = images()
    before = snapshot(net)
    with session_of(net) as session, session.varied(Variation(layers={"1": Altered(training=True)})) as varied:
        got = values(varied, batch, watch=Watch.NOTHING)
    assert np.array_equal(got, expected(net, batch, lambda net: net[1].train()))
    assert snapshot(net) == before


def test_frozen_norms_hold_all_four_vectors_as_buffers() -> None:
    torch.manual_seed(0)
    net, batch = nn.Sequential(nn.Conv2d(3, 8, 3), FrozenBatchNorm2d(8)), images()
    altered = Altered(mean=NEW, var=NEW, gamma=NEW, beta=NEW, eps=0.5)

    def by_hand(net: Any) -> None:
        for tensor in net[1].buffers():
            tensor.copy_(torch.from_numpy(NEW))
        net[1].eps = 0.5

    with session_of(net) as session, session.varied(Variation(layers={"1": altered})) as varied:
        assert np.array_equal(values(varied, batch), expected(net, batch, by_hand))


class TestDrops:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm2d(3)
            self.drop = nn.Dropout(0.5)
            self.drop2d = nn.Dropout2d(0.5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.drop2d(self.drop(self.norm(x)))
            return x * 0 if self.training else x

    def test_dropout_trains_and_nothing_else(self) -> None:
        net, batch = self.Net(), images()

        def by_hand(net: Any) -> None:
            net.drop.train()
            net.drop2d.train()

        before = snapshot(net)
        with session_of(net) as session, session.varied(Variation(drops=True)) as varied:
            got, same, other = (values(varied, batch, watch=Watch.NOTHING, seed=seed) for seed in (3, 3, 4))
        assert np.array_equal(got, expected(net, batch, by_hand, seed=3))
        assert np.array_equal(got, same)
        assert not np.array_equal(got, other)
        assert snapshot(net) == before

    def test_a_model_without_dropout_says_so(self) -> None:
        with session_of(resnet()) as session:
            refused(session, Variation(drops=True), "no dropout")


class TestHalf:
    @pytest.mark.parametrize("name", ["float16", "bfloat16"])
    def test_every_operator_is_rounded(self, name: str) -> None:
        torch.manual_seed(0)
        net, batch = (
            nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3)).eval(),
            images(),
        )
        net[1].running_mean.uniform_()
        dtype = getattr(torch, name)

        def rounded(x: torch.Tensor) -> torch.Tensor:
            return x.to(dtype).float()

        with torch.no_grad():
            half = copy.deepcopy(net)
            for tensor in (*half.parameters(), half[1].running_mean, half[1].running_var):
                tensor.copy_(rounded(tensor))
            x = rounded(torch.from_numpy(batch.args[0]))
            for module in half:
                x = rounded(module(x))
        before = snapshot(net)
        with session_of(net) as session, session.varied(Variation(dtype=name)) as varied:
            trace = varied.run(batch)
        assert np.array_equal(trace.outputs[0].values, x.numpy())
        assert trace.compute_dtype == name
        assert trace.changes == ()
        assert snapshot(net) == before

    @pytest.mark.parametrize(("name", "unit"), [("float16", 2.0**-11), ("bfloat16", 2.0**-8)])
    def test_is_near_pytorchs_own_half_precision(self, name: str, unit: float) -> None:
        net, batch = resnet(), images()
        dtype = getattr(torch, name)
        with torch.no_grad():
            native = copy.deepcopy(net).eval().to(dtype)(torch.from_numpy(batch.args[0]).to(dtype)).float().numpy()
        plain = expected(net, batch, lambda net: None)
        with session_of(net) as session, session.varied(Variation(dtype=name)) as varied:
            got = values(varied, batch, watch=Watch.NOTHING)
        assert np.abs(got - native).max() <= 4 * unit * np.abs(native).max()
        assert np.abs(got - plain).max() > 0

    def test_training_norms_in_half_leave_no_trace(self) -> None:
        net, batch = resnet(), images()
        before = snapshot(net)
        variation = Variation(layers={NAME: Altered(training=True)}, dtype="float16")
        with session_of(net) as session, session.varied(variation) as varied:
            one, two = values(varied, batch), values(varied, batch, watch=Watch.NOTHING)
        assert np.array_equal(one, two)
        assert snapshot(net) == before

    def test_an_unknown_precision(self) -> None:
        with session_of(resnet()) as session:
            refused(session, Variation(dtype="float8"), "float8")


class TestRefusals:
    @pytest.mark.parametrize(
        ("layers", "said"),
        [
            ({"nowhere": Altered(training=True)}, "no norm layer nowhere"),
            ({"1": Altered(gamma=np.full(4, 2.0))}, "1 has no weight"),
            ({"1": Altered(mean=np.zeros(5))}, "shape"),
            ({"2": Altered(mean=np.zeros(4))}, "2 has no running mean"),
        ],
    )
    def test_what_has_no_place_is_said_before_anything_is_written(self, layers: Any, said: str) -> None:
        net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, affine=False), nn.GroupNorm(2, 4))
        before = snapshot(net)
        with session_of(net) as session:
            refused(session, Variation(layers=layers), said)
        assert snapshot(net) == before

    def test_an_absent_affine_is_the_identity(self) -> None:
        net, batch = nn.Sequential(nn.BatchNorm2d(3, affine=False)), images()
        layers = {"0": Altered(gamma=np.ones(3), beta=np.zeros(3))}
        with session_of(net) as session, session.varied(Variation(layers=layers)) as varied:
            assert np.array_equal(values(varied, batch), expected(net, batch, lambda net: None))

    def test_only_inference_runs(self) -> None:
        with session_of(resnet()) as session, session.varied(Variation()) as varied:
            assert varied.modes == {Mode.INFERENCE}
            with pytest.raises(NotPossibleError, match="training norms"):
                varied.run(images(), Mode.TRAINING_NORMS)

    def test_a_model_that_raises_is_put_back(self) -> None:
        net = resnet()
        before = snapshot(net)
        wrong = Batch(args=(np.zeros((4, 5, 8, 8), np.float32),), size=4, anchors=(0,))
        with session_of(net) as session:
            as_it_is = values(session, images())
            with pytest.raises(RunError), session.varied(Variation(layers={NAME: CHANGES["gamma"][0]})) as varied:
                varied.run(wrong)
            assert np.array_equal(values(session, images()), as_it_is)
        assert snapshot(net) == before


def test_leaving_puts_back_what_was_written_before_the_session_closes() -> None:
    net = resnet().eval()
    before = snapshot(net)
    layers = {name: Altered(training=True, gamma=np.ones(8), eps=0.1) for name in ("bn1", NAME)}
    with session_of(net) as session:
        with session.varied(Variation(layers=layers)) as varied:
            varied.run(images(), watch=Watch.NOTHING)
        assert snapshot(net) == before


def test_functional_norms_follow_the_module_that_holds_them() -> None:
    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm2d(3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            n = self.norm
            return F.batch_norm(x, n.running_mean, n.running_var, n.weight, n.bias, n.training, 0.1, n.eps)

    net, batch = Functional(), images()
    layers = {"norm": Altered(training=True, eps=0.3)}

    def by_hand(net: Any) -> None:
        net.norm.train()
        net.norm.eps = 0.3

    with session_of(net) as session, session.varied(Variation(layers=layers)) as varied:
        assert np.array_equal(values(varied, batch), expected(net, batch, by_hand))


def test_the_session_itself_may_run_between_two_forwards() -> None:
    net, batch = resnet(), images()
    altered, by_hand = CHANGES["gamma"]
    with session_of(net) as session:
        as_it_is = values(session, batch)
        with session.varied(Variation(layers={NAME: altered})) as varied:
            assert np.array_equal(values(session, batch), as_it_is)
            assert np.array_equal(values(varied, batch), expected(net, batch, by_hand))
            session.run(batch, Mode.TRAINING_NORMS)
            assert np.array_equal(values(varied, batch, restored=False), expected(net, batch, by_hand))
            assert np.array_equal(values(session, batch), as_it_is)


def test_branches_of_a_program_are_rounded_too() -> None:
    class Branching(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            answer: torch.Tensor = torch.cond(x.sum() > 0, lambda x: x * 1.001 / 3, lambda x: x / 7, (x,))
            return answer

    batch = Batch(args=(np.full((2, 3), 0.7, np.float32),), size=2, anchors=(0,))
    exported = torch.export.export(Branching(), (torch.from_numpy(batch.args[0]),))
    with session_of(exported) as session, session.varied(Variation(dtype="float16")) as varied:
        got = values(varied, batch, watch=Watch.NOTHING)
    half = torch.from_numpy(batch.args[0]).half().float()
    by_hand = ((half * 1.001).half().float() / 3).half().float()
    assert np.array_equal(got, by_hand.numpy())


def test_half_precision_does_not_load_the_compiler() -> None:
    code = (
        "import sys; import numpy as np; from torch import nn; from bnaudit.torch_session.opening import opened;"
        "from bnaudit.run_options import RunOptions; from bnaudit.session import Batch, Watch;"
        "from bnaudit.variation import Variation;"
        "batch = Batch(args=(np.ones((2, 3), np.float32),), size=2, anchors=(0,));"
        "net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3));"
        "s = opened(None, None, RunOptions(model=net)); session = s.__enter__();"
        "v = session.varied(Variation(dtype='float16')); v.__enter__().run(batch, watch=Watch.NOTHING);"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
