"""BN201: what was saved in training mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from builders import batch_norm, description, hits, part
from measured import EXACT, LARGE, run_hits

from bnaudit.description import Carrier, HiddenModule, ModeDependent, NormKind, NormLayer
from bnaudit.measurement import AsSaved
from bnaudit.results import Confidence, Hit, Severity

RULE = "bn201_saved_in_training_mode"
WITHOUT_STATISTICS = {"mean": None, "var": None, "counter": None}


def module_hits(*layers: NormLayer, **fields: Any) -> list[Hit]:
    return hits(RULE, part(layers, carrier=Carrier.MODULE, **fields))


def other(**fields: Any) -> ModeDependent:
    settings = {"name": "drop", "kind": "dropout", "class_name": "Dropout", "probability": 0.5, "training": True}
    return ModeDependent(**{**settings, **fields})


def test_a_batch_norm_in_training_mode_is_a_warning_in_a_pickled_module() -> None:
    (hit,) = module_hits(batch_norm("layer1.bn", tracks_statistics=True, training=True))
    assert (hit.layer, hit.severity, hit.confidence) == ("layer1.bn", Severity.WARNING, Confidence.HIGH)
    assert "eval()" in hit.advice
    assert "layer1.bn" not in hit.message


def test_a_scripted_module_is_an_error() -> None:
    (hit,) = hits(RULE, part([batch_norm(training=True)], carrier=Carrier.SCRIPT, traced=False))
    assert hit.severity is Severity.ERROR
    assert hit.confidence is Confidence.HIGH


def test_a_traced_module_is_silent_because_only_its_constants_count() -> None:
    assert not hits(RULE, part([batch_norm(training=True)], carrier=Carrier.SCRIPT, traced=True))


def test_a_constant_in_the_code_goes_before_the_flag() -> None:
    layer = batch_norm(training=True, graph_training=False)
    assert not hits(RULE, part([layer], carrier=Carrier.SCRIPT, traced=False))


def test_when_it_is_not_known_whether_a_script_was_traced_confidence_is_medium() -> None:
    (hit,) = hits(RULE, part([batch_norm(training=True)], carrier=Carrier.SCRIPT))
    assert hit.confidence is Confidence.MEDIUM


def test_eval_mode_and_an_unknown_mode_are_silent() -> None:
    assert not module_hits(batch_norm(training=False), batch_norm("b", training=None))


def test_a_state_dict_does_not_say() -> None:
    assert not hits(RULE, part([batch_norm(training=True)]))


@pytest.mark.parametrize("kind", [NormKind.LAYER, NormKind.GROUP, NormKind.RMS, NormKind.FROZEN_BATCH])
def test_kinds_without_modes_are_never_listed(kind: NormKind) -> None:
    assert not module_hits(batch_norm(kind=kind, training=True, tracks_statistics=None))


@pytest.mark.parametrize("affine", [True, False])
def test_instance_norm_is_listed_with_tracking_only(affine: bool) -> None:
    gamma = (1.0, 1.0, 1.0) if affine else None
    common: dict[str, Any] = {"kind": NormKind.INSTANCE, "training": True, "gamma": gamma, "beta": gamma}
    assert not module_hits(batch_norm(tracks_statistics=False, **WITHOUT_STATISTICS, **common))
    (hit,) = module_hits(batch_norm(tracks_statistics=True, **common))
    assert "each sample" in hit.message


def test_a_batch_norm_without_statistics_is_left_to_bn204() -> None:
    assert not module_hits(batch_norm(training=True, tracks_statistics=False, **WITHOUT_STATISTICS))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("dropout", "zeroes"),
        ("recurrent", "between its layers"),
        ("attention", "attention weights"),
        ("rrelu", "slopes"),
        ("stochastic-depth", "skips"),
    ],
)
def test_every_other_kind_says_what_it_does(kind: str, words: str) -> None:
    (hit,) = module_hits(mode_dependent=(other(kind=kind),))
    assert words in hit.message


def test_dropout_and_norms_have_different_remedies() -> None:
    found = module_hits(batch_norm(training=True), mode_dependent=(other(),))
    assert len({hit.advice for hit in found}) == 2


def test_dropout_with_p_0_and_with_unknown_p_are_silent() -> None:
    assert not module_hits(mode_dependent=(other(probability=0.0), other(name="d2", probability=None)))


def test_monte_carlo_dropout_beside_norms_in_eval_names_the_dropout_only() -> None:
    found = module_hits(batch_norm(training=False), mode_dependent=(other(),))
    assert [hit.layer for hit in found] == ["drop"]


def test_a_backbone_that_keeps_its_norms_in_eval_is_silent_about_them() -> None:
    backbone = [batch_norm(f"backbone.bn{i}", training=False, requires_grad=False) for i in range(3)]
    assert [h.layer for h in module_hits(*backbone, batch_norm("head.bn", training=True))] == ["head.bn"]


def test_a_hidden_module_is_left_to_bn207() -> None:
    hidden = HiddenModule(
        path="norms[0]", class_name="BatchNorm1d", training=True, mode_dependent=("norms[0]",), in_training=True
    )
    assert not module_hits(batch_norm("norms[0]", training=True), hidden=(hidden,))


def test_the_page_numbers_are_torchs() -> None:
    norm = torch.nn.BatchNorm1d(1, affine=False)
    for batch in ((2.0, 4.0), (6.0, 8.0)):
        training = norm(torch.tensor(batch)[:, None])
    assert norm.running_mean.item() == pytest.approx(0.97)
    assert norm.running_var.item() == pytest.approx(1.19)
    assert training[0].item() == pytest.approx(-1.0, abs=1e-4)
    assert norm.eval()(torch.tensor([[6.0], [8.0]]))[0].item() == pytest.approx(4.61, abs=5e-3)


def test_a_run_adds_how_far_the_outputs_moved() -> None:
    subject = description(part([batch_norm(training=True)], name="model", carrier=Carrier.MODULE))
    saved = AsSaved(shift=LARGE, random=False)
    (hit,) = run_hits(RULE, saved, subject=subject, part="model")
    says = (
        "; as saved, the outputs differ from those in eval mode by 0.5 (0.25 of the largest output), 3 of 4 decisions"
    )
    assert hit.message.endswith(f"{says} flip")
    (random,) = run_hits(RULE, AsSaved(shift=LARGE, random=True), subject=subject, part="model")
    assert random.message.endswith(", and are random")


@pytest.mark.parametrize("fields", [{"part": "ema"}, {"part": "model", "exact": True}])
def test_another_part_and_equal_outputs_add_nothing(fields: dict[str, Any]) -> None:
    subject = description(part([batch_norm(training=True)], name="model", carrier=Carrier.MODULE))
    shift = EXACT if fields.pop("exact", False) else LARGE
    (hit,) = run_hits(RULE, AsSaved(shift=shift, random=False), subject=subject, **fields)
    assert "as saved" not in hit.message
