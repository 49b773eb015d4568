"""BN301: companions that move a prediction, and the places where samples meet."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from builders import batch_norm, description, part
from measured import EXACT, LARGE, NOISE, mixing, place, run_hits, shift, swap

from bnaudit.auditing import conclude
from bnaudit.description import Carrier, Description, HiddenModule, NormKind
from bnaudit.measurement import BatchSize, EvalDropout, Mixing, PoisonedBatch, Repeat
from bnaudit.mixing_causes import usual_cause
from bnaudit.results import Confidence, Hit, Severity
from bnaudit.session import RandomCall

RULE = "bn301_neighbour_dependent_prediction"


def norm_mixing(layer: str = "bn1", **fields: Any) -> Mixing:
    settings = {"is_norm": True, "by_configuration": True, **fields}
    return mixing(layer, "BatchNorm2d", "aten.native_batch_norm", layer=layer, **settings)


def test_each_place_where_samples_meet_is_a_hit_of_its_own() -> None:
    first, second = run_hits(RULE, swap(mixing("pool"), norm_mixing("bn2", first=False)))
    assert (first.layer, second.layer) == ("pool", "bn2")
    assert first.severity is None
    assert first.confidence is Confidence.HIGH
    # 64 · 0.5 / (0.5 / (2 · 2⁻²³)) = 64 · 2 · 2⁻²³ = 1.53e-5
    assert (first.value, first.limit) == (0.5, 1.5e-5)
    assert "with other companions a prediction differs by 0.5 (0.25 of the largest output), 3 of 4" in first.message


def test_exact_and_undecided_swaps_are_silent() -> None:
    assert not run_hits(RULE, swap(other=EXACT, scaled=EXACT, leaks=False))
    assert not run_hits(RULE, swap(mixing(), other=NOISE, scaled=NOISE, leaks=None))


def test_noise_is_silent_and_a_leak_within_it_that_float64_shows_is_not() -> None:
    assert not run_hits(RULE, swap(mixing(), other=NOISE, scaled=NOISE, leaks=False, double=EXACT))
    double = shift(4e-7, epsilons=4e-7 / (2 * 2.0**-52))
    (hit,) = run_hits(RULE, swap(mixing(), other=NOISE, scaled=NOISE, double=double))
    assert hit.value == 4e-7


def test_a_leak_within_noise_that_the_gradient_shows_is_found() -> None:
    assert len(run_hits(RULE, swap(mixing(), other=NOISE, scaled=NOISE, influence=0.01))) == 1


def test_a_higher_limit_is_obeyed() -> None:
    assert not run_hits(RULE, swap(mixing()), limits={"epsilons": 1e9})


def test_what_is_seen_only_with_larger_companions_says_so() -> None:
    (hit,) = run_hits(RULE, swap(mixing(), other=EXACT, scaled=LARGE))
    assert hit.message.startswith("with its companions × 100 a prediction differs by 0.5")


def test_a_faint_leak_that_only_larger_companions_show_has_their_number() -> None:
    """Both within noise: float64 decided."""
    (hit,) = run_hits(RULE, swap(mixing(), other=EXACT, scaled=NOISE))
    assert hit.value == 4e-7 and hit.message.startswith("with its companions × 100 a prediction differs by 4e-07")


def test_alone_against_with_companions_is_the_size_when_it_was_measured() -> None:
    (hit,) = run_hits(RULE, swap(mixing(), alone=shift(0.25, flips=1, decisions=4), smallest_set=1))
    assert hit.message.startswith(
        "a prediction alone and with companions differs by 0.25 (0.12 of the largest output), "
        "1 of 4 decisions flips, one companion is enough: "
    )
    assert hit.value == 0.25


def test_values_that_become_nan_have_no_number() -> None:
    inf = float("inf")
    (hit,) = run_hits(RULE, swap(mixing(), other=shift(inf, epsilons=inf)))
    assert "between a number and none" in hit.message
    assert (hit.value, hit.limit) == (inf, None)


@pytest.mark.parametrize(("located", "says"), [(True, "no operator was seen"), (False, "was not located")])
def test_without_a_place_there_is_one_hit_on_the_artifact(located: bool, says: str) -> None:
    (hit,) = run_hits(RULE, swap(located=located))
    assert hit.layer is None
    assert says in hit.message


def test_two_operators_of_one_module_are_one_hit() -> None:
    places = mixing("head", source="net.py:7"), mixing("head", operator="aten.std", source="net.py:8")
    (hit,) = run_hits(RULE, swap(*places))
    assert "aten.mean.dim in Head, net.py:7; aten.std in Head, net.py:8" in hit.message


def test_the_root_module_has_a_name_and_an_unnamed_node_has_none() -> None:
    (hit,) = run_hits(RULE, swap(mixing("", "Net", "aten._softmax")))
    assert hit.layer == ""
    graph = description(part([], carrier=Carrier.GRAPH))
    (hit,) = run_hits(RULE, swap(mixing("", "Softmax", "Softmax")), subject=graph)
    assert hit.layer is None


@pytest.mark.parametrize(
    ("class_name", "operator", "says"),
    [
        ("Net", "aten._softmax.default", "axis of the classes"),
        ("", "LogSoftmax", "axis of the classes"),
        ("Net", "aten.cumsum.default", "dim=1 or dim=-1"),
        ("", "TopK", "dim=1 or dim=-1"),
        ("LSTM", "aten.addmm.default", "batch_first"),
        ("", "GRU", "batch_first"),
        ("MultiheadAttention", "aten.bmm.default", "batch_first"),
        ("Net", "aten._scaled_dot_product_flash_attention_for_cpu.default", "batch_first"),
        ("Linear", "quantized.linear_dynamic.default", "quantize statically"),
        ("", "DynamicQuantizeLinear", "quantize statically"),
        ("MinibatchStd", "aten.var.correction", "as a buffer"),
        ("", "ReduceMean", "as a buffer"),
        ("Net", "aten.amax.default", "inside one sample"),
        ("Net", "aten.linalg_vector_norm.default", "inside one sample"),
        ("Net", "aten.mm.default", "stored references"),
        ("", "Einsum", "stored references"),
        ("Net", "aten.native_batch_norm.default", "training=self.training"),
        ("Spread", "aten.sub_.Tensor", "as a buffer"),
        ("", "Mul", "as a buffer"),
        ("Net", "aten.roll.default", "axis 0"),
        ("LearnNorm", "aten.sub.Tensor", "as a buffer"),
        ("TransformerBlock", "aten.sub.Tensor", "as a buffer"),
        ("QuantileClip", "aten.mul.Tensor", "as a buffer"),
        ("NormalizedHead", "aten.cumsum.default", "dim=1 or dim=-1"),
        ("Conv1d", "aten.convolution.default", "(batch, channels, places)"),
        ("Net", "aten.native_layer_norm.default", "before it"),
        ("Net", "aten._cdist_forward.default", "stored references"),
        ("Net", "aten.gt.Tensor", "as a buffer"),
    ],
)
def test_the_advice_names_the_usual_cause(class_name: str, operator: str, says: str) -> None:
    assert says in usual_cause(mixing("x", class_name, operator)).advice


def test_what_gathered_the_batch_says_more_than_where_its_value_enters() -> None:
    amax = place("head", "Head", "aten.amax.default", "net.py:8")
    (hit,) = run_hits(RULE, swap(mixing("head", "Head", "aten.div.Tensor", "net.py:9", gathered=amax)))
    assert "inside one sample" in hit.advice
    assert "(aten.amax.default in Head, net.py:8; aten.div.Tensor in Head, net.py:9)" in hit.message


def test_a_reshape_that_lays_the_samples_elsewhere_is_where_to_look() -> None:
    view = place("neck", "Neck", "aten.view", "net.py:8")
    (hit,) = run_hits(RULE, swap(mixing("fc", "Linear", "aten.addmm", "net.py:9", arranged=view)))
    assert hit.layer == "neck" and "reshape" in hit.advice
    (hit,) = run_hits(RULE, swap(mixing("rnn", "LSTM", "aten.addmm", "net.py:9", arranged=view)))
    assert hit.layer == "rnn" and "batch_first" in hit.advice


def test_what_was_mixed_unseen_has_no_layer() -> None:
    (hit,) = run_hits(RULE, swap(mixing("fc", "Linear", "aten.addmm", unseen=True)))
    assert hit.layer is None and "in no operator that was seen" in hit.message


def test_nodes_of_one_scope_with_one_cause_are_one_hit() -> None:
    graph = description(part([], carrier=Carrier.GRAPH))
    nodes = [mixing(f"/middle/{operator}", operator, operator) for operator in ("Sub", "Mul")]
    other = mixing("/middle/Softmax", "Softmax", "Softmax")
    hits = run_hits(RULE, swap(*nodes, other, mixing("/head/Sub", "Sub", "Sub")), subject=graph)
    assert [hit.layer for hit in hits] == ["/middle/Sub", "/middle/Softmax", "/head/Sub"]
    assert "(Sub; Mul)" in hits[0].message
    rootless = [mixing(operator, operator, operator) for operator in ("Sub", "Mul")]
    assert [hit.layer for hit in run_hits(RULE, swap(*rootless), subject=graph)] == ["Sub", "Mul"]


@pytest.mark.parametrize("kind", [NormKind.LAYER, NormKind.GROUP, NormKind.INSTANCE])
def test_a_norm_of_single_samples_was_handed_several_as_one(kind: NormKind) -> None:
    (hit,) = run_hits(RULE, swap(mixing("ln", "LayerNorm", "aten.native_layer_norm", is_norm=True, kind=kind)))
    assert "several samples as one" in hit.message and "training" not in hit.advice


def test_a_norm_without_statistics_is_advised_as_in_its_static_rule() -> None:
    (hit,) = run_hits(RULE, swap(norm_mixing()))
    assert "track_running_stats" in hit.advice
    (hit,) = run_hits(RULE, swap(norm_mixing(by_configuration=False)))
    assert "training=self.training" in hit.advice


def test_a_hidden_norm_in_training_mode_is_told_by_its_own_rule() -> None:
    hidden = HiddenModule(path="blocks[0]", class_name="Block", training=True, mode_dependent=(), in_training=True)
    subject = description(part([], carrier=Carrier.MODULE, hidden=(hidden,)))
    assert not run_hits(RULE, swap(norm_mixing("blocks[0].bn")), subject=subject)
    assert len(run_hits(RULE, swap(norm_mixing("blocks[0]x.bn")), subject=subject)) == 1


def test_a_module_made_in_forward_is_named_as_such() -> None:
    (hit,) = run_hits(RULE, swap(mixing("pool", hidden=True)))
    assert "not registered or made in forward()" in hit.message


def test_an_operator_that_draws_does_not_mix() -> None:
    """onnxruntime resets no seeds: rows go into a dropout equal and come out unequal."""
    graph = description(part([], carrier=Carrier.GRAPH))
    shown = swap(norm_mixing("bn1"), mixing("/drop/Dropout", "Dropout", "Dropout"))
    call = RandomCall(place=place("drop", "Dropout", "Dropout"), is_dropout=True)
    assert [hit.layer for hit in run_hits(RULE, shown, EvalDropout(call=call, calls=1), subject=graph)] == ["bn1"]
    repeat = Repeat(in_a_row=LARGE, restored=LARGE, random=(call,))
    assert [hit.layer for hit in run_hits(RULE, shown, repeat, subject=graph)] == ["bn1"]


def test_a_nan_that_spreads_is_a_note() -> None:
    exact = swap(other=EXACT, scaled=EXACT, leaks=False)
    (hit,) = run_hits(RULE, exact, PoisonedBatch(place=place("mask", "Mask", "aten.mul", "net.py:9")))
    assert (hit.layer, hit.severity) == ("mask", Severity.NOTE)
    assert hit.message.endswith("aten.mul in Mask, net.py:9")
    (hit,) = run_hits(RULE, exact, PoisonedBatch(place=None))
    assert hit.layer is None


def test_a_norm_that_mixes_by_configuration_is_one_finding_of_this_rule() -> None:
    assert [hit.layer for hit in static_hits()] == ["bn1"]
    assert run_findings(untracked()) == ["BN301"]
    assert run_findings(untracked(), ran=False) == ["BN204"]


def untracked() -> Description:
    layer = batch_norm("bn1", mean=None, var=None, counter=None, tracks_statistics=False)
    return description(part([layer], carrier=Carrier.MODULE))


def static_hits() -> list[Hit]:
    from builders import hits

    return hits("bn204_batch_statistics_in_eval", *untracked().parts)


def run_findings(subject: Description, ran: bool = True) -> list[str]:
    from measured import measured

    from bnaudit.measuring import Run
    from bnaudit.rules import load_rule
    from bnaudit.settings import Settings

    rules = [load_rule(RULE), load_rule("bn204_batch_statistics_in_eval")]
    shown = measured(swap(norm_mixing()), probes=("neighbours",)) if ran else None
    return [finding.rule for finding in conclude(subject, Settings(), rules, ran=Run(subject, shown)).findings]


def test_the_page_is_what_torch_does() -> None:
    norm = torch.nn.BatchNorm1d(1, affine=False, track_running_stats=False).eval()
    assert norm(torch.tensor([[6.0], [8.0]]))[0].item() == pytest.approx(-1.0, abs=1e-4)
    assert norm(torch.tensor([[6.0], [4.0]]))[0].item() == pytest.approx(1.0, abs=1e-4)
    scores = torch.tensor([[1.0, 2.0], [1.0, 2.0]])
    assert scores.softmax(dim=0)[0].tolist() == [0.5, 0.5]
    assert scores.softmax(dim=1)[0].tolist() == pytest.approx([0.2689, 0.7311], abs=5e-5)


def test_samples_that_meet_along_a_guessed_axis_are_a_note_that_decides_nothing() -> None:
    (hit,) = run_hits(RULE, swap(mixing("lstm", "LSTM", "aten.lstm"), undecided="axis 0 was guessed"))
    assert (hit.severity, hit.undecided) == (Severity.NOTE, "axis 0 was guessed")
    (hit,) = run_hits(RULE, swap(mixing("lstm", "LSTM", "aten.lstm")))
    assert (hit.severity, hit.undecided) == (None, "")


def test_a_quantized_recurrent_layer_takes_its_range_from_the_batch() -> None:
    assert "ranges" in usual_cause(mixing("lstm", "LSTM", "aten.quantized_lstm")).advice
    assert "batch_first" in usual_cause(mixing("lstm", "LSTM", "aten.lstm")).advice


def test_one_difference_beyond_a_higher_limit_is_enough() -> None:
    assert len(run_hits(RULE, swap(mixing(), other=LARGE, scaled=NOISE), limits={"epsilons": 128.0})) == 1
    assert not run_hits(RULE, swap(mixing(), other=NOISE, scaled=NOISE), limits={"epsilons": 128.0})


def test_what_was_looked_for_and_not_found_is_advised_otherwise_than_what_was_not_looked_for() -> None:
    (found_none,) = run_hits(RULE, swap(located=True))
    (not_located,) = run_hits(RULE, swap(located=False))
    assert found_none.advice.startswith("look for state outside of the graph")
    assert not_located.advice.startswith("run it again with a larger budget")


def test_that_a_batch_of_one_is_refused_is_told_of_norms_alone() -> None:
    refused = BatchSize(one=None, raised="ValueError: Expected more than 1 value per channel when training")
    norm, other = run_hits(RULE, swap(norm_mixing(), mixing("pool")), refused)
    assert norm.message.endswith("; the model raises an error for a batch of one")
    assert "batch of one" not in other.message


def test_a_reshape_that_gathered_the_samples_is_where_to_look_and_one_that_mixes_is_its_own_place() -> None:
    view = place("neck", "Neck", "aten.view", "net.py:8")
    (hit,) = run_hits(RULE, swap(mixing("fc", "Net", "aten.mul", "net.py:9", gathered=view)))
    assert hit.layer == "neck" and "reshape" in hit.advice
    (hit,) = run_hits(RULE, swap(mixing("neck", "Neck", "aten.view", "net.py:8")))
    assert hit.layer == "neck" and "reshape" in hit.advice


def test_what_rearranged_the_samples_is_named_with_what_then_mixed_them() -> None:
    view = place("neck", "Neck", "aten.view", "net.py:8")
    (hit,) = run_hits(RULE, swap(mixing("fc", "Linear", "aten.addmm", "net.py:9", arranged=view)))
    assert hit.message.endswith("(aten.view in Neck, net.py:8; aten.addmm in Linear, net.py:9)")


def test_a_functional_norm_of_a_program_has_the_name_that_the_program_gives_it() -> None:
    layers = [batch_norm("head.batch_norm", graph_training=True)]
    program = description(part(layers, carrier=Carrier.PROGRAM))
    call = mixing("head", "Head", "aten.native_batch_norm", is_norm=True)
    (hit,) = run_hits(RULE, swap(call), subject=program)
    assert hit.layer == "head.batch_norm"
    (hit,) = run_hits(RULE, swap(mixing("head")), subject=program)
    assert hit.layer == "head"


def test_norms_of_one_scope_are_told_apart() -> None:
    graph = description(part([], carrier=Carrier.GRAPH), part([], name="other", carrier=Carrier.STATE_DICT))
    norms = [mixing(f"/middle/{name}", "BatchNormalization", "BatchNormalization", is_norm=True) for name in ("a", "b")]
    assert [hit.layer for hit in run_hits(RULE, swap(*norms), subject=graph)] == ["/middle/a", "/middle/b"]
    nodes = [mixing(f"/middle/{operator}", operator, operator) for operator in ("Sub", "Mul")]
    assert [hit.layer for hit in run_hits(RULE, swap(*nodes), subject=graph)] == ["/middle/Sub"]


def test_a_norm_in_inference_form_whose_statistics_the_batch_moved_is_not_called_otherwise() -> None:
    (hit,) = run_hits(RULE, swap(mixing("bn1", layer="bn1", is_norm=True)))
    assert "a norm normalizes with statistics of the batch" in hit.message and "training" not in hit.message
    assert hit.advice.endswith("change the running statistics in training mode only")


def test_a_norm_is_told_though_an_operator_of_its_name_draws() -> None:
    call = RandomCall(place=place("bn1", "BatchNorm2d", "aten.native_batch_norm"), is_dropout=True)
    (hit,) = run_hits(RULE, swap(norm_mixing()), EvalDropout(call=call, calls=1))
    assert hit.layer == "bn1"


@pytest.mark.parametrize(
    ("fields", "begins"),
    [
        ({"alone": NOISE}, "with other companions"),
        ({"alone": LARGE}, "a prediction alone and with companions"),
        ({"other": NOISE, "scaled": NOISE}, "with other companions"),
        ({"other": NOISE, "scaled": LARGE}, "with its companions × 100"),
        ({"other": LARGE, "scaled": LARGE}, "with other companions"),
        ({"other": EXACT, "scaled": NOISE}, "with its companions × 100"),
        ({"other": EXACT, "scaled": None}, "with other companions"),
    ],
)
def test_the_difference_that_shows_the_leak_is_the_one_told(fields: dict[str, Any], begins: str) -> None:
    (hit,) = run_hits(RULE, swap(mixing(), **fields))
    assert hit.message.startswith(begins)
