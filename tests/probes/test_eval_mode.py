"""What still uses the batch, drops or learns after eval()."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from fake_runs import FakeFeed, Net, experiment, measured
from torch import nn

import bnaudit
from bnaudit.description import NormKind
from bnaudit.location import Location, location
from bnaudit.measurement import Answer, EvalDropout, EvalNorm, StateInEval
from bnaudit.probes.eval_mode import PROBE, _answer
from bnaudit.records import replace
from bnaudit.results import Outcome, Question
from bnaudit.session import Place, RandomCall, StateChange


def found(kind: type, **given: Any) -> tuple[list[Any], Answer]:
    everything = measured("eval_mode", **given)
    return [entry for entry in everything if isinstance(entry, kind)], everything[-1]


def test_a_healthy_model_passes() -> None:
    everything = measured("eval_mode")
    assert [type(entry) for entry in everything] == [Answer] and everything[0].outcome is Outcome.PASSED


def test_a_norm_that_mixes_is_proved_by_the_swap() -> None:
    (norm,), answer = found(EvalNorm, net=Net(leaky=frozenset({"two"})))
    assert (norm.layer, norm.mixes, norm.by_configuration) == ("two", True, False)
    assert answer.outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("leaky", "state", "updates"), [("one", "average", True), ("one", "", False), ("two", "average", False)]
)
def test_a_norm_updates_statistics_only_where_they_moved(leaky: str, state: str, updates: bool) -> None:
    """A copy of them may have been handed over."""
    (norm,), _ = found(EvalNorm, net=Net(leaky=frozenset({leaky}), state=state))
    assert norm.updates is updates


def test_a_norm_without_statistics_uses_the_batch_by_configuration() -> None:
    net = Net(leaky=frozenset({"two"}), by_configuration=frozenset({"two"}))
    (norm,), answer = found(EvalNorm, net=net)
    assert (
        norm.by_configuration and norm.mixes and answer.outcome is Outcome.PASSED and "configuration" in answer.reason
    )


def test_it_is_open_whether_a_norm_mixes_when_companions_are_equal() -> None:
    (norm,), answer = found(EvalNorm, net=Net(leaky=frozenset({"two"})), feed=FakeFeed(same=True))
    assert norm.mixes is None and answer.outcome is Outcome.INCONCLUSIVE


def test_dropout_is_counted_by_its_place() -> None:
    (drop,), answer = found(EvalDropout, net=Net(random=True, drops=True))
    assert (drop.call.place.module, drop.calls) == ("drop", 1) and answer.outcome is Outcome.FAILED
    assert not found(EvalDropout, net=Net(random=True))[0], "a model that samples drops nothing"


@pytest.mark.parametrize(
    ("state", "learns", "outcome"), [("cache", False, Outcome.PASSED), ("average", True, Outcome.FAILED)]
)
def test_a_cache_is_told_from_state_that_learns(state: str, learns: bool, outcome: Outcome) -> None:
    (change,), answer = found(StateInEval, net=Net(state=state))
    assert (change.layer, change.depends_on_data, answer.outcome) == ("one", learns, outcome)


def test_norm_layers_without_any_operator_seen_are_not_checked() -> None:
    _, answer = found(EvalNorm, net=Net(unseen=True))
    assert answer.outcome is Outcome.NOT_CHECKED and "2 norm layers" in answer.reason


class FrozenBatchNorm2d(nn.Module):
    """As torchvision and detectron2 write it."""

    def __init__(self) -> None:
        super().__init__()
        for name, value in (("weight", 1.5), ("bias", 0.1), ("running_mean", 0.2), ("running_var", 2.0)):
            self.register_buffer(name, torch.full((3,), value))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        variance: torch.Tensor = self.running_var  # type: ignore[assignment]
        scale: torch.Tensor = self.weight * (variance + 1e-5).rsqrt()  # type: ignore[operator]
        shift: torch.Tensor = self.bias - self.running_mean * scale  # type: ignore[operator]
        return x * scale[:, None, None] + shift[:, None, None]


def test_frozen_norms_are_arithmetic_and_no_operator_is_missed(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2d(3, 3, 1), FrozenBatchNorm2d()).eval()
    torch.jit.save(torch.jit.script(net), tmp_path / "frozen.pt")
    inputs = torch.randn(24, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    for subject in (net, str(tmp_path / "frozen.pt")):
        (audited,) = bnaudit.audit(subject, inputs=inputs, run=True).audits
        (verdict,) = (one for one in audited.verdicts if one.question is Question.EVAL_MODE)
        assert len(audited.description.parts[0].layers) == 1
        assert verdict.outcome is Outcome.PASSED, verdict.reason


@pytest.mark.parametrize("norm", [nn.RMSNorm, nn.LayerNorm])
def test_norms_that_torchscript_takes_apart_have_no_mode_to_miss(norm: type[nn.Module], tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(5, 4), norm(4)).eval()
    torch.jit.save(torch.jit.script(net), tmp_path / "rms.pt")
    inputs = torch.randn(24, 5, generator=torch.Generator().manual_seed(0))
    (audited,) = bnaudit.audit(str(tmp_path / "rms.pt"), inputs=inputs, run=True).audits
    (verdict,) = (one for one in audited.verdicts if one.question is Question.EVAL_MODE)
    assert len(audited.description.parts[0].layers) == 1
    assert verdict.outcome is Outcome.PASSED, verdict.reason


def seen(run: Any, **fields: Any) -> list[Any]:
    """What the probe yields when the first forward showed this."""
    run.base = replace(run.base, **fields)
    return list(PROBE.measure(run))


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (NormKind.LAYER, 0),
        (NormKind.GROUP, 0),
        (NormKind.RMS, 0),
        (NormKind.INSTANCE, 1),
        (NormKind.BATCH, 1),
        (NormKind.UNKNOWN, 1),
    ],
)
def test_norms_without_modes_use_their_input_in_every_mode(kind: NormKind, told: int) -> None:
    run = experiment()
    call = replace(run.base.norm_calls[0], kind=kind, uses_batch=True)
    found = seen(run, norm_calls=(call,))
    assert len([entry for entry in found if isinstance(entry, EvalNorm)]) == told


def test_what_normalizes_each_sample_alone_mixes_none() -> None:
    run = experiment()
    call = replace(run.base.norm_calls[0], kind=NormKind.INSTANCE, uses_batch=True, mixes_samples=False)
    norm, answer = seen(run, norm_calls=(call,))
    assert norm.mixes is False and answer.outcome is Outcome.PASSED
    assert answer.reason == "1 norm call, none mixes samples; nothing drops"


def test_two_samples_are_enough_to_prove_it() -> None:
    (norm,), answer = found(EvalNorm, net=Net(leaky=frozenset({"two"})), feed=FakeFeed(2))
    assert norm.mixes is True and answer.outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("place", "mixes"),
    [
        (Location(True, norm_calls=frozenset({1})), True),
        (Location(True), False),
        (Location(True, places=("another place",), apart=frozenset({1})), False),  # type: ignore[arg-type]
        (Location(True, places=("another place",), apart=frozenset({0})), None),  # type: ignore[arg-type]
        (Location(False, norm_calls=frozenset({1})), None),
    ],
    ids=["it mixes", "nothing mixes", "equal rows left it", "it stands behind what mixes", "not located"],
)
def test_where_samples_meet_says_whether_a_norm_mixes(place: Location, mixes: bool | None) -> None:
    run = experiment(Net(leaky=frozenset({"two"})))
    run._kept[location] = place
    norm, _ = PROBE.measure(run)
    assert norm.mixes is mixes


@pytest.mark.parametrize(("probability", "told"), [(0.0, 0), (0.5, 1), (1.0, 1), (None, 1)])
def test_a_dropout_of_probability_0_drops_nothing(probability: float | None, told: int) -> None:
    call = RandomCall(place=Place(module="drop"), is_dropout=True, probability=probability)
    *drops, answer = seen(experiment(), random_calls=(call, call))
    assert [drop.calls for drop in drops] == [2] * told
    assert answer.outcome is (Outcome.FAILED if told else Outcome.PASSED)


@pytest.mark.parametrize(
    ("owner", "observer"),
    [("torch.ao.quantization.observer.MinMaxObserver", True), ("FakeQuantize", True), ("BatchNorm2d", False)],
)
def test_observers_that_still_learn_are_told_as_such(owner: str, observer: bool) -> None:
    change = StateChange(name="act.min_val", kind="buffer", persistent=True, owner=owner, digest=1)
    state, answer = seen(experiment(), changes=(change,))
    assert state.is_observer is observer and state.layer is None and answer.outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("kind", "persistent", "outcome"),
    [
        ("buffer", True, Outcome.FAILED),
        ("parameter", True, Outcome.FAILED),
        ("buffer", False, Outcome.PASSED),
        ("attribute", True, Outcome.PASSED),
    ],
)
def test_only_what_is_stored_with_the_model_is_state_that_learns(kind: str, persistent: bool, outcome: Outcome) -> None:
    change = StateChange(name="one.kept", kind=kind, persistent=persistent, owner="Net", digest=1)
    state, answer = seen(experiment(), changes=(change,))
    assert state.depends_on_data and answer.outcome is outcome


def told(run: Any, *norms: EvalNorm, drops: int = 0, learning: int = 0) -> Answer:
    """The answer where these were found, and so many dropouts and stored tensors that learn."""
    dropouts = [
        EvalDropout(call=RandomCall(place=Place(module=f"d{i}"), is_dropout=True), calls=1) for i in range(drops)
    ]
    changes = [StateChange(name=f"s{i}", kind="buffer", persistent=True, owner="", digest=i) for i in range(learning)]
    states = [StateInEval(change=each, depends_on_data=True, layer=None, is_observer=False) for each in changes]
    outcome, reason, _ = _answer(run, list(norms), dropouts, states)
    return Answer(question=Question.EVAL_MODE, outcome=outcome, reason=reason)


def norm(mixes: bool | None, by_configuration: bool = False) -> EvalNorm:
    return EvalNorm(place=Place(), layer=None, mixes=mixes, by_configuration=by_configuration, updates=False)


MIXES, OWN, OPEN = norm(True), norm(False), norm(None)


@pytest.mark.parametrize(
    ("norms", "drops", "learning", "reason"),
    [
        ((MIXES,), 0, 0, "1 norm uses the batch"),
        ((MIXES, MIXES, OWN), 0, 0, "2 norms use the batch"),
        ((), 1, 0, "1 dropout drops"),
        ((), 2, 1, "2 dropouts drop, 1 stored tensor changed"),
        ((MIXES,), 0, 2, "1 norm uses the batch, 2 stored tensors changed"),
    ],
)
def test_a_failure_counts_what_was_found(norms: Any, drops: int, learning: int, reason: str) -> None:
    answer = told(experiment(), *norms, drops=drops, learning=learning)
    assert (answer.outcome, answer.reason) == (Outcome.FAILED, reason)


BY_CONFIGURATION = "the batch is used by configuration only, nothing drops"
NONE_MIXES = "2 norm calls, none mixes samples; nothing drops"


@pytest.mark.parametrize(
    ("norms", "outcome", "reason"),
    [
        ((norm(None, True),), Outcome.PASSED, BY_CONFIGURATION),
        ((norm(True, True), OWN), Outcome.PASSED, BY_CONFIGURATION),
        ((norm(False, True),), Outcome.PASSED, NONE_MIXES),
        ((OWN,), Outcome.PASSED, NONE_MIXES),
        (
            (norm(True, True), OPEN),
            Outcome.INCONCLUSIVE,
            "a norm uses its input's statistics; whether samples mix was not shown",
        ),
    ],
)
def test_norms_that_use_the_batch_by_configuration_fail_nothing(norms: Any, outcome: Outcome, reason: str) -> None:
    answer = told(experiment(), *norms)
    assert (answer.outcome, answer.reason) == (outcome, reason)


@pytest.mark.parametrize(
    ("updates", "layer", "changed", "moved"),
    [
        (True, "two", "two.running_mean", True),
        (False, "two", "two.running_mean", False),
        (True, "bn", "two.running_mean", True),
        (True, "bn", "bn.running_mean", True),
        (True, "bn", "one.running_mean", False),
    ],
)
def test_an_update_is_told_where_a_buffer_of_the_layer_or_its_module_moved(
    updates: bool, layer: str, changed: str, moved: bool
) -> None:
    run = experiment()
    call = replace(run.base.norm_calls[1], uses_batch=True, updates=updates, layer=layer)
    change = StateChange(name=changed, kind="buffer", persistent=True, owner="BatchNorm1d", digest=1)
    norm, *_ = seen(run, norm_calls=(call,), changes=(change,))
    assert call.place.module == "two" and norm.updates is moved
