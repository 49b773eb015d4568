"""Each invariant: broken, nearly broken, kept."""

from __future__ import annotations

import copy
import logging
from itertools import cycle
from typing import Any

import pytest
import torch
from torch import nn
from watching.loops import BatchInEval, batch, net, train

import bnaudit
from bnaudit.errors import BnauditError, UsageError, ViolatedInvariantError
from bnaudit.watching.judging import FRESH, IN_TURNS


def broken(model: nn.Module, act: Any, **options: Any) -> dict[str, tuple[str, ...]]:
    """Invariant → layers, of what is found while `act` runs."""
    found: list[Any] = []
    with bnaudit.watch(model, on_violation=found.append, **options):
        act()
    return {violation.invariant.value: violation.layers for violation in found}


def settled(updates: int = 30, **options: Any) -> nn.Sequential:
    """A net whose statistics are no longer fresh."""
    model = net(**options)
    train(model, updates)
    return model


def violated(sentence: str) -> Any:
    """The block raises an error with this sentence (a pattern)."""
    return pytest.raises(ViolatedInvariantError, match=sentence)


# finite


def test_nan_is_found_in_the_forward_that_brought_it() -> None:
    model = net()
    with violated(r"^1: NaN or infinity in the running statistics of 4 of 4 "), bnaudit.watch(model) as guard:
        train(model, 2)
        model(torch.full((8, 3), torch.nan))
    (violation,) = guard.violations
    assert violation.forward == 3
    assert violation.layers == ("1", "4")
    assert (violation.value, violation.limit) == (4, 0)


def test_one_channel_is_enough() -> None:
    model = net()

    def act() -> None:
        with torch.no_grad():
            model[0].weight[2] = torch.inf
        model[:2](batch())  # the two modules alone would do: the slice holds the same layer

    with violated(r"^1: NaN or infinity in the running statistics of 1 of 4 "), bnaudit.watch(model):
        act()


def test_a_model_that_came_with_nan_is_told_before_it_runs() -> None:
    model = net()
    model[4].running_var[0] = torch.nan
    with pytest.raises(ViolatedInvariantError, match=r"^4: .*\(before the first forward\)"), bnaudit.watch(model):
        pytest.fail("the block is not entered")


def test_nan_that_reaches_no_statistic_is_no_matter() -> None:
    model = net().eval()
    assert not broken(model, lambda: model(torch.full((8, 3), torch.nan)))


def test_check_finds_nan_without_a_forward() -> None:
    model = net()
    with pytest.raises(ViolatedInvariantError, match="NaN"), bnaudit.watch(model) as guard:
        model[1].running_mean[0] = torch.inf
        guard.check()
    with pytest.raises(UsageError, match="not active"):
        guard.check()


# eval


def test_a_layer_that_updates_in_eval_is_found() -> None:
    model = net()
    model[4] = BatchInEval(4)
    model.eval()
    with (
        violated(r"^4: in eval mode, yet running statistics of 4 of 4 channels "),
        bnaudit.watch(model),
        torch.no_grad(),
    ):
        model(batch())
    assert not broken(model.train(), lambda: train(model))


def test_statistics_that_are_written_between_forwards_are_not_written_by_the_layer() -> None:
    model = settled()
    other = settled(updates=40).state_dict()

    def swap_and_evaluate() -> None:
        own = copy.deepcopy(model.state_dict())
        model.eval()
        model.load_state_dict(other)  # averaged weights, for the validation
        model(batch())
        model.load_state_dict(own)
        model(batch())
        model.train()
        train(model)

    assert not broken(model, swap_and_evaluate)


def test_a_mode_that_is_set_for_one_forward_counts() -> None:
    class Estimating(nn.Module):
        """Re-estimates its statistics on demand, in training mode for that time."""

        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.norm.train()
            x = self.norm(x)
            self.norm.eval()
            return x

    model = Estimating().eval()
    assert not broken(model, lambda: model(batch()))


# frozen


def test_a_frozen_layer_that_updates_is_found() -> None:
    model = net()
    model[1].requires_grad_(False)
    with violated(r"^1: weight and bias are frozen, but a forward in training mode"), bnaudit.watch(model):
        train(model)


def test_a_frozen_layer_under_no_grad_is_found() -> None:
    model = net()
    model[:3].requires_grad_(False)

    def act() -> None:
        with torch.no_grad():
            features = model[:3](batch())
        model[3:](features).sum().backward()

    assert broken(model, act) == {"frozen": ("1",)}


def test_a_layer_without_parameters_is_frozen_with_its_block() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, affine=False)), nn.Linear(4, 2))
    assert not broken(model, lambda: train(model))
    model[0].requires_grad_(False)
    found: list[Any] = []
    with bnaudit.watch(model, on_violation=found.append):
        train(model)
    assert [violation.layers for violation in found] == [("0.1",)]
    assert found[0].message.startswith("the block around it is frozen")


def kept_in_eval(model: nn.Sequential) -> None:
    model[1].requires_grad_(False)
    model[1].eval()


def half_frozen(model: nn.Sequential) -> None:
    model[1].weight.requires_grad_(False)


def without_momentum(model: nn.Sequential) -> None:
    model[1].requires_grad_(False)
    model[1].momentum = 0.0


@pytest.mark.parametrize("make", [kept_in_eval, half_frozen, without_momentum])
def test_a_layer_that_keeps_its_statistics_or_still_trains_is_not(make: Any) -> None:
    model = net()
    make(model)
    assert not broken(model, lambda: train(model))


def test_a_model_of_which_nothing_trains_is_not_frozen() -> None:
    model = net().requires_grad_(False)

    def act() -> None:
        with torch.no_grad():
            model(batch())

    assert not broken(model, act)


def test_what_is_frozen_in_turns_is_not_frozen() -> None:
    model = nn.ModuleDict({"generator": net(), "critic": nn.Sequential(nn.Linear(2, 3), *net())})
    for each in model.values():
        each.requires_grad_(True)

    def adversarial() -> None:
        for step in range(4):
            critic = bool(step % 2)
            model["critic"].requires_grad_(critic)
            made = model["generator"](batch(step))
            model["critic"](made.detach() if critic else made).mean().backward()

    assert not broken(model, adversarial)


def test_what_is_frozen_for_good_after_it_trained_is_frozen() -> None:
    """A backbone that is frozen at some epoch; a critic in turns of a hundred forwards is not."""
    norm = nn.BatchNorm1d(3)
    model, rows = nn.Sequential(norm, nn.Linear(3, 2)), cycle([batch(0), batch(1)])
    found: list[Any] = []
    with bnaudit.watch(model, on_violation=found.append), torch.no_grad():
        for turn in range(24):
            norm.requires_grad_(turn % 2 == 0)
            for _ in range(100):
                model(next(rows))
        norm.requires_grad_(True)
        model(next(rows))
        norm.requires_grad_(False)
        for _ in range(IN_TURNS - 1):
            model(next(rows))
        assert not found
        model(next(rows))
    assert [violation.invariant.value for violation in found] == ["frozen"]


# steady


def test_a_batch_far_away_is_found() -> None:
    model = settled()
    with violated(r"^1: its running mean moved by \d+\.?\d* σ in one forward"), bnaudit.watch(model):
        train(model)
        model(batch() + 1e3)


def test_a_batch_of_another_scale_is_found() -> None:
    model = settled()
    scaled = batch() * 255
    assert broken(model, lambda: model(scaled))["steady"][0] == "1"


@pytest.mark.parametrize(("moved", "limit", "told"), [(4.0, 5.0, False), (6.0, 5.0, True), (6.0, 7.0, False)])
def test_the_limit_is_the_movement_in_running_standard_deviations(moved: float, limit: float, told: bool) -> None:
    """By hand: momentum 0.5, so that a batch 2·k σ away moves the mean by k σ."""
    model = nn.Sequential(nn.BatchNorm1d(5, momentum=0.5, eps=1e-12))
    model[0].running_mean.fill_(3.0)
    model[0].running_var.fill_(4.0)
    model[0].num_batches_tracked.fill_(1000)
    inputs = torch.tensor([[-1.0], [1.0]]).expand(2, 5) * 2**0.5 + 3.0 + 2.0 * 2.0 * moved
    found: list[Any] = []
    with bnaudit.watch(model, on_violation=found.append, sigmas=limit):
        model(inputs)
    assert model[0].running_mean.tolist() == pytest.approx([3.0 + 2.0 * moved] * 5)
    assert model[0].running_var.tolist() == pytest.approx([4.0] * 5)
    assert bool(found) is told
    if told:
        assert found[0].value == pytest.approx(moved, rel=1e-5)


@pytest.mark.parametrize(("growth", "told"), [(9.0, False), (11.0, True)])
def test_the_limit_holds_for_the_growth_of_sigma_too(growth: float, told: bool) -> None:
    model = nn.Sequential(nn.BatchNorm1d(5, momentum=1.0, eps=1e-12))
    model[0].num_batches_tracked.fill_(1000)
    inputs = torch.tensor([[-1.0], [1.0]]).expand(2, 5) * growth / 2**0.5  # unbiased variance: growth²
    assert bool(broken(model, lambda: model(inputs))) is told
    assert model[0].running_var.tolist() == pytest.approx([growth**2] * 5)


@pytest.mark.parametrize("counter", [None, torch.tensor([1000, 1000]), torch.tensor([], dtype=torch.long)])
def test_without_a_counter_the_watch_counts_itself(counter: torch.Tensor | None) -> None:
    model = settled()
    model[1].num_batches_tracked = counter
    found: list[Any] = []
    with bnaudit.watch(model, on_violation=found.append), torch.no_grad():
        model(batch() + 1e3)
        told = {name for violation in found for name in violation.layers}
        assert "1" not in told
        for step in range(FRESH):
            model[:2](batch(step))
        model[:2](batch() + 1e6)
        model[:2](batch())
    assert any(violation.layers == ("1",) for violation in found)


def test_fresh_statistics_may_move_as_they_like() -> None:
    model = net(momentum=0.1)

    def from_pixels(step: int) -> torch.Tensor:
        return batch(step) * 60 + 120

    assert not broken(model, lambda: train(model, 60, from_pixels))


@pytest.mark.parametrize("momentum", [0.001, 0.1, 1.0, None])
def test_a_feature_far_from_zero_is_reached_in_peace(momentum: float | None) -> None:
    """Mean 1,000 and standard deviation 1: what is left of the initial mean is many σ for a long time."""
    model = nn.Sequential(nn.BatchNorm1d(3, momentum=momentum), nn.Linear(3, 2))
    assert not broken(model, lambda: train(model, 150, lambda step: batch(step) + 1e3))


def test_statistics_that_are_loaded_or_reset_did_not_move() -> None:
    model = settled()
    other = nn.Sequential(*net())
    train(other, 40, lambda step: batch(step) * 100 + 5000)

    def act() -> None:
        train(model)
        model.load_state_dict(other.state_dict())
        train(model, 3, lambda step: batch(step) * 100 + 5000)
        for layer in (model[1], model[4]):
            layer.reset_running_stats()
        train(model, 3)

    assert not broken(model, act)


def test_statistics_that_are_estimated_anew_are_fresh() -> None:
    model = settled()
    rows = [batch(seed) * 3 + 10 for seed in range(5)]
    assert not broken(model, lambda: torch.optim.swa_utils.update_bn(rows, model))


# responses and options


def test_the_error_says_which_layer_which_number_and_what_to_do() -> None:
    model = net()
    model[1].requires_grad_(False)
    with pytest.raises(BnauditError) as caught, bnaudit.watch(model) as guard:
        train(model)
    assert str(caught.value) == (
        "1: weight and bias are frozen, but a forward in training mode moved its running statistics (forward 1): put "
        "frozen norms in eval mode after every model.train(), or use FrozenBatchNorm2d, or say that it is meant so: "
        "intended='frozen=1'"
    )
    assert isinstance(caught.value, ViolatedInvariantError)
    assert caught.value.violation is guard.violations[0]


def test_the_error_lists_no_layer_that_is_sound() -> None:
    model = nn.Sequential(*(nn.Sequential(nn.BatchNorm1d(3), nn.BatchNorm1d(3)) for _ in range(2)), nn.Linear(3, 2))
    for name in ("0.0", "1.1"):
        model.get_submodule(name).requires_grad_(False)
    with violated(r"; 2 layers in all: 0\.0, 1\.1 \("), bnaudit.watch(model):
        model(torch.randn(8, 3))
    model[:2].requires_grad_(False)
    with violated(r"; 4 layers in all: \{0,1\}\.\{0,1\} \("), bnaudit.watch(model):
        model(torch.randn(8, 3))


@pytest.mark.parametrize(
    ("names", "proposed"),
    [
        (["norm"], "frozen=norm"),
        (["a.norm", "a.b.norm"], "frozen=a.*"),
        (["ab.x", "ac.x"], "frozen=*"),
        (["a", "a.b"], "frozen=a*"),
        (["norm[0]"], "frozen=norm[[]0]"),
        (["b?*.x", "b?*.y"], "frozen=b[?][*].*"),
    ],
)
def test_what_the_error_proposes_silences_all_that_it_tells(names: list[str], proposed: str) -> None:
    model = nn.Module()
    for name in names:
        holder: nn.Module = model
        *blocks, last = name.split(".")
        for block in blocks:
            if block not in holder._modules:
                holder.add_module(block, nn.Module())
            holder = holder._modules[block]
        holder.add_module(last, nn.BatchNorm1d(3).requires_grad_(False))
    model.head = nn.Linear(3, 2)

    def forward(x: torch.Tensor) -> torch.Tensor:
        for module in list(model.modules()):
            x = module(x) if isinstance(module, nn.BatchNorm1d) else x
        return model.head(x)

    model.forward = forward
    with pytest.raises(ViolatedInvariantError) as caught, bnaudit.watch(model):
        model(batch())
    assert caught.value.violation.layers == tuple(names)
    assert str(caught.value).endswith(f"intended={proposed!r}")
    assert not broken(model, lambda: model(batch()), intended=proposed)


def test_logging_tells_each_layer_once_and_trains_on(caplog: pytest.LogCaptureFixture) -> None:
    model = net()
    model[1].requires_grad_(False)
    with caplog.at_level(logging.ERROR, "bnaudit"), bnaudit.watch(model, on_violation="log") as guard:
        train(model, 5)
        model[4].requires_grad_(False)  # it has trained before: frozen in turns
        train(model, 5)
        model[3].weight.data.fill_(torch.nan)
        model(batch())
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(":")[0] for line in lines] == ["1", "4"]
    assert "NaN" in lines[1]
    assert guard.forwards == 11


@pytest.mark.parametrize("intended", ["frozen=1", ["frozen=?"], {"frozen": "*"}, "frozen"])
def test_what_is_meant_is_not_told(intended: Any) -> None:
    model = net()
    model[1].requires_grad_(False)
    assert not broken(model, lambda: train(model), intended=intended)
    wrapped = nn.DataParallel(model)
    assert not broken(wrapped, lambda: train(wrapped), intended=intended)


def test_what_is_meant_of_one_invariant_or_layer_says_nothing_of_others() -> None:
    model = net()
    model[1].requires_grad_(False)
    assert broken(model, lambda: train(model), intended=["eval=*", "frozen=4"]) == {"frozen": ("1",)}


def test_every_third_forward() -> None:
    model = net()
    model[1].requires_grad_(False)
    found: list[Any] = []
    with bnaudit.watch(model, on_violation=found.append, every=3):
        train(model, 2)
        assert not found
        train(model, 1)
    assert [violation.forward for violation in found] == [3]


@pytest.mark.parametrize(
    "options",
    [
        {"on_violation": "shout"},
        {"sigmas": 0},
        {"sigmas": float("nan")},
        {"sigmas": "5"},
        {"every": 0},
        {"every": 1.5},
        {"intended": "forzen=1"},
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        bnaudit.watch(net(), **options)


def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(TypeError, match="dict"):
        bnaudit.watch({})  # type: ignore[arg-type]


def test_hostile_names_stay_on_one_line() -> None:
    model = nn.Sequential()
    model.add_module("a\x1b[31m\nb", BatchInEval(3))
    model.eval()
    with pytest.raises(ViolatedInvariantError) as caught, bnaudit.watch(model):
        model(batch())
    assert str(caught.value).isprintable()
