"""BN401: what training mode does, after eval()."""

from __future__ import annotations

import pytest
import torch
from builders import batch_norm, description, part
from measured import EXACT, eval_dropout, eval_norm, neighbours, place, run_hits, state_in_eval, swap

from bnaudit.description import Carrier, HiddenModule, ModeDependent, NormKind
from bnaudit.measurement import EvalDropout
from bnaudit.results import Confidence, Outcome, Severity
from bnaudit.session import RandomCall

RULE = "bn401_eval_mode_leak"


def test_a_norm_layer_that_still_mixes_is_found() -> None:
    subject = description(part([batch_norm("bn1")], carrier=Carrier.MODULE))
    (hit,) = run_hits(RULE, eval_norm("bn1"), subject=subject)
    assert (hit.layer, hit.severity, hit.confidence) == ("bn1", None, Confidence.HIGH)
    assert "replaces its running statistics" in hit.message
    assert hit.message.endswith("(aten.native_batch_norm in BatchNorm2d, net.py:41)")
    assert "overridden train()" in hit.advice


def test_a_functional_call_is_found_at_its_module() -> None:
    (hit,) = run_hits(RULE, eval_norm("head", None, class_name="Head", updates=False))
    assert hit.layer == "head"
    assert "running statistics" not in hit.message
    assert hit.advice == "pass training=self.training to F.batch_norm"


def test_a_norm_made_in_forward_is_found() -> None:
    (hit,) = run_hits(RULE, eval_norm("<made in forward of head>", None, hidden=True))
    assert "make it in __init__" in hit.advice
    (hit,) = run_hits(RULE, eval_norm("head.run.__closure__['norm']", None, hidden=True))
    assert hit.advice.startswith("register it") and "made" not in hit.advice


def test_functional_calls_of_one_module_are_one_hit() -> None:
    norms = [eval_norm("", None, class_name="Net", source=f"net.py:{line}") for line in (7, 9)]
    (hit,) = run_hits(RULE, *norms)
    assert hit.layer == ""
    assert "net.py:7; " in hit.message
    assert "net.py:9)" in hit.message


def test_a_functional_call_on_the_buffers_of_a_module_is_still_a_call() -> None:
    (hit,) = run_hits(RULE, eval_norm("head", "head", class_name="Head"))
    assert hit.advice == "pass training=self.training to F.batch_norm"


@pytest.mark.parametrize("mixes", [False, None])
def test_a_norm_that_mixes_nothing_is_silent(mixes: bool | None) -> None:
    """Instance norm and weight standardization."""
    assert not run_hits(RULE, eval_norm(mixes=mixes), neighbours(Outcome.PASSED))


def test_an_exact_swap_that_proves_nothing_leaves_it_open() -> None:
    """A zero-initialised head, say."""
    exact = swap(other=EXACT, scaled=EXACT, leaks=False)
    (hit,) = run_hits(RULE, eval_norm(mixes=None), exact, neighbours(Outcome.INCONCLUSIVE))
    assert hit.undecided


def test_a_norm_that_uses_the_batch_by_configuration_is_another_rule() -> None:
    assert not run_hits(RULE, eval_norm(by_configuration=True))
    assert not run_hits(RULE, eval_norm(by_configuration=True, mixes=None))


def test_whether_samples_mix_may_stay_open() -> None:
    (hit,) = run_hits(RULE, eval_norm(mixes=None))
    assert (hit.severity, hit.confidence) == (Severity.NOTE, Confidence.MEDIUM)
    assert hit.undecided


def test_a_norm_known_to_look_at_one_sample_leaves_nothing_open() -> None:
    instance = description(part([batch_norm("bn1", kind=NormKind.INSTANCE)], carrier=Carrier.MODULE))
    assert not run_hits(RULE, eval_norm(mixes=None), subject=instance)
    batch = description(part([batch_norm("bn1")], carrier=Carrier.MODULE))
    assert len(run_hits(RULE, eval_norm(mixes=None), subject=batch)) == 1


def test_moving_statistics_decide_what_the_swap_left_open() -> None:
    assert not run_hits(RULE, eval_norm(mixes=None), state_in_eval("bn1.running_mean", layer="bn1"))


def test_one_proof_is_enough_for_a_module() -> None:
    (hit,) = run_hits(RULE, eval_norm(mixes=None), eval_norm(mixes=True))
    assert hit.severity is None


@pytest.mark.parametrize("probability", [0.5, None])
def test_a_dropout_that_drops_is_found(probability: float | None) -> None:
    (hit,) = run_hits(RULE, eval_dropout("drop", probability))
    assert (hit.layer, hit.severity) == ("drop", None)
    assert ("with p = 0.5" in hit.message) == (probability is not None)


def test_a_dropout_of_probability_0_is_silent() -> None:
    assert not run_hits(RULE, eval_dropout("drop", 0.0))


@pytest.mark.parametrize(("name", "fixed", "count"), [("", True, 0), ("", None, 1), ("drop", True, 1)])
def test_a_dropout_of_a_script_that_its_code_fixes_is_told_by_name(name: str, fixed: bool | None, count: int) -> None:
    """A run of TorchScript sees no modules: BN202 or BN203 names the layer."""
    drop = ModeDependent(name="drop", kind="dropout", class_name="Dropout", probability=0.5, graph_training=fixed)
    subject = description(part([], carrier=Carrier.SCRIPT, traced=True, mode_dependent=(drop,)))
    assert len(run_hits(RULE, eval_dropout(name, class_name="Net"), subject=subject)) == count


def test_the_advice_for_a_functional_dropout_is_its_argument() -> None:
    (functional,) = run_hits(RULE, eval_dropout("", class_name="Net"))
    (own,) = run_hits(RULE, eval_dropout("drop", class_name="WordDropout"))
    assert "F.dropout" in functional.advice and functional.advice == own.advice
    for class_name in ("Dropout2d", "FeatureAlphaDropout", "MultiheadAttention", "LSTM", "RReLU", "DropPath"):
        (module,) = run_hits(RULE, eval_dropout("drop", class_name=class_name))
        assert "overridden train()" in module.advice


@pytest.mark.parametrize("in_training", [True, False])
def test_a_hidden_module_known_to_train_is_told_by_its_own_rule(in_training: bool) -> None:
    hidden = HiddenModule(path="n[0]", class_name="B", training=None, mode_dependent=(), in_training=in_training)
    subject = description(part([], carrier=Carrier.MODULE, hidden=(hidden,)))
    found = run_hits(RULE, eval_norm("n[0].bn", None, hidden=True), eval_dropout("n[0]"), subject=subject)
    assert len(found) == (0 if in_training else 2)


def test_the_page_is_what_torch_does() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(1))
            self.register_buffer("var", torch.ones(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.batch_norm(x, self.mean, self.var, training=True)

    net = Net().eval()
    assert net(torch.tensor([[6.0], [8.0]]))[0].item() == pytest.approx(-1.0, abs=1e-4)
    assert net.mean.item() == pytest.approx(0.7)
    assert net(torch.tensor([[6.0], [4.0]]))[0].item() == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("kind", [NormKind.INSTANCE, NormKind.GROUP, NormKind.LAYER, NormKind.RMS])
def test_every_norm_of_one_sample_leaves_nothing_open(kind: NormKind) -> None:
    subject = description(part([batch_norm("bn1", kind=kind)], carrier=Carrier.MODULE))
    assert not run_hits(RULE, eval_norm(mixes=None), subject=subject)


def test_a_norm_that_is_known_to_mix_nothing_leaves_nothing_open() -> None:
    assert not run_hits(RULE, eval_norm(mixes=False))


def test_moving_statistics_of_one_call_decide_for_its_module_and_for_no_other() -> None:
    moving = state_in_eval("bn1.running_mean", layer="bn1")
    assert not run_hits(RULE, eval_norm("bn1", "bn1", None), eval_norm("bn1", None, None), moving)
    (hit,) = run_hits(RULE, eval_norm("head", None, None), state_in_eval("head.kept"))
    assert hit.layer == "head" and hit.undecided


def test_one_call_that_updates_is_enough_to_say_so() -> None:
    (hit,) = run_hits(RULE, eval_norm(updates=True), eval_norm(updates=False))
    assert "replaces its running statistics" in hit.message


def test_random_slopes_are_not_called_dropping() -> None:
    (drop,) = run_hits(RULE, eval_dropout())
    assert drop.message.startswith("after eval() it still drops at random")
    slopes = RandomCall(place=place("act", "RReLU", "aten.rrelu_with_noise"), is_dropout=True, probability=None)
    (hit,) = run_hits(RULE, EvalDropout(call=slopes, calls=1))
    assert hit.message.startswith("after eval() it still draws its slopes at random")


def test_a_dropout_that_eval_does_not_reach_is_to_be_registered() -> None:
    call = RandomCall(place=place("drops[0]", "Dropout", "aten.bernoulli_", hidden=True), is_dropout=True)
    (hit,) = run_hits(RULE, EvalDropout(call=call, calls=1))
    assert hit.advice.startswith("register it")
