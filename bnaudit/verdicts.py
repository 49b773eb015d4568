"""The five verdicts: what the findings fail, what they leave open, and what a file alone can decide.

A file that holds no code cannot say what predictions will be, so most questions about a state dict are
*not checked*. Silence never means passed: a verdict passes only where the artifact itself proves it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from bnaudit.description import Carrier, Description, NormLayer, Part
from bnaudit.modes import is_frozen
from bnaudit.results import Finding, Outcome, Question, Verdict

if TYPE_CHECKING:
    from bnaudit.measurement import Measured, Unmeasured
    from bnaudit.measuring import Run

NEEDS = {
    Carrier.STATE_DICT: "the model: --model file.py:factory",
    Carrier.MODULE: "a run: --trust-pickle, which executes what the file says",
    Carrier.SCRIPT: "a run: --run, since a script can reach the file system",
    Carrier.PROGRAM: "a run: --run, since a program can reach the file system",
    Carrier.GRAPH: "a run of the graph",
}
"""What decides a question that the file alone does not."""
_PROBES = {
    Question.NEIGHBOURS: "neighbours",
    Question.EVAL_MODE: "eval_mode",
    Question.GAP: "train_eval_gap",
    Question.FROZEN: "updates",
}
"""The probe that answers a question."""

_Answer = tuple[Outcome, str, str]
_RANK = (Outcome.FAILED, Outcome.INCONCLUSIVE, Outcome.NOT_CHECKED, Outcome.PASSED)


def verdicts(
    description: Description,
    findings: Sequence[Finding],
    unselected: Sequence[tuple[str, Question | None]],
    ran: Run | None = None,
    unfinished: Sequence[tuple[str, Question | None, Unmeasured]] = (),
) -> tuple[Verdict, ...]:
    """One verdict per question. `unselected` are the rules (id, question) that were not asked for, `unfinished` those
    that were and lack what a probe did not measure.
    """
    return tuple(_verdict(question, description, findings, unselected, ran, unfinished) for question in Question)


def _verdict(
    question: Question,
    description: Description,
    findings: Sequence[Finding],
    unselected: Sequence[tuple[str, Question | None]],
    ran: Run | None,
    unfinished: Sequence[tuple[str, Question | None, Unmeasured]],
) -> Verdict:
    about = [finding for finding in findings if finding.question is question]
    failing = [finding for finding in about if finding.fails]
    if failing:
        return Verdict(question=question, outcome=Outcome.FAILED, reason=_by_rule(failing))
    excused = [finding for finding in about if finding.intended or finding.accepted]
    open_points = list(dict.fromkeys(finding.undecided for finding in about if finding.undecided))
    measured = _measured(question, ran.measured) if ran is not None and ran.measured is not None else None
    outcome, reason, needs = _answer(question, description, measured, ran)
    if outcome is Outcome.FAILED and (measured is not None or not open_points):
        # A leak that another question's finding explains stays a leak; what was all intended or accepted is excused.
        excused = excused or _accepted_leaks(question, findings)
        if not excused or any(finding.fails for finding in findings):
            return Verdict(question=question, outcome=outcome, reason=reason)
        outcome, reason, needs = Outcome.PASSED, "", ""
    if open_points:
        return Verdict(question=question, outcome=Outcome.INCONCLUSIVE, reason="; ".join(open_points))
    if outcome is Outcome.PASSED:
        withheld = _withheld(question, description, unselected) or _cut_short(question, unfinished)
        outcome, reason, needs = withheld or (outcome, _excuse(excused) or reason, needs)
    return Verdict(question=question, outcome=outcome, reason=reason, needs=needs)


def _accepted_leaks(question: Question, findings: Sequence[Finding]) -> list[Finding]:
    """Accepted findings that explain a failure of this question and stand under another.

    A layer that uses the batch in eval mode has one finding, and fails the neighbours and the gap as well.
    """
    if question not in (Question.NEIGHBOURS, Question.EVAL_MODE, Question.GAP):
        return []
    leaks = (Question.NEIGHBOURS, Question.EVAL_MODE)
    return [finding for finding in findings if finding.accepted and finding.question in leaks]


def _excuse(findings: Sequence[Finding]) -> str:
    """What passes only because the settings mean it, or the user accepts it; "" for nothing."""
    kinds = {"intended": [f for f in findings if f.intended], "accepted": [f for f in findings if not f.intended]}
    return "; ".join(f"except as {word}: {_by_rule(about)}" for word, about in kinds.items() if about)


def _measured(question: Question, measured: Measured) -> _Answer | None:
    """What the run says of a question; None where it says nothing."""
    answer = measured.answers.get(question)
    return (answer.outcome, answer.reason, answer.needs) if answer is not None else None


def _stopped(question: Question, ran: Run | None) -> _Answer | None:
    """Why the run does not say what it should."""
    if ran is not None and ran.measured is not None:
        for stopped in ran.measured.unmeasured:
            if stopped.probe == _PROBES.get(question):
                outcome = Outcome.INCONCLUSIVE if stopped.inconclusive else Outcome.NOT_CHECKED
                return outcome, stopped.why, stopped.needs
    if ran is not None and ran.tried:
        return Outcome.NOT_CHECKED, "it could not be run", "a run that works"
    return None


def _answer(question: Question, description: Description, measured: _Answer | None, ran: Run | None) -> _Answer:
    """The better of what the run and what the file says: a run decides, what it leaves open the file may prove."""
    answers = [_DECIDE[question](part) for part in description.parts]
    stated = min(answers, key=lambda answer: _RANK.index(answer[0]), default=_NOTHING)
    if measured is not None and (
        measured[0] is not Outcome.NOT_CHECKED or stated[0] in (Outcome.NOT_CHECKED, Outcome.INCONCLUSIVE)
    ):
        return measured
    if stated[0] is Outcome.PASSED and len(answers) > 1:
        return stated[0], _of_all(question, description.parts) or stated[1], stated[2]
    return (_stopped(question, ran) or stated) if stated[0] is Outcome.NOT_CHECKED else stated


def _withheld(
    question: Question, description: Description, unselected: Sequence[tuple[str, Question | None]]
) -> _Answer | None:
    """What keeps a question from passing: rules that were not asked, parts that were not read."""
    left_out = [id for id, decides in unselected if decides is question]
    if left_out:
        return Outcome.NOT_CHECKED, f"{', '.join(left_out)} not selected", "the whole set of rules"
    hiding = sum(gap.hides_norms for gap in description.gaps)
    if hiding:
        return Outcome.INCONCLUSIVE, f"{_count(hiding, 'part')} of the file not read (BN118)", ""
    return None


def _cut_short(question: Question, unfinished: Sequence[tuple[str, Question | None, Unmeasured]]) -> _Answer | None:
    """What was begun and not finished keeps a question open: one of its rules might have found something."""
    lacking = [(id, probe) for id, decides, probe in unfinished if decides is question]
    if not lacking:
        return None
    probe = lacking[0][1]
    outcome = Outcome.INCONCLUSIVE if probe.inconclusive else Outcome.NOT_CHECKED
    return outcome, f"{', '.join(id for id, _ in lacking)} not checked: {probe.why}", probe.needs


_NOTHING: _Answer = (Outcome.NOT_CHECKED, "no model in the file", "a file that holds a model")


def _buffers(part: Part) -> _Answer:
    if part.hidden:
        return Outcome.INCONCLUSIVE, f"{_count(len(part.hidden), 'module')} hidden from state_dict()", ""
    if keeping := _keeping(part):
        return Outcome.PASSED, f"{_count(keeping, 'layer')}, none lacks a statistic", ""
    if part.folded:
        return Outcome.NOT_CHECKED, "no batch norm is left: folded, if any was", "the checkpoint: bnaudit compare"
    return Outcome.PASSED, "no layer here keeps running statistics", ""


def _keeping(part: Part) -> int:
    """Layers that keep running statistics."""
    return sum(map(_keeps, part.layers))


def _keeps(layer: NormLayer) -> bool:
    return layer.running_mean is not None or layer.running_var is not None


def _eval_mode(part: Part) -> _Answer:
    if part.carrier is Carrier.STATE_DICT:
        return Outcome.NOT_CHECKED, "a state dict holds no code", NEEDS[part.carrier]
    if part.carrier is Carrier.MODULE:
        return Outcome.NOT_CHECKED, "forward() is not in the file", NEEDS[part.carrier]
    if part.carrier is Carrier.SCRIPT and not part.traced:
        return Outcome.NOT_CHECKED, "no call fixes a mode; only a run tells", NEEDS[part.carrier]
    return Outcome.PASSED, _inference_form(_fixed(part)), ""


def _fixed(part: Part) -> int:
    """Norms that the graph fixes in inference form, with statistics that it does not compute from its input."""
    return sum(layer.graph_training is False and not layer.statistics_from_input for layer in part.layers)


def _inference_form(norms: int) -> str:
    return f"{_count(norms, 'norm')}, in inference form" if norms else "no operator in training form"


def _of_all(question: Question, parts: Sequence[Part]) -> str:
    """What passed, counted over the parts of an artifact; "" where the answer for one says it for all."""
    keeping = [number for number in map(_keeping, parts) if number]
    if question is Question.BUFFERS and keeping:
        within = f" in {len(keeping)} parts" if len(keeping) > 1 else ""
        return f"{_count(sum(keeping), 'layer')}{within}, none lacks a statistic"
    if question is Question.EVAL_MODE:
        return _inference_form(sum(map(_fixed, parts)))
    return ""


def _neighbours(part: Part) -> _Answer:
    mixing = [layer for layer in part.layers if layer.kind.is_batch and layer.graph_training]
    if mixing:
        return Outcome.FAILED, f"{_count(len(mixing), 'batch norm')} in training form normalize with the batch", ""
    if part.carrier is Carrier.STATE_DICT:
        return Outcome.NOT_CHECKED, "a state dict holds no code", NEEDS[part.carrier]
    if _batch_of_one(part):
        return Outcome.PASSED, "fixed batch of one: no neighbours", ""
    return Outcome.NOT_CHECKED, "only a run with companions tells", NEEDS[part.carrier]


def _batch_of_one(part: Part) -> bool:
    shapes = [given.shape for given in part.inputs]
    return bool(shapes) and all(shape is not None and len(shape) > 1 and shape[0] == 1 for shape in shapes)


def _gap(part: Part) -> _Answer:
    if part.carrier is Carrier.STATE_DICT:
        return Outcome.NOT_CHECKED, "a state dict holds no code", NEEDS[part.carrier] + ", and your --inputs"
    return Outcome.NOT_CHECKED, "only a run in both modes tells", NEEDS[part.carrier] + ", and your --inputs"


def _frozen(part: Part) -> _Answer:
    if part.carrier in (Carrier.GRAPH, Carrier.PROGRAM) or (part.carrier is Carrier.SCRIPT and _has_no_modes(part)):
        updating = any(layer.graph_training and _keeps(layer) for layer in part.layers) or part.buffers_to_mutate
        if not updating:
            return Outcome.PASSED, "the graph updates no statistics", ""
        return Outcome.NOT_CHECKED, "which buffers should move is not in it", NEEDS[Carrier.STATE_DICT]
    if part.carrier is Carrier.MODULE and any(layer.training for layer in part.layers):
        if any(is_frozen(layer) and layer.training is False and _keeps(layer) for layer in part.layers):
            return Outcome.NOT_CHECKED, "frozen norms in eval mode: train() not seen", NEEDS[part.carrier]
        return Outcome.PASSED, "no frozen norm is in training mode", ""
    if part.carrier is Carrier.MODULE:
        return Outcome.NOT_CHECKED, "saved in eval mode: train() not seen", NEEDS[part.carrier]
    return Outcome.NOT_CHECKED, "what is frozen is not in the file", NEEDS[part.carrier]


def _has_no_modes(script: Part) -> bool:
    """A trace, whose modes are in its code, or a frozen script, whose norms are folded away."""
    return script.traced is True or (script.folded != "" and not script.layers)


_DECIDE: dict[Question, Callable[[Part], _Answer]] = {
    Question.BUFFERS: _buffers,
    Question.EVAL_MODE: _eval_mode,
    Question.NEIGHBOURS: _neighbours,
    Question.GAP: _gap,
    Question.FROZEN: _frozen,
}


def _by_rule(findings: Iterable[Finding]) -> str:
    counts: dict[str, int] = {}
    for finding in findings:
        label = f"{finding.name} ({finding.rule})"
        counts[label] = counts.get(label, 0) + (finding.layer is not None)
    return "; ".join(label + (f" in {_count(count, 'layer')}" if count else "") for label, count in counts.items())


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
