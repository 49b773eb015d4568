"""What a tool reported, read from its own output, and whether that is the defect.

One rule for all tools, bnaudit among them. The problems that a tool reports on a defective net, less those that it
reports on the healthy one, word by word, are sorted by what they speak of: the mode, companions, state that moves,
randomness, frozen layers, the stored statistics. If one speaks of something that the defect breaks, the tool *found*
it, whatever it calls it; a problem that fits no sort counts, too, for every defect. Where the form that a tool takes
is, bit for bit, the healthy net's, there is nothing to find: *not applicable*. A tool that ends in a traceback or says
nothing that can be read is *failed*, and found nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Set
from enum import Enum


class Verdict(str, Enum):
    """One cell of the table."""

    FOUND = "found"
    NOT_FOUND = "not found"
    NOT_APPLICABLE = "not applicable"
    FAILED = "failed"


class Sort(Enum):
    """What a reported problem speaks of."""

    MODE = "a layer or node in training mode"
    COMPANIONS = "an output that depends on the rest of the batch"
    STATE = "state that moves in evaluation"
    RANDOMNESS = "an output that changes from call to call"
    FROZEN = "frozen layers that change, or are in training mode"
    STATISTICS = "stored statistics that are missing, initial, impossible, or do not fit the data"
    UNRELATED = "something else"
    UNSORTED = "not known"


_LEAK = {Sort.MODE, Sort.COMPANIONS, Sort.STATE}
BREAKS: Mapping[str, Set[Sort]] = {
    "eval leak": _LEAK,
    "partial leak": _LEAK,
    "no tracking": {Sort.MODE, Sort.COMPANIONS, Sort.STATISTICS},
    "frozen but updating": {Sort.FROZEN, Sort.STATISTICS},
    "stale after freeze": {Sort.FROZEN, Sort.STATISTICS},
    "buffers stripped": {Sort.STATISTICS},
    "buffers reset": {Sort.STATISTICS},
    "exported in training mode": {*_LEAK, Sort.RANDOMNESS},
}
"""What each defect breaks."""

_SORTS: tuple[tuple[str, Sort], ...] = (
    # bnaudit's rules
    (r"BN(1\d\d|205|403|404) ", Sort.STATISTICS),
    (r"BN(201|202|203|206|207|401) ", Sort.MODE),
    (r"BN(204|211|301) ", Sort.COMPANIONS),
    (r"BN302 ", Sort.RANDOMNESS),
    (r"BN(306|402) ", Sort.STATE),
    (r"BN501 ", Sort.FROZEN),
    (r"BN\d+ ", Sort.UNRELATED),
    # the checks of pytest-torch and torchtest2
    (r"test_contract: eval_mode", Sort.MODE),
    (r"test_contract: batch_invariance|batch_independence: ", Sort.COMPANIONS),
    (r"test_contract: no_state_mutation", Sort.STATE),
    (r"test_contract: deterministic|eval_determinism: ", Sort.RANDOMNESS),
    (r"test_frozen|frozen_params: ", Sort.FROZEN),
    # Lightning-Bolts and the hand-written loops
    (r"the gradient of a sample's output reaches other samples|model: a sample alone", Sort.COMPANIONS),
    (r".*: frozen, ", Sort.FROZEN),
    (r".*: (dropout )?(in )?training mode", Sort.MODE),
    (r".*: (a counter and )?no (stored |running )?(statistics|mean)", Sort.STATISTICS),
    (r".*: (mean 0 and variance 1|NaN or inf|variance not above 0)", Sort.STATISTICS),
)


def sort_of(problem: str) -> Sort:
    """What a problem speaks of, by how it begins."""
    return next((sort for pattern, sort in _SORTS if re.match(pattern, problem)), Sort.UNSORTED)


def verdict(
    problems: frozenset[str] | None, healthy: frozenset[str] | None, breaks: Iterable[Sort], same: bool = False
) -> Verdict:
    """`same`: the form is the healthy net's. None: the output could not be read."""
    if same:
        return Verdict.NOT_APPLICABLE
    if problems is None or healthy is None:
        return Verdict.FAILED
    found = {sort_of(problem) for problem in problems - healthy}
    return Verdict.FOUND if found & {*breaks, Sort.UNSORTED} else Verdict.NOT_FOUND


def driver(text: str, code: int) -> frozenset[str] | None:
    """Our own scripts: the last line is {"problems": [...]}."""
    last = (text.strip().splitlines() or [""])[-1]
    if code != 0 or not last.startswith("{"):
        return None
    return frozenset(json.loads(last)["problems"])


def bnaudit(text: str, code: int) -> frozenset[str] | None:
    """`--format json`: the findings at warning or error. Exit codes: 0, 1 findings, 3 not all was checked."""
    if code not in (0, 1, 3):
        return None
    findings = [finding for artifact in json.loads(text)["artifacts"] for finding in artifact["findings"]]
    return frozenset(f"{each['rule']} {each['layer']}" for each in findings if each["severity"] in ("warning", "error"))


def picklescan(text: str, code: int) -> frozenset[str] | None:
    """Exit code 1: it calls the file infected."""
    if code not in (0, 1) or "SCAN SUMMARY" not in text:
        return None
    return frozenset({"infected"} if code == 1 else ())


_CONDITION = re.compile(r"^\s*\[(?:WARN|ERROR|ERR)\] (\w+) .*\n\s*(.*)", re.MULTILINE)


def model_clinic(text: str, code: int) -> frozenset[str] | None:
    """`exam`: conditions at WARN or ERROR with their first line."""
    if "DIAGNOSIS" not in text and "VERDICT" not in text:
        return None
    return frozenset(f"{name}: {detail.strip()}" for name, detail in _CONDITION.findall(text))


def onnx_doctor(text: str, code: int) -> frozenset[str] | None:
    """`check --output-format json`: code and message of every diagnostic at warning or error."""
    start = text.find("[")
    if start < 0:
        return None
    entries, _ = json.JSONDecoder().raw_decode(text[start:])
    return frozenset(f"{each['code']}: {each['message']}" for each in entries if each.get("severity") != "info")


_LINT = re.compile(r"^\[[WE]\] (LINT \|.*|FAILED.*)", re.MULTILINE)


def polygraphy(text: str, code: int) -> frozenset[str] | None:
    """`check lint`: its lint entries, and that it failed."""
    if "Runtime:" not in text:
        return None
    found = {line.partition(" | Runtime")[0] for line in _LINT.findall(text)}
    return frozenset(found | ({"failed"} if code else set()))


Reader = Callable[[str, int], "frozenset[str] | None"]
