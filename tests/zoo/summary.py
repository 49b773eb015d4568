"""The zoo as a table, for the terminal and for the README."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from zoo.totals import Totals, exceptions, total

TASKS = ("state-dict", "onnx", "torchscript", "live", "pt2")


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """A row per carrier, how many architectures there are, and the time of one audit."""
    head = f"{'':<12}{'audited':>9}{'artifacts':>11}{'layers':>9}{'false alarms':>14}{'crashes':>9}"
    head += f"{'planted':>9}{'found':>7}{'located':>9}"
    whole = total(records)
    rows = [_row(task, total(records, {task})) for task in TASKS]
    median, decile, largest = total(records, {"state-dict"}).seconds
    return "\n".join([
        head, *rows, _row("all", whole), "",
        f"{whole.audited:,} of {whole.architectures:,} architectures audited; one audit of a state dict: "
        f"median {1e3 * median:.0f} ms, ninth decile {1e3 * decile:.0f} ms, longest {1e3 * largest:.0f} ms",
    ])  # fmt: skip


def section(records: Sequence[Mapping[str, Any]], versions: Mapping[str, str], day: date, cores: int) -> str:
    """The block of the README."""
    left_out = "\n".join(f"{len(names):>5} × {why}" for why, names in exceptions(records).items())
    named = ", ".join(f"{name} {versions[name]}" for name in ("bnaudit", "torch", "torchvision", "timm"))
    machine = f"Python {versions['python']}, {cores} cores"
    return f"```text\n{table(records)}\n\nnot audited\n{left_out}\n```\n\n{day.isoformat()} · {machine} · {named}.\n"


def _row(label: str, t: Totals) -> str:
    start = f"{label:<12}{t.audited:>9,}{t.artifacts:>11,}{t.layers:>9,}{t.false_alarms:>14}{t.crashes:>9}"
    return f"{start}{t.planted:>9,}{t.found:>7,}{t.located:>9,}"
