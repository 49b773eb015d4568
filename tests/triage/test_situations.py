"""What else may have been given: requests, companions, parts, graphs, some columns, a stated precision, little time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from planted_causes import (
    FOLDER,
    MODEL,
    both,
    epsilon,
    filled,
    inputs,
    logged,
    lost,
    net,
    norms,
    scores,
    training,
)

from bnaudit.diagnosis import Conclusion, Diagnosis, Observed
from bnaudit.errors import UnreadableError, UsageError
from bnaudit.records import replace
from bnaudit.run_options import RunOptions
from bnaudit.triaging import triage
from sample_models import digits


def only_answer(found: Diagnosis) -> str:
    assert found.conclusion is Conclusion.EXPLAINED, found.reason
    return found.explanations[0].hypothesis.key


def test_logged_requests_are_replayed_as_batches_in_the_order_of_the_log() -> None:
    rows = np.random.default_rng(0).permutation(24)
    requests = np.repeat(np.arange(6), 4)[np.random.default_rng(1).permutation(24)]
    made = np.zeros((24, 10))
    for request in range(6):
        members = np.flatnonzero(requests == request)
        made[members] = scores(net(), inputs()[rows[members]], training())
    observed = logged(made, "rounded", rows=rows, requests=requests)
    assert only_answer(triage(None, observed, RunOptions(model=net(), inputs=inputs()))) == "training-mode + requests"


@pytest.mark.parametrize("each", [False, True])
def test_given_companions_stand_beside_every_input(each: bool) -> None:
    many = inputs(80)[24:]
    beside = np.stack([many[2 * row : 2 * row + 2] for row in range(24)]) if each else many[:5]
    made = np.concatenate(
        [
            scores(net(), np.concatenate([inputs()[row : row + 1], beside[row] if each else beside]), training())[:1]
            for row in range(24)
        ]
    )
    found = triage(None, logged(made, "float32"), RunOptions(model=net(), inputs=inputs()), companions=beside)
    assert only_answer(found) == "training-mode + companions"


@pytest.fixture
def two_parts(tmp_path: Path) -> tuple[Path, torch.nn.Module]:
    """A checkpoint with raw and averaged weights, and the averaged model."""
    averaged = net()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in averaged.parameters():
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator))
    path = tmp_path / "checkpoint.pt"
    torch.save({"state_dict": net().state_dict(), "state_dict_ema": averaged.state_dict()}, path)
    return path, averaged


def test_the_other_part_of_a_checkpoint_is_opened_and_replayed(two_parts: tuple[Path, torch.nn.Module]) -> None:
    path, averaged = two_parts
    options = RunOptions(model=digits.build, part="state_dict", inputs=inputs())
    found = triage(path, logged(scores(averaged, inputs()), "rounded"), options)
    assert only_answer(found) == "other-part:state_dict_ema + any"


def test_a_live_model_cannot_hold_two_parts(two_parts: tuple[Path, torch.nn.Module]) -> None:
    path, averaged = two_parts
    options = RunOptions(model=digits.build(), part="state_dict", inputs=inputs(), budget=1.0)
    found = triage(path, logged(scores(averaged, inputs()), "rounded"), options)
    assert found.conclusion is Conclusion.NOT_EXPLAINED
    assert any("state_dict_ema" in claim for claim, _ in found.untried)


@pytest.mark.parametrize(("change", "key"), [(training(), "training-mode + together"), (lost(), "lost-buffers + any")])
def test_a_graph_is_replayed_with_its_norms_changed(change: object, key: str) -> None:
    observed = logged(scores(net(), inputs(), change), "rounded")  # type: ignore[arg-type]
    graph = FOLDER / "healthy" / "norms_kept.onnx"
    assert only_answer(triage(graph, observed, RunOptions(inputs=inputs()))) == key


def test_some_columns_some_rows_and_gaps_are_enough() -> None:
    made = scores(net(), inputs(), lost())
    rows = np.random.default_rng(3).permutation(24)[:18]
    observed = replace(logged(made[rows][:, [2, 5]], "float32", rows=rows), columns=(2, 5))
    observed.values[4, 0] = np.nan
    assert only_answer(triage(None, observed, RunOptions(model=net(), inputs=inputs()))) == "lost-buffers + any"


def test_hypotheses_that_coincide_are_said_before_anything_is_looked_at() -> None:
    made = scores(net(), inputs(), filled("bias", 0.0))
    found = triage(None, logged(made, "labels"), RunOptions(model=net(), inputs=inputs(), budget=2.0))
    assert any(any("eval" in claim for claim in group) for group in found.coinciding)


def test_a_stated_precision_is_the_floor() -> None:
    made = scores(net(), inputs(), lambda model: model.half())
    observed = logged(made, "float32")
    without = triage(None, observed, RunOptions(model=net(), inputs=inputs()))
    assert only_answer(without) == "half-precision:float16 + any"
    stated = triage(None, observed, RunOptions(model=net(), inputs=inputs()), precision="fp16")
    assert stated.conclusion is Conclusion.NOTHING_TO_EXPLAIN


def test_inputs_that_tell_explanations_apart_are_named() -> None:
    made = scores(net(), inputs(4), lost())
    found = triage(None, logged(made, "labels"), RunOptions(model=net(), inputs=inputs(4), budget=3.0))
    assert (made.argmax(1) != scores(net(), inputs(4)).argmax(1)).any()
    assert found.conclusion is Conclusion.SEVERAL
    assert len(found.explanations) > 1


def test_what_there_was_no_time_for_is_untried_and_no_single_is_called_the_explanation() -> None:
    made = scores(net(), inputs(), lost())
    found = triage(None, logged(made, "float32"), RunOptions(model=net(), inputs=inputs(), budget=0.0))
    assert found.conclusion is not Conclusion.EXPLAINED
    assert ("the other hypotheses", "more time: --budget") in found.untried


def test_only_some_hypotheses_are_tried_when_they_are_named() -> None:
    made = scores(net(), inputs(), epsilon(1e-3))
    options = RunOptions(model=net(), inputs=inputs())
    found = triage(None, logged(made, "float32"), options, only=("epsilon",))
    assert only_answer(found) == "epsilon:0.001 + any"
    assert {each.hypothesis.name.partition(":")[0] for each in found.tried} == {"eval-as-saved", "epsilon"}


def test_the_model_is_left_as_it_was() -> None:
    live = net()
    before = {name: tensor.clone() for name, tensor in live.state_dict().items()}
    modes = [module.training for module in live.modules()]
    triage(None, logged(scores(net(), inputs(), training()), "rounded"), RunOptions(model=live, inputs=inputs()))
    assert all(torch.equal(before[name], tensor) for name, tensor in live.state_dict().items())
    assert [module.training for module in live.modules()] == modes
    assert all(module.eps == 1e-5 for module in norms(live).values())


def test_ten_whole_model_hypotheses_cost_few_forwards() -> None:
    made = scores(net(), inputs(), lost())
    chosen = ("training-mode", "lost-buffers", "epsilon", "half-precision")
    found = triage(None, logged(made, "float32"), RunOptions(model=net(), inputs=inputs()), only=chosen)
    whole = [each.hypothesis for each in found.tried if not each.hypothesis.layers and not each.hypothesis.singles]
    singles = [hypothesis for hypothesis in whole if hypothesis.batching != "alone"]
    assert only_answer(found) == "lost-buffers + any"
    assert len(singles) == 7


def test_scores_of_inputs_that_were_not_given_are_an_error() -> None:
    observed = logged(scores(net(), inputs()), "rounded", rows=range(1, 25))
    with pytest.raises(UnreadableError, match="input 24, and 24 inputs are given"):
        triage(None, observed, RunOptions(model=net(), inputs=inputs()))


def test_scores_without_one_finite_value_are_an_error() -> None:
    observed = Observed(values=np.full((24, 10), np.nan), kind=None, rows=np.arange(24))
    with pytest.raises(UnreadableError, match="no observed score is a finite number"):
        triage(None, observed, RunOptions(model=net(), inputs=inputs()))


def test_more_scores_than_the_model_has_outputs_are_an_error() -> None:
    observed = Observed(values=np.zeros((24, 11)), kind=None, rows=np.arange(24))
    with pytest.raises(UnreadableError, match="11 scores"):
        triage(MODEL, observed, RunOptions(model=digits.build, inputs=inputs()))


def test_missing_inputs_and_unknown_names_are_errors() -> None:
    observed = logged(scores(net(), inputs()), "rounded")
    with pytest.raises(UsageError, match="--inputs"):
        triage(None, observed, RunOptions(model=net()))
    with pytest.raises(UsageError, match="fp8"):
        triage(None, observed, RunOptions(model=net(), inputs=inputs()), precision="fp8")
    with pytest.raises(UsageError, match="nothing-known"):
        triage(None, observed, RunOptions(model=net(), inputs=inputs()), only=("nothing-known",))


def test_labels_of_eval_leave_nothing_to_explain_and_hardly_rule_anything_out() -> None:
    found = triage(None, logged(scores(net(), inputs()), "labels"), RunOptions(model=net(), inputs=inputs()))
    assert (found.conclusion, found.exit_code) == (Conclusion.NOTHING_TO_EXPLAIN, 0)
    half = scores(net(), inputs(), lambda model: model.half())
    assert (half.argmax(1) == scores(net(), inputs()).argmax(1)).all()
    assert any("float16" in claim for claim in found.unseen)


def test_a_fault_that_does_not_show_beside_the_explanation_is_said() -> None:
    made = scores(net(), inputs(), training())
    assert np.abs(made - scores(net(), inputs() * 255, training())).max() < 1e-3, "the first norm takes out the scale"
    found = triage(None, logged(made, "rounded"), RunOptions(model=net(), inputs=inputs()))
    assert only_answer(found) == "training-mode + together"
    assert "pixels were not divided by 255" in found.unseen
    assert any("were not loaded" in claim for claim in found.unseen), "training mode looks at no running statistics"
    assert not any("epsilon" in claim for claim in found.unseen)


def test_nothing_is_said_to_be_unseen_that_would_show() -> None:
    made = scores(net(), inputs(), lost())
    found = triage(None, logged(made, "float32"), RunOptions(model=net(), inputs=inputs()))
    assert only_answer(found) == "lost-buffers + any"
    assert not any("255" in claim or "training" in claim for claim in found.unseen)


def test_a_layer_that_does_not_show_is_said() -> None:
    names = list(norms(net()))
    with torch.no_grad():
        small = net()
        norms(small)[names[2]].bias.fill_(1e-6)
    made = scores(small, inputs(), filled("bias", 0.0))
    found = triage(None, logged(made, "rounded"), RunOptions(model=small, inputs=inputs()))
    assert only_answer(found) == "ignored-bias + any"
    others = ", ".join(names[:2])
    assert any("5 of 6 norm layers" in claim and others in claim for claim in found.unseen), found.unseen


def test_labels_prove_no_two_faults_at_once() -> None:
    made = scores(net(), inputs(), both(lost(), filled("bias", 0.0)))
    found = triage(None, logged(made, "labels"), RunOptions(model=net(), inputs=inputs(), budget=3.0))
    assert found.conclusion not in (Conclusion.EXPLAINED, Conclusion.UP_TO_PRECISION, Conclusion.NOTHING_TO_EXPLAIN)
