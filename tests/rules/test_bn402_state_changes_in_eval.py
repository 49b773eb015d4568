"""BN402: a prediction that writes to the model."""

from __future__ import annotations

import pytest
import torch
from builders import description, part
from measured import run_hits, state_in_eval

from bnaudit.description import Carrier, HiddenModule
from bnaudit.results import Confidence, Severity

RULE = "bn402_state_changes_in_eval"


@pytest.mark.parametrize("kind", ["parameter", "buffer"])
def test_stored_state_that_depends_on_the_input_is_an_error(kind: str) -> None:
    (hit,) = run_hits(RULE, state_in_eval("norm.scale", kind=kind))
    assert (hit.layer, hit.severity) == ("norm", None)
    assert hit.message == "a prediction in eval mode changes norm.scale, by what the input holds"


def test_one_hit_per_module() -> None:
    names = ("norm.a", "norm.b", "norm.c", "norm.d", "root")
    first, second = run_hits(RULE, *map(state_in_eval, names))
    assert (first.layer, second.layer) == ("norm", "")
    assert "norm.a, norm.b, norm.c and 1 more, by" in first.message


def test_a_cache_is_a_note() -> None:
    (hit,) = run_hits(RULE, state_in_eval("rotary.cos", depends_on_data=False))
    assert hit.severity is Severity.NOTE
    assert not hit.undecided
    assert "cache" in hit.message


def test_a_counter_alone_is_a_note_that_says_what_it_counts() -> None:
    (hit,) = run_hits(RULE, state_in_eval("bn1.num_batches_tracked", depends_on_data=False))
    assert hit.severity is Severity.NOTE
    assert "counts predictions as training batches" in hit.message


def test_what_was_not_tried_twice_stays_open() -> None:
    (hit,) = run_hits(RULE, state_in_eval("norm.scale", depends_on_data=None))
    assert hit.severity is Severity.NOTE
    assert hit.undecided


def test_the_worst_of_a_module_speaks() -> None:
    states = [state_in_eval(f"norm.{word}", depends_on_data=depends) for word, depends in (("a", False), ("b", True))]
    (hit,) = run_hits(RULE, *states)
    assert hit.severity is None
    assert "norm.b" in hit.message
    assert "norm.a" not in hit.message


@pytest.mark.parametrize(("kind", "persistent"), [("buffer", False), ("attribute", False)])
def test_what_state_dict_does_not_hold_is_silent(kind: str, persistent: bool) -> None:
    assert not run_hits(RULE, state_in_eval("kv.cache", kind=kind, persistent=persistent))


def test_an_observer_is_named_as_such() -> None:
    (hit,) = run_hits(RULE, state_in_eval("fc.activation_post_process.min_val", is_observer=True))
    assert hit.layer == "fc.activation_post_process"
    assert "observer" in hit.message
    assert "disable_observer" in hit.advice


def test_a_norm_layer_goes_by_its_own_name() -> None:
    (hit,) = run_hits(RULE, state_in_eval("_orig_mod.bn1.running_mean", layer="bn1"))
    assert hit.layer == "bn1"


def test_a_hidden_module_known_to_train_is_told_by_its_own_rule() -> None:
    hidden = HiddenModule(path="n[0]", class_name="B", training=True, mode_dependent=(), in_training=True)
    subject = description(part([], carrier=Carrier.MODULE, hidden=(hidden,)))
    assert not run_hits(RULE, state_in_eval("n[0].running_mean"), subject=subject)


def test_the_page_is_what_torch_does() -> None:
    class ActNorm(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(1))
            self.initialized = False

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not self.initialized:
                self.scale.data.fill_(1 / x.std().item())
                self.initialized = True
            return x * self.scale

    norm = ActNorm().eval()
    norm.scale.data.fill_(3.0)
    norm(torch.tensor([1.0, 3.0, 5.0]))
    assert norm.scale.item() == pytest.approx(0.5)


def test_an_attribute_is_not_stored_whatever_else_is_said_of_it() -> None:
    assert not run_hits(RULE, state_in_eval("kv.cache", kind="attribute", persistent=True))


def test_one_observer_in_a_module_makes_it_one() -> None:
    (hit,) = run_hits(RULE, state_in_eval("act.min_val", is_observer=True), state_in_eval("act.other"))
    assert hit.message.startswith("an observer still learns") and "disable_observer" in hit.advice


def test_what_was_not_tried_twice_is_of_medium_confidence() -> None:
    (hit,) = run_hits(RULE, state_in_eval("norm.scale", depends_on_data=None))
    assert hit.confidence is Confidence.MEDIUM


def test_counters_alone_count() -> None:
    counters = [state_in_eval("bn1.num_batches_tracked", depends_on_data=False)]
    (counted,) = run_hits(RULE, *counters)
    assert counted.advice.startswith("write it in training mode only")
    (cached,) = run_hits(RULE, *counters, state_in_eval("bn1.table", depends_on_data=False))
    assert "as a cache has" in cached.message and cached.advice.startswith("nothing to do")


@pytest.mark.parametrize(("count", "named"), [(3, "n.0, n.1, n.2, by"), (4, "n.0, n.1, n.2 and 1 more, by")])
def test_three_names_are_shown(count: int, named: str) -> None:
    (hit,) = run_hits(RULE, *(state_in_eval(f"n.{at}") for at in range(count)))
    assert named in hit.message
