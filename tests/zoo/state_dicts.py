"""One architecture as state dicts: fresh, trained, and trained with a fault. Each is written, audited and deleted."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import nn
from zoo import architectures, faults
from zoo.judging import Heard, as_record, false_alarms, hear, loud, outcome
from zoo.moving import NoForwardError, affine_norms, move, tracking

from bnaudit import audit


def examine(name: str, seed: int, largest: int, folder: Path) -> dict[str, Any]:
    """What came of it, in plain values; `exception` where it has more than `largest` parameters."""
    parameters = architectures.parameters(name)
    record: dict[str, Any] = {"parameters": parameters, "family": architectures.family(name)}
    if parameters > largest:
        return {**record, "exception": f"larger than the bound of {largest // 10**6} M parameters"}
    net = architectures.build(name, seed)
    norms = [key for key, _ in tracking(net)]
    record |= {"tracking": len(norms), "affine": len(affine_norms(net)), "artifacts": {}}
    fresh = _audited(net.state_dict(), folder, record, "fresh")
    _judge(record, "fresh", fresh, _unseen(norms, fresh))
    try:
        record["size"] = move(net, architectures.kind(name), seed)
    except NoForwardError as error:
        return {**record, "unmoved": str(error)}
    state = net.state_dict()
    never_ran = _never_ran(net)
    record["never_ran"] = len(never_ran)
    moved = _audited(state, folder, record, "trained")
    _judge(record, "trained", moved, _unseen(norms, moved), never_ran)
    _plant(record, net, state, never_ran, moved, Random(f"{seed}:{name}"), folder)
    return record


def _never_ran(net: nn.Module) -> set[str]:
    """Batch norms that no forward in training mode reached."""
    return {key for key, norm in tracking(net) if not int(norm.num_batches_tracked or 0)}


def _unseen(norms: list[str], heard: Heard) -> list[str]:
    """Batch norms of the net that the audit did not list."""
    return sorted(set(norms) - set(heard.layers))


def _audited(state: faults.State, folder: Path, record: dict[str, Any], kind: str) -> Heard:
    path = folder / f"{kind}.pt"
    torch.save(state, path)
    try:
        start = time.perf_counter()
        report = audit(path, static=True)
        seconds = time.perf_counter() - start
    finally:
        path.unlink()
    heard = hear(report)
    record["artifacts"][kind] = {"seconds": seconds, "layers": len(heard.layers), "crash": heard.crash}
    return heard


def _judge(
    record: dict[str, Any], kind: str, heard: Heard, unseen: list[str], never_ran: set[str] | None = None
) -> None:
    alarms = false_alarms(heard.findings, never_ran or set())
    told = len(loud(heard.findings)) - len(alarms)
    record["artifacts"][kind] |= {"false_alarms": alarms, "told_rightly": told, "unseen": unseen}


def _plant(
    record: dict[str, Any],
    net: nn.Module,
    state: faults.State,
    never_ran: set[str],
    before: Heard,
    random: Random,
    folder: Path,
) -> None:
    ran = [key for key, _ in tracking(net) if key not in never_ran]
    faulty = faults.copy_of(state)
    planted = faults.plant(faulty, faults.Layers(ran, affine_norms(net)), random)
    if planted is None:
        return
    heard = _audited(faulty, folder, record, "faulty")
    told = outcome(planted, heard.findings, before.findings)
    record["artifacts"]["faulty"] |= as_record(planted, told, heard.findings)
