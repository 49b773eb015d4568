"""What a triage came to, in a sentence: the same for all that show a Diagnosis."""

from __future__ import annotations

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
    return "Not explained: nothing that was replayed gives these scores."


def _of_log(diagnosis: Diagnosis) -> str:
    log = diagnosis.log
    if log is None or not log.differing:
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
        lines = [tried.hypothesis.advice for tried in diagnosis.explanations[:_MOST_CLAIMS]]
        return tuple(dict.fromkeys(line for line in lines if line))
    if found is Conclusion.CONSISTENT:
        return tuple(f"to make it exact, log {match.needs}" for match in diagnosis.families if match.consistent)
    return log_advice(diagnosis.log)


def log_advice(log: LogEvidence | None) -> tuple[str, ...]:
    """What to do after a log, and what to log next."""
    if log is None:
        return ()
    said = [_REMEDIES[cause] for cause in log.points_to] if len(log.points_to) == 1 else []
    if log.points_to:
        said.append("to be sure of the layers, replay it: bnaudit triage MODEL --inputs x.npz --observed LOG")
    return (*said, *(f"log {need}" for need in log.needs))


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:.2g}"
