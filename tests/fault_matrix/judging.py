"""One cell of the matrix: build, damage, write, audit, and hold what the audit says against what it must say."""

from __future__ import annotations

import copy
import hashlib
import re
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from fault_matrix.carriers import CARRIERS, survivors
from fault_matrix.registry import ARCHITECTURES, FAULTS
from fault_matrix.values import (
    Architecture,
    Cell,
    Expectation,
    Facet,
    Fault,
    NoEffectError,
    Outcome,
    Planting,
    Scope,
    tracked,
)
from run_time.subjects_of_runs import stands_at
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

import bnaudit
from bnaudit.records import replace
from bnaudit.results import Audit, Finding, Severity, Verdict
from bnaudit.results import Outcome as Decided
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings


@cache
def _healthy(architecture: str) -> nn.Module:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so small a net only waits for threads
    torch.manual_seed(0)
    net = ARCHITECTURES[architecture].build().eval()
    torch.set_num_threads(threads)
    return net


@cache
def inputs_of(architecture: str) -> tuple[torch.Tensor, ...]:
    """The 64 samples that every cell of the architecture is audited with."""
    return ARCHITECTURES[architecture].inputs()


def healthy(architecture: str) -> nn.Module:
    """A copy of the trained net, to damage at will."""
    return copy.deepcopy(_healthy(architecture))


def targets(architecture: str, fault: Fault) -> list[str]:
    """What the fault can hit there; empty: it cannot be planted, or what finds it is declared there as meant."""
    net = ARCHITECTURES[architecture]
    declared = {rule for design in net.designs for rule, _ in design.intended}
    if net.is_control or declared & {fault.rule, *fault.instead, *fault.hidden_by}:
        return []
    return [""] if fault.scope is Scope.NET else fault.targets(_healthy(architecture))


def planting(cell: Cell, fault: Fault | None) -> Planting:
    """The healthy net of a cell, with the layers chosen that the fault is to hit: the same each time."""
    rng = np.random.default_rng(list(hashlib.sha256("/".join(map(str, cell[:3])).encode()).digest()))
    scope = fault.scope if fault is not None else Scope.NET
    chosen: tuple[str, ...] = ()
    if fault is not None and scope is not Scope.NET:
        names = targets(cell.architecture, fault)
        chosen = tuple(names) if scope is Scope.ALL else (names[rng.integers(len(names))],)
    carrier, inputs = CARRIERS[cell.carrier], tuple(value.clone() for value in inputs_of(cell.architecture))
    return Planting(healthy(cell.architecture), inputs, carrier, scope, chosen, rng)


def judged(cell: Cell) -> Outcome:
    """Run one cell. Raises nothing: what breaks is an outcome that is not right, and the matrix goes on."""
    fault = FAULTS[cell.fault] if cell.fault else None
    rule, expected = fault.rule if fault else "", Expectation.SILENT
    torch.manual_seed(0)
    try:
        with tempfile.TemporaryDirectory() as folder:
            planted = planting(cell, fault)
            if fault is not None:
                fault.plant(planted)
            subject = planted.carrier.write(planted, Path(folder))
            expected = _expected(fault, planted, subject)
            trial = _Trial(cell, fault, ARCHITECTURES[cell.architecture], planted, expected)
            begin = time.perf_counter()
            audit = _audited(trial, subject, Path(folder))
            seconds = time.perf_counter() - begin
    except NoEffectError:
        return Outcome(cell, Expectation.NOWHERE, rule, right=True)
    except Exception as error:
        return Outcome(cell, expected, rule, right=False, why=f"{type(error).__name__}: {error}")
    return _outcome(trial, audit, seconds)


class _Trial(NamedTuple):
    """A cell whose net was damaged and written."""

    cell: Cell
    fault: Fault | None
    """None: the healthy net."""
    architecture: Architecture
    planted: Planting
    expected: Expectation


def _expected(fault: Fault | None, planted: Planting, subject: Any) -> Expectation:
    carrier = planted.carrier
    if fault is None or fault.severity is None:
        return Expectation.SILENT
    if carrier.name in fault.gone:
        return Expectation.GONE
    needs = set(fault.needs)
    if carrier.name == "ONNX, folded" and needs & {Facet.STATISTICS, Facet.EPSILON} and planted.layers:
        left = survivors(subject, {*tracked(planted.net), *planted.layers})
        # Only a batch norm can be folded: others compute their statistics.
        others = {layer for layer in planted.layers if not isinstance(planted.net.get_submodule(layer), _BatchNorm)}
        hit = tuple(layer for layer in planted.layers if layer in left or layer in others)
        if not hit:
            return Expectation.GONE if left and Facet.STATISTICS in needs else Expectation.UNSEEN
        planted.located = planted.located or hit
        needs -= {Facet.STATISTICS, Facet.NAMES, Facet.EPSILON}
    return Expectation.FOUND if carrier.holds(*needs) else Expectation.UNSEEN


def _audited(trial: _Trial, subject: Any, folder: Path) -> Audit:
    cell, fault, architecture, planted, _ = trial
    measured = (fault is None or fault.measured or cell.carrier == "live module") and planted.carrier.holds(Facet.RUNS)
    given: Any = planted.inputs[0] if len(planted.inputs) == 1 else planted.inputs
    if architecture.given is not None:
        given = architecture.given(planted.inputs)
    run = {"inputs": given, "run": True, "trust_pickle": True} if measured else {"static": True}
    intended = tuple(pair for design in architecture.designs for pair in design.intended) if cell.intended else ()
    settings = Settings(run=RunOptions(**{**run, **planted.options}), intended=intended)
    if fault is not None and fault.baseline:
        report = bnaudit.compare(_baseline(cell, fault, folder), subject, settings)
    else:
        report = bnaudit.audit(subject, settings)
    if report.unaudited:
        raise AssertionError(report.unaudited[0].why)
    (audit,) = report.audits
    if audit.failed:
        raise AssertionError(f"{audit.failed[0].rule} {audit.failed[0].name}: {audit.failed[0].error}")
    return audit


def _baseline(cell: Cell, fault: Fault, folder: Path) -> Any:
    """The healthy net, written into the carrier that the fault is compared with."""
    name = cell.carrier if fault.baseline == "same" else fault.baseline
    place = folder / "baseline"
    place.mkdir()
    sound = planting(Cell(cell.architecture, "", name), None)
    return sound.carrier.write(sound, place)


def _outcome(trial: _Trial, audit: Audit, seconds: float) -> Outcome:
    alarms = tuple(_told(each) for each in audit.findings if _is_alarm(each, trial))
    found = _found(audit, trial)
    located = _located(found, audit, trial) if found else None
    verdict = _verdict(audit, trial.fault)
    why = f"false alarm: {alarms[0]}" if alarms else _why(trial, audit, found, located, verdict)
    damaged = len(trial.planted.layers) if trial.expected is Expectation.FOUND else 0
    return Outcome(
        cell=trial.cell,
        expected=trial.expected,
        rule=trial.fault.rule if trial.fault is not None else "",
        right=not why,
        found=bool(found),
        located=located,
        false_alarms=alarms,
        verdict=verdict.outcome.value if verdict is not None else "",
        layers=sum(1 for _ in audit.description.layers) - damaged,
        seconds=seconds,
        why=why,
    )


def _told(finding: Finding) -> str:
    return f"{finding.rule} {finding.severity.label} at {finding.layer}: {finding.message}"


def _is_alarm(finding: Finding, trial: _Trial) -> bool:
    """Aloud, and neither of the fault nor of what the net does by design."""
    if finding.severity < Severity.WARNING:
        return False
    fault, expected = trial.fault, trial.expected
    by_design = {rule for design in trial.architecture.designs for rule in (design.rule, *design.also)}
    if finding.rule in by_design and not trial.cell.intended:
        return False
    if fault is None:
        return True
    # What was folded with other statistics changes what the layers behind it receive.
    shows = expected is Expectation.FOUND or (expected is Expectation.GONE and fault.measured)
    consequences = (fault.rule, *fault.instead, *fault.also) if shows else fault.also
    if "BN404" in consequences:  # where a norm that runs several times receives other values, its populations part
        consequences = (*consequences, "BN407")
    return trial.cell.carrier in fault.gone or finding.rule not in consequences


def _found(audit: Audit, trial: _Trial) -> list[Finding]:
    """The findings that are of the fault, in the severity that it must have, or by a rule in its place."""
    fault = trial.fault
    if fault is None or trial.expected is not Expectation.FOUND:
        return []
    severity = fault.severity_in.get(trial.cell.carrier, fault.severity)
    exact = [each for each in audit.findings if each.rule == fault.rule and each.severity is severity]
    other = [each for each in audit.findings if each.rule in fault.instead and each.severity >= (fault.severity or 0)]
    return exact or other


def _located(found: list[Finding], audit: Audit, trial: _Trial) -> bool | None:
    """Whether every damaged layer is named, and by the rule no other aloud; None where there are no names."""
    fault, planted, carrier = trial.fault, trial.planted, trial.planted.carrier
    assert fault is not None
    seen = carrier.holds(Facet.NAMES) and (not fault.measured or carrier.holds(Facet.OBSERVED))
    if fault.whole or not seen:
        return None
    places = planted.located if planted.located is not None else planted.layers
    loud = [each for each in audit.findings if each.rule == fault.rule and each.severity >= Severity.WARNING]
    called, told = ([_as_one_call(each, planted) for each in several] for several in (found, [*found, *loud]))
    named = all(any(stands_at(each, place) for each in called) for place in places)
    return named and all(any(stands_at(each, place) for place in (*places, *planted.also_at)) for each in told)


def _as_one_call(finding: Finding, planted: Planting) -> Finding:
    """The finding at the module itself: the older ONNX exporter numbers further calls of a module, `trunk.1_1`."""
    module = re.sub(r"(?:_|#)\d+$", "", finding.layer or "")
    modules = {name for name, _ in planted.net.named_modules()}
    again = planted.carrier.name.startswith("ONNX") and finding.layer not in modules and module in modules
    return replace(finding, layer=module) if again else finding


def _verdict(audit: Audit, fault: Fault | None) -> Verdict | None:
    if fault is None or fault.question is None:
        return None
    return next((each for each in audit.verdicts if each.question is fault.question), None)


def _why(trial: _Trial, audit: Audit, found: list[Finding], located: bool | None, verdict: Verdict | None) -> str:
    """What is not as it has to be, but for false alarms; "" for nothing."""
    fault, expected = trial.fault, trial.expected
    if fault is None:
        return _designs_missed(trial, audit) if trial.planted.carrier.holds(Facet.RUNS) else ""
    if expected is Expectation.FOUND:
        return _missed(fault, audit, found, located) or _decided_wrongly(fault, verdict)
    if expected is Expectation.SILENT and fault.unnoted and any(each.rule == fault.rule for each in audit.findings):
        return "a note just under the limit: " + "; ".join(map(_told, audit.findings))
    if expected is Expectation.UNSEEN and verdict is not None and verdict.outcome is Decided.PASSED:
        return f"{verdict.question.claim}: passed, which this carrier cannot tell"
    return ""


def _missed(fault: Fault, audit: Audit, found: list[Finding], located: bool | None) -> str:
    if not found:
        said = "; ".join(_told(each) for each in audit.findings if each.rule == fault.rule)
        return f"not found ({said or 'nothing of this rule'})"
    if located is False:
        return f"found at {sorted({str(each.layer) for each in audit.findings if each.rule == found[0].rule})}"
    return ""


def _decided_wrongly(fault: Fault, verdict: Verdict | None) -> str:
    """The question has to have failed; where the fault leaves it open, not to have passed. A note decides nothing."""
    if verdict is None or verdict.outcome is Decided.FAILED:
        return ""
    if fault.leaves_open:
        return f"{verdict.question.claim}: passed, {verdict.reason}" if verdict.outcome is Decided.PASSED else ""
    if fault.severity is Severity.NOTE:
        return ""
    return f"{verdict.question.claim}: {verdict.outcome.value}, {verdict.reason}"


def _designs_missed(trial: _Trial, audit: Audit) -> str:
    """Designs that are not reported aloud where they were not declared, or not as intended where they were."""
    cell, carrier = trial.cell, trial.planted.carrier
    for design in trial.architecture.designs:
        about = [each for each in audit.findings if each.rule in (design.rule, *design.also)]
        if carrier.holds(Facet.OBSERVED) and design.layer is not None:
            about = [each for each in about if stands_at(each, design.layer)]
        wanted = [each for each in about if each.intended == cell.intended]
        if not wanted or (not cell.intended and max(each.severity for each in wanted) < Severity.WARNING):
            return f"by design {design.rule} at {design.layer}: " + ("not declared" if cell.intended else "not found")
    return ""
