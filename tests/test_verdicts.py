from __future__ import annotations

from typing import Any

import pytest
from builders import batch_norm, description, part
from measured import measured

from bnaudit.auditing import conclude
from bnaudit.description import Carrier, Gap, GraphInput, HiddenModule, Part
from bnaudit.measurement import Answer, Unmeasured
from bnaudit.measuring import Run
from bnaudit.records import replace
from bnaudit.results import Acceptance, Confidence, Finding, Outcome, Question, Severity, Verdict
from bnaudit.settings import Settings
from bnaudit.verdicts import verdicts


def decide(*parts: Part, findings: tuple[Finding, ...] = (), **fields: Any) -> dict[Question, Outcome]:
    found = verdicts(description(*parts, **fields), findings, ())
    return {verdict.question: verdict.outcome for verdict in found}


def finding(question: Question, fails: bool = True, undecided: str = "") -> Finding:
    return Finding(
        rule="BN101",
        name="missing-running-buffers",
        severity=Severity.ERROR if fails else Severity.NOTE,
        confidence=Confidence.HIGH,
        artifact="model.pt",
        part="",
        layer="bn1",
        message="m",
        value=None,
        limit=None,
        advice="a",
        channels=(),
        question=question,
        fails=fails,
        undecided=undecided,
        fingerprint="0" * 16,
    )


def graph(**fields: Any) -> Part:
    return part([batch_norm(graph_training=False)], carrier=Carrier.GRAPH, operators=3, **fields)


def test_a_state_dict_decides_its_buffers_and_nothing_else() -> None:
    outcomes = decide(part([batch_norm()]))
    assert outcomes.pop(Question.BUFFERS) is Outcome.PASSED
    assert set(outcomes.values()) == {Outcome.NOT_CHECKED}


def test_what_passed_is_counted_over_all_parts() -> None:
    model, average = part([batch_norm("bn1"), batch_norm("bn2")], "model"), part([batch_norm("bn1")], "ema")
    (buffers, *_) = verdicts(description(model, part([], "head"), average), (), ())
    assert buffers.reason == "3 layers in 2 parts, none lacks a statistic"
    (buffers, *_) = verdicts(description(part([], "head"), average), (), ())
    assert buffers.reason == "1 layer, none lacks a statistic"
    (_, eval_mode, *_) = verdicts(description(graph(name="a"), graph(name="b")), (), ())
    assert eval_mode.reason == "2 norms, in inference form"


def test_a_norm_that_computes_its_statistics_is_not_counted_as_in_inference_form() -> None:
    layers = [batch_norm(graph_training=False, statistics_from_input=True, mean=None, var=None)]
    (_, eval_mode, *_) = verdicts(description(part(layers, carrier=Carrier.GRAPH)), (), ())
    assert eval_mode.reason == "no operator in training form"


def test_an_inference_graph_proves_its_mode_but_not_its_neighbours() -> None:
    outcomes = decide(graph())
    assert outcomes[Question.EVAL_MODE] is Outcome.PASSED
    assert outcomes[Question.FROZEN] is Outcome.PASSED
    assert outcomes[Question.NEIGHBOURS] is Outcome.NOT_CHECKED
    assert outcomes[Question.GAP] is Outcome.NOT_CHECKED


def test_a_batch_fixed_at_one_has_no_neighbours() -> None:
    fixed = GraphInput(name="x", dtype="float32", shape=(1, 3, 8, 8))
    free = GraphInput(name="x", dtype="float32", shape=("N", 3, 8, 8))
    assert decide(graph(inputs=(fixed,)))[Question.NEIGHBOURS] is Outcome.PASSED
    assert decide(graph(inputs=(free,)))[Question.NEIGHBOURS] is Outcome.NOT_CHECKED
    assert decide(graph(inputs=(fixed, free)))[Question.NEIGHBOURS] is Outcome.NOT_CHECKED


def test_training_form_fails_the_neighbours_too() -> None:
    outcomes = decide(part([batch_norm(graph_training=True)], carrier=Carrier.GRAPH))
    assert outcomes[Question.NEIGHBOURS] is Outcome.FAILED
    assert outcomes[Question.FROZEN] is not Outcome.PASSED


def test_a_module_saved_in_eval_mode_does_not_show_what_train_switches_on() -> None:
    saved_in_eval = part([batch_norm(training=False)], carrier=Carrier.MODULE)
    saved_in_training = part([batch_norm(training=True)], carrier=Carrier.MODULE)
    assert decide(saved_in_eval)[Question.FROZEN] is Outcome.NOT_CHECKED
    assert decide(saved_in_training)[Question.FROZEN] is Outcome.PASSED


def test_a_frozen_norm_in_eval_mode_beside_one_in_training_mode_proves_nothing() -> None:
    fresh, frozen = batch_norm("head", training=True), batch_norm("bn", training=False, requires_grad=False)
    assert decide(part([frozen, fresh], carrier=Carrier.MODULE))[Question.FROZEN] is Outcome.NOT_CHECKED


def test_buffers_of_modules_that_state_dict_misses_are_an_open_point() -> None:
    hidden = HiddenModule(
        path="norms[0]", class_name="BatchNorm2d", training=False, mode_dependent=(), in_training=False
    )
    outcomes = decide(part([batch_norm(training=False)], carrier=Carrier.MODULE, hidden=(hidden,)))
    assert outcomes[Question.BUFFERS] is Outcome.INCONCLUSIVE


def test_a_traced_script_is_fixed_and_a_scripted_one_is_not() -> None:
    def script(traced: bool) -> Part:
        return part([batch_norm(graph_training=False if traced else None)], carrier=Carrier.SCRIPT, traced=traced)

    assert decide(script(traced=True))[Question.EVAL_MODE] is Outcome.PASSED
    assert decide(script(traced=False))[Question.EVAL_MODE] is Outcome.NOT_CHECKED


def test_findings_fail_their_question_and_open_points_leave_it_open() -> None:
    outcomes = decide(graph(), findings=(finding(Question.BUFFERS),))
    assert outcomes[Question.BUFFERS] is Outcome.FAILED
    assert outcomes[Question.EVAL_MODE] is Outcome.PASSED
    open_point = finding(Question.BUFFERS, fails=False, undecided="give the model")
    assert decide(graph(), findings=(open_point,))[Question.BUFFERS] is Outcome.INCONCLUSIVE


def test_a_gap_that_may_hide_norm_layers_lets_nothing_pass() -> None:
    outcomes = decide(graph(), gaps=(Gap(where="code/x.py", why="not parsed"),))
    assert Outcome.PASSED not in outcomes.values()
    assert outcomes[Question.BUFFERS] is Outcome.INCONCLUSIVE
    harmless = Gap(where="data/0", why="sparse tensor", hides_norms=False)
    assert decide(graph(), gaps=(harmless,))[Question.BUFFERS] is Outcome.PASSED


def test_a_question_whose_rules_were_left_out_never_passes() -> None:
    found = verdicts(description(graph()), (), [("BN202", Question.EVAL_MODE)])
    by_question = {verdict.question: verdict for verdict in found}
    assert by_question[Question.EVAL_MODE].outcome is Outcome.NOT_CHECKED
    assert "BN202" in by_question[Question.EVAL_MODE].reason
    assert by_question[Question.FROZEN].outcome is Outcome.PASSED


def test_what_a_file_can_not_say_is_the_reason_also_when_rules_were_left_out() -> None:
    found = verdicts(description(part([batch_norm()])), (), [("BN202", Question.EVAL_MODE)])
    (verdict,) = [verdict for verdict in found if verdict.question is Question.EVAL_MODE]
    assert (verdict.outcome, verdict.reason) == (Outcome.NOT_CHECKED, "a state dict holds no code")


def test_the_worst_part_speaks() -> None:
    outcomes = decide(graph(name="a"), part([batch_norm()], name="b"))
    assert outcomes[Question.EVAL_MODE] is Outcome.NOT_CHECKED


@pytest.mark.parametrize("carrier", list(Carrier))
def test_without_a_run_the_gap_is_never_decided(carrier: Carrier) -> None:
    assert decide(part([batch_norm()], carrier=carrier))[Question.GAP] is Outcome.NOT_CHECKED


def ran(*answers: Answer, unmeasured: tuple[Unmeasured, ...] = ()) -> Run:
    return Run(None, measured(*answers, unmeasured=unmeasured))


def answer(question: Question, outcome: Outcome, reason: str = "measured") -> Answer:
    return Answer(question=question, outcome=outcome, reason=reason)


def verdict(question: Question, run: Run, *parts: Part, findings: tuple[Finding, ...] = ()) -> Verdict:
    found = verdicts(description(*(parts or (part([batch_norm()]),))), findings, (), run)
    return next(verdict for verdict in found if verdict.question is question)


@pytest.mark.parametrize("outcome", [Outcome.PASSED, Outcome.FAILED, Outcome.INCONCLUSIVE])
def test_what_a_run_shows_decides_what_the_file_leaves_open(outcome: Outcome) -> None:
    decided = verdict(Question.NEIGHBOURS, ran(answer(Question.NEIGHBOURS, outcome, "bit-exact")))
    assert (decided.outcome, decided.reason) == (outcome, "bit-exact")
    untouched = verdict(Question.GAP, ran(answer(Question.NEIGHBOURS, outcome)))
    assert untouched.outcome is Outcome.NOT_CHECKED


def test_a_graph_proves_what_its_run_could_not_check() -> None:
    blind = ran(answer(Question.EVAL_MODE, Outcome.NOT_CHECKED, "no norm operator was seen"))
    assert verdict(Question.EVAL_MODE, blind, graph()).outcome is Outcome.PASSED
    assert verdict(Question.EVAL_MODE, blind).reason == "no norm operator was seen"


def test_a_budget_that_ran_out_is_inconclusive_and_a_probe_that_could_not_run_not_checked() -> None:
    out = ran(unmeasured=(Unmeasured(probe="neighbours", why="the budget of 1 s ran out", inconclusive=True),))
    assert verdict(Question.NEIGHBOURS, out).outcome is Outcome.INCONCLUSIVE
    assert verdict(Question.NEIGHBOURS, out).reason == "the budget of 1 s ran out"
    raised = ran(unmeasured=(Unmeasured(probe="updates", why="train() raised"),))
    assert verdict(Question.FROZEN, raised).outcome is Outcome.NOT_CHECKED


def test_only_what_was_all_intended_is_excused() -> None:
    leak = ran(answer(Question.NEIGHBOURS, Outcome.FAILED, "moved by 0.3"))
    meant = replace(finding(Question.NEIGHBOURS, fails=False), intended=True)
    excused = verdict(Question.NEIGHBOURS, leak, findings=(meant,))
    assert excused.outcome is Outcome.PASSED
    assert excused.reason == "except as intended: missing-running-buffers (BN101) in 1 layer"
    other = finding(Question.EVAL_MODE)
    assert verdict(Question.NEIGHBOURS, leak, findings=(meant, other)).outcome is Outcome.FAILED
    assert verdict(Question.NEIGHBOURS, leak, findings=(other,)).outcome is Outcome.FAILED


def accepted(question: Question, **fields: Any) -> Finding:
    known = Acceptance(source="b.json", rule="BN1", reason="known", **fields)
    return replace(finding(question, fails=False), acceptance=known)


def test_what_is_accepted_passes_and_is_named() -> None:
    known = accepted(Question.BUFFERS)
    passed = verdict(Question.BUFFERS, ran(), findings=(known,))
    assert (passed.outcome, passed.reason) == (
        Outcome.PASSED,
        "except as accepted: missing-running-buffers (BN101) in 1 layer",
    )
    meant = replace(finding(Question.BUFFERS, fails=False), intended=True)
    both = verdict(Question.BUFFERS, ran(), findings=(known, meant)).reason
    assert both.startswith("except as intended: ") and "; except as accepted: " in both
    assert verdict(Question.BUFFERS, ran(), findings=(known, finding(Question.BUFFERS))).outcome is Outcome.FAILED


def test_an_accepted_leak_is_excused_under_every_question_that_it_fails() -> None:
    leak = ran(answer(Question.NEIGHBOURS, Outcome.FAILED, "moved by 0.3"))
    excused = verdict(Question.NEIGHBOURS, leak, findings=(accepted(Question.EVAL_MODE),))
    assert excused.outcome is Outcome.PASSED and "accepted" in excused.reason
    unrelated = verdict(Question.NEIGHBOURS, leak, findings=(accepted(Question.BUFFERS),))
    assert unrelated.outcome is Outcome.FAILED
    new = finding(Question.EVAL_MODE)
    assert verdict(Question.NEIGHBOURS, leak, findings=(accepted(Question.EVAL_MODE), new)).outcome is Outcome.FAILED
    training = part([batch_norm(graph_training=True)], carrier=Carrier.GRAPH)
    known = accepted(Question.EVAL_MODE)
    assert verdict(Question.NEIGHBOURS, ran(), training, findings=(known,)).outcome is Outcome.PASSED
    assert verdict(Question.NEIGHBOURS, ran(), training).outcome is Outcome.FAILED


def test_a_run_that_was_begun_and_failed_leaves_open_what_the_file_does_not_say() -> None:
    failed = Run(None, why_not="the model raised ValueError: 3 channels, not 1", tried=True, failed=True)
    open_point = verdict(Question.NEIGHBOURS, failed)
    assert (open_point.outcome, open_point.needs) == (Outcome.NOT_CHECKED, "a run that works")
    assert open_point.reason == "it could not be run"
    assert verdict(Question.BUFFERS, failed).outcome is Outcome.PASSED


@pytest.mark.parametrize(("begun", "outcome"), [(True, Outcome.INCONCLUSIVE), (False, Outcome.NOT_CHECKED)])
def test_a_question_of_which_a_rule_could_not_be_checked_does_not_pass(begun: bool, outcome: Outcome) -> None:
    stopped = Unmeasured(probe="repeats", why="the budget of 1 s was spent", needs="more time", inconclusive=begun)
    graph = description(part([batch_norm(graph_training=False)], carrier=Carrier.GRAPH))
    unfinished = [("BN302", Question.EVAL_MODE, stopped), ("BN306", Question.EVAL_MODE, stopped)]
    found = {each.question: each for each in verdicts(graph, (), (), None, unfinished)}
    assert found[Question.EVAL_MODE].outcome is outcome
    assert found[Question.EVAL_MODE].reason == "BN302, BN306 not checked: the budget of 1 s was spent"
    assert found[Question.EVAL_MODE].needs == "more time"
    assert found[Question.FROZEN].outcome is Outcome.PASSED


def test_statistics_that_were_folded_away_are_not_called_complete() -> None:
    folded = decide(part([], carrier=Carrier.GRAPH, folded="6 of 6 convolutions carry a bias"))
    assert folded[Question.BUFFERS] is Outcome.NOT_CHECKED
    assert decide(part([], carrier=Carrier.GRAPH))[Question.BUFFERS] is Outcome.PASSED


def test_a_folded_graph_has_no_buffers_to_require() -> None:
    hidden = HiddenModule(
        path="norms[0]", class_name="BatchNorm2d", training=False, mode_dependent=(), in_training=False
    )

    def open_questions(**fields: Any) -> tuple[Question, ...]:
        subject = description(part([], carrier=Carrier.GRAPH, **fields))
        required = (Question.BUFFERS, Question.NEIGHBOURS)
        audit = conclude(subject, Settings(require=required), ())
        return tuple(each.question for each in audit.undecided)

    assert open_questions(folded="6 of 6 convolutions carry a bias") == (Question.NEIGHBOURS,)
    assert open_questions(hidden=(hidden,)) == (Question.BUFFERS, Question.NEIGHBOURS)
