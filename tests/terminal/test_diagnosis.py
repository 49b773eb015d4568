"""A diagnosis on a terminal: the answer first, everything within the width, no name breaks it."""

from __future__ import annotations

import pytest
from diagnoses import HOSTILE, evidence, full, of_log, tried

from bnaudit.diagnosis import Conclusion
from bnaudit.records import replace
from bnaudit.terminal.diagnosis_conclusion import advice, conclusion
from bnaudit.terminal.diagnosis_lines import diagnosis_text


def shown(diagnosis: object, width: int = 80, *, in_full: bool = False, color: bool = False) -> str:
    return diagnosis_text(diagnosis, width, color, in_full)  # type: ignore[arg-type]


def test_the_answer_comes_before_the_numbers_and_what_to_do_between() -> None:
    text = shown(full())
    answer = text.index("Explained: layer1.bn2 ran in training mode, every input by itself.")
    todo, numbers = text.index("→ call model.eval() after loading"), text.index("Residuals, nearest first")
    assert answer < text.index("The residual of 0.0003 is at the floor") < todo < numbers


def test_ten_residuals_are_shown_and_all_of_them_on_demand() -> None:
    assert "account number 8" in shown(full())
    assert "account number 9" not in shown(full())
    assert "… and 6 more, all of them with --all" in shown(full())
    text = shown(full(), in_full=True)
    assert "account number 13" in text and "–" in text


def test_a_residual_is_told_in_floors_too() -> None:
    lines = [line for line in shown(full()).splitlines() if "layer1.bn2" in line and "0.0003" in line]
    assert "1.0" in lines[-1]
    assert "87.5 %" in lines[-1]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("end", list(Conclusion))
def test_no_line_is_wider_than_the_terminal(end: Conclusion, width: int) -> None:
    assert max(map(len, shown(full(end), width).splitlines())) <= width


@pytest.mark.parametrize(
    ("end", "says"),
    [
        (Conclusion.NOTHING_TO_EXPLAIN, "Nothing to explain"),
        (Conclusion.SEVERAL, "Several explanations fit, 2 of them: layer1.bn2 ran"),
        (Conclusion.NEAREST, "Not explained. The nearest, which is no explanation:"),
        (Conclusion.NOT_EXPLAINED, "Not explained: nothing that was replayed"),
        (Conclusion.CONSISTENT, "Consistent with, and not proved: dropout was in training mode."),
    ],
)
def test_each_conclusion_has_its_sentence(end: Conclusion, says: str) -> None:
    first = full().explanations[0]
    assert conclusion(full(end, explanations=(first, tried("or so", 3e-4)))).startswith(says)


def test_up_to_a_precision_says_which() -> None:
    assert "up to a precision of 0.0012: layer1.bn2" in conclusion(full(Conclusion.UP_TO_PRECISION, precision=1.2e-3))


def test_what_is_no_explanation_has_no_remedy() -> None:
    assert "call model.eval() after loading" not in advice(full(Conclusion.NEAREST))
    assert advice(full(Conclusion.CONSISTENT, explanations=())) == ("to make it exact, log nothing",)


def test_a_log_alone_names_the_cause_only_when_it_is_one() -> None:
    assert "the cause is companions" in conclusion(of_log("companions"))
    assert "The cause may be companions or history" in conclusion(of_log("companions", "history"))
    assert "proves nothing" in conclusion(of_log())
    assert "shows no difference" in conclusion(of_log(differing=0))
    assert "exit code 1" in shown(of_log("companions"))
    assert "exit code 3" in shown(of_log())


def test_a_log_without_repeated_inputs_shows_neither_a_difference_nor_none() -> None:
    alone = replace(of_log(differing=0), log=replace(evidence(differing=0), repeated=0))
    assert conclusion(alone) == "The log alone proves nothing: no input was observed more than once."


def test_what_was_not_replayed_is_not_said_to_give_other_scores() -> None:
    untried = (("all hypotheses", "more time: --budget"),)
    nothing = full(Conclusion.NOT_EXPLAINED, explanations=(), tried=(), untried=untried)
    assert conclusion(nothing) == "No answer: nothing could be replayed."
    assert "--budget" in advice(nothing)[0]


@pytest.mark.parametrize("end", list(Conclusion))
def test_every_conclusion_about_a_model_says_what_to_do_next(end: Conclusion) -> None:
    assert "\n→ " in shown(full(end))


@pytest.mark.parametrize("end", list(Conclusion))
def test_a_log_that_was_replayed_is_not_to_be_replayed(end: Conclusion) -> None:
    assert "replay it: bnaudit triage" not in " ".join(shown(full(end)).split())


def test_no_remedy_is_given_where_the_model_as_saved_fits_too() -> None:
    saved = tried("the model ran in eval", 3e-4, name="eval-as-saved")
    (line,) = advice(full(Conclusion.SEVERAL, explanations=(saved, tried("other epsilon", 3e-4))))
    assert "log logits" in line


def test_a_share_that_was_not_measured_is_not_printed() -> None:
    (match,) = full().families
    assert "nan" not in shown(full(families=(replace(match, inside=float("nan")),)))


def test_the_rest_is_all_there() -> None:
    text = " ".join(shown(full(Conclusion.SEVERAL)).split())
    for piece in (
        "0.25 × input 1 + 0.75 × input 3",
        "dropout: consistent; 90 % of the scores lie within draws",
        "training mode beside other inputs: needs --companions",
        "eval as saved = epsilon 0",
        "62 forwards, 1.5 s, PyTorch 2.13.0",
    ):
        assert piece in text


def test_hostile_names_cannot_reach_the_terminal() -> None:
    hostile = tried(HOSTILE, 1e-4, layers=(HOSTILE,))
    made = replace(full(observed=HOSTILE, tried=(hostile,), explanations=(hostile,)), reason=HOSTILE)
    text = shown(made)
    assert "\x1b" not in text and "\u202e" not in text and "\ud800" not in text
    assert "\x1b[1" in shown(full(), color=True)


def test_an_interrupted_triage_says_so() -> None:
    assert "Interrupted" in shown(full(interrupted=True))
    assert "exit code 130: interrupted" in " ".join(shown(full(interrupted=True)).split())
