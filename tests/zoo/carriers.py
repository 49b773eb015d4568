"""One architecture of the sample in one carrier: trained, run where it can be run, and with a fault."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import nn
from zoo import architectures
from zoo.inputs import batch
from zoo.judging import Heard, as_record, false_alarms, hear, loud, outcome
from zoo.mode_faults import MEASURED, plant
from zoo.moving import NoForwardError, move, tracking
from zoo.writing import WAYS, NotWrittenError, write

from bnaudit import audit

SAMPLES = 16
"""Of a training batch, and of the batch that the audit runs: drawn alike, so that the statistics fit the inputs."""
SAMPLES_WITHOUT = 8
"""The same for a net without statistics that could fit or not."""
BATCHES = 3
"""Batches that are averaged, for statistics that are as good as those of a trained net."""
EXAMPLE = 4
"""Samples that tracers and exporters are shown."""
BUDGET = 30.0
"""Seconds after which an audit begins no further forward."""
SHORT_BUDGET = 2.0
"""The same where the fault is in the saved state, which is read without running anything."""
SECOND_FIRST = {"torchscript": 0.5, "onnx": 0.25}
"""How often the second way to write a carrier is tried first: tracing, and torch.export, which takes its time."""


def examine(piece: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What came of it, in plain values; `not_written` where torch has no way to write the net in this carrier."""
    name, carrier, seed = piece["name"], piece["task"], piece["seed"]
    kind = architectures.kind(name)
    net = architectures.build(name, seed)
    random = Random(f"{seed}:{name}:{carrier}")
    record: dict[str, Any] = {"artifacts": {}}
    try:
        size = move(net, kind, seed, SAMPLES, BATCHES, piece["least"]) or _smallest(net, kind, seed)
    except NoForwardError as error:
        return {**record, "unmoved": str(error)}
    net.eval()
    never_ran = {key for key, norm in tracking(net) if not int(norm.num_batches_tracked or 0)}
    samples = SAMPLES if tracking(net) else SAMPLES_WITHOUT
    inputs = batch(net, kind, size, samples, torch.Generator().manual_seed(seed + 1))
    run = _Run(carrier, kind, size, inputs, folder, _ways(carrier, random))
    try:
        before = run.audited(net, record, "trained")
        alarms = false_alarms(before.findings, never_ran)
        record["artifacts"]["trained"]["false_alarms"] = alarms
        planted = plant(net, "traced" if record.get("way") == "traced" else carrier, random)
        if planted is None:
            return record
        heard = run.audited(net, record, "faulty", quick=not (planted.of_mode and carrier == "live"))
    except NotWrittenError as error:
        return {**record, "not_written": str(error)}
    rules = (planted.planted.rule, *(MEASURED if planted.of_mode else ()))
    by_rule = [outcome(planted.planted._replace(rule=rule), heard.findings, before.findings) for rule in rules]
    told = max(by_rule, key=lambda each: (each.located, each.found))
    told = told._replace(beside=[each for each in told.beside if not each["rule"].startswith(planted.consequences)])
    record["artifacts"]["faulty"] |= as_record(planted.planted, told, heard.findings)
    return record


def _ways(carrier: str, random: Random) -> list[str]:
    """The ways to write it. By chance the second one is tried first, so that both stand in the sample."""
    ways = list(WAYS[carrier][1]) if carrier in WAYS else []
    return ways[::-1] if random.random() < SECOND_FIRST.get(carrier, 0.0) else ways


def _smallest(net: nn.Module, kind: str, seed: int) -> int:
    """The smallest side that a net without tracked statistics takes in eval mode. Raises NoForwardError."""
    from zoo.inputs import shrink, sizes

    why = ""
    net.eval()
    for size in sizes(net, kind):
        shrink(net, size)
        try:
            with torch.no_grad():
                net(*batch(net, kind, size, 2, torch.Generator().manual_seed(seed)))
            return size
        except Exception as error:  # whatever a net raises at a size that it is not made for
            why = f"{type(error).__name__}: {error}"
    raise NoForwardError(" ".join(why.split())[:300])


class _Run:
    """Audits a net in one carrier; files are deleted at once."""

    def __init__(
        self, carrier: str, kind: str, size: int, inputs: tuple[Any, ...], folder: Path, ways: list[str]
    ) -> None:
        self.carrier, self.kind, self.size, self.inputs = carrier, kind, size, inputs
        self.folder, self.ways = folder, ways

    def audited(self, net: nn.Module, record: dict[str, Any], label: str, quick: bool = False) -> Heard:
        """What the audit says. Files are not run where `quick`, nor those of detectors, which take lists of images
        that have no batch axis. Raises NotWrittenError."""
        given = {"inputs": self.inputs[0] if len(self.inputs) == 1 else self.inputs}
        if self.carrier == "live":
            return self._timed(net, record, label, {**given, "budget": SHORT_BUDGET if quick else BUDGET})
        example = tuple(argument[:EXAMPLE] for argument in self.inputs)
        path, way = write(self.carrier, net, example, self.folder, self.ways)
        self.ways = [way]  # the fault is planted in what was audited without it
        record["way"] = way
        try:
            static = quick or self.kind == "detection"
            run = {**given, "run": True, "budget": BUDGET}
            return self._timed(path, record, label, {"static": True} if static else run)
        finally:
            path.unlink()

    def _timed(self, subject: Any, record: dict[str, Any], label: str, options: dict[str, Any]) -> Heard:
        start = time.perf_counter()
        report = audit(subject, **options)
        seconds = time.perf_counter() - start
        heard = hear(report)
        artifact = {"seconds": seconds, "layers": len(heard.layers), "crash": heard.crash}
        measured = [each.measured for each in report.audits]
        artifact["forwards"] = sum(each.forwards for each in measured if each is not None)
        artifact["not_run"] = "; ".join(each.not_run for each in report.audits)[:300]
        artifact["verdicts"] = {v.question.value: v.outcome.value for each in report.audits for v in each.verdicts}
        artifact["told_rightly"] = len(loud(heard.findings))
        record["artifacts"][label] = artifact
        return heard
