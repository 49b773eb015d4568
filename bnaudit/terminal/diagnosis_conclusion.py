"""What a triage came to, in a sentence: the same for all that show a Diagnosis."""

from __future__ import annotations

from math import isfinite

from bnaudit.diagnosis import Conclusion, Diagnosis, LogEvidence

CAUSES = {
    "companions": "companions: a score depends on the other inputs of its batch",
    "randomness": "randomness: something is drawn anew in every forward",
    "history": "history: the state that answers changes between requests",
}
_REMEDIES = {
    "companions": "call eval() before serving, and look for what mixes the samples of a batch: bnaudit inspect",
    "randomness": "call eval() before serving, and look for dropout that eval() does not reach: bnaudit inspect",
    "history": "call eval() before serving, so that no request updates the statistics, and serve one saved state",
}
_AS_SAVED = "eval-as-saved"
_EXACT_SCORES = "the model as saved fits, too: log logits, with all their decimals, before anything is changed"
_MORE_TIME = "give it more time, --budget 10m: not everything was tried"
_ELSEWHERE = (
    "look at what a replay cannot know: whether production serves this file (bnaudit compare) and receives these inputs"
)
_MOST_CLAIMS = 4


def conclusion(diagnosis: Diagnosis) -> str:
    """One sentence, with the layers."""
    if diagnosis.artifact is None:
        return _of_log(diagnosis)
    found = diagnosis.conclusion
    claims = [tried.hypothesis.claim for tried in diagnosis.explanations]
    if found is Conclusion.NOTHING_TO_EXPLAIN:
        return "Nothing to explain: the scores are those of the model in eval as saved."
    if found is Conclusion.EXPLAINED:
        return f"Explained: {claims[0]}."
    if found is Conclusion.UP_TO_PRECISION:
        return f"Explained up to a precision of {_number(diagnosis.precision)}: {claims[0]}."
    if found is Conclusion.SEVERAL:
        return f"Several explanations fit, {len(claims)} of them: {_some(claims)}."
    if found is Conclusion.CONSISTENT:
        matches = [match.claim for match in diagnosis.families if match.consistent]
        return f"Consistent with, and not proved: {', or '.join(matches)}."
    if found is Conclusion.NEAREST and claims:
        return f"Not explained. The nearest, which is no explanation: {claims[0]}."
    if not any(isfinite(tried.residual) for tried in diagnosis.tried):
        return "No answer: nothing could be replayed."
    return "Not explained: nothing that was replayed gives these scores."


def _of_log(diagnosis: Diagnosis) -> str:
    log = diagnosis.log
    if log is None or not log.repeated:
        return "The log alone proves nothing: no input was observed more than once."
    if not log.differing:
        return "The log alone shows no difference: no repeated input has different scores."
    if not log.points_to:
        return "The log alone proves nothing: the differences may be those of float arithmetic or of ties."
    first = CAUSES[log.points_to[0]]
    if len(log.points_to) == 1:
        return f"Proved by the log: one input has different scores, and the cause is {first}."
    return f"Proved by the log: one input has different scores. The cause may be {' or '.join(log.points_to)}."


def _some(claims: list[str]) -> str:
    shown = "; or ".join(claims[:_MOST_CLAIMS])
    return f"{shown}; and {len(claims) - _MOST_CLAIMS} more" if len(claims) > _MOST_CLAIMS else shown


def advice(diagnosis: Diagnosis) -> tuple[str, ...]:
    """What to do, one line each."""
    found = diagnosis.conclusion
    if found is Conclusion.NOTHING_TO_EXPLAIN:
        return ("compare the inputs that were really served with those given here, if predictions are still wrong",)
    if diagnosis.explanations and found is not Conclusion.NEAREST:
        every = [tried.hypothesis for tried in diagnosis.explanations]
        if found is Conclusion.SEVERAL and any(each.name == _AS_SAVED for each in every):
            return (_EXACT_SCORES,)
        return tuple(dict.fromkeys(each.advice for each in every[:_MOST_CLAIMS] if each.advice))
    if found is Conclusion.CONSISTENT:
        return tuple(f"to make it exact, log {match.needs}" for match in diagnosis.families if match.consistent)
    if diagnosis.artifact is None:
        return log_advice(diagnosis.log)
    short = any("--budget" in need for _, need in diagnosis.untried)
    return (_MORE_TIME if short else _ELSEWHERE,)


def log_advice(log: LogEvidence | None, *, alone: bool = True) -> tuple[str, ...]:
    """What to do after a log, and what to log next. alone: no model was given, with which it can be replayed."""
    if log is None:
        return ()
    said = [_REMEDIES[cause] for cause in log.points_to] if len(log.points_to) == 1 else []
    if log.points_to and alone:
        said.append("to be sure of the layers, replay it: bnaudit triage MODEL --inputs x.npz --observed LOG")
    return (*said, *(f"log {need}" for need in log.needs))


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:.2g}"
