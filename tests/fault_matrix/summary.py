"""The matrix in a few lines, from the JSON that `make faults` wrote: for the terminal and for the README."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def summary(told: Mapping[str, Any]) -> str:
    """Recall, places, silence, openness and false alarms over all cells, each with its counts."""
    t, draws = told["totals"], told["draws"]
    lines = [
        f"{t['cells']:,} cells: {t['faults']} faults of {t['rules']} rules × {t['architectures']} architectures × "
        f"{t['carriers']} carriers",
        f"recall        {_percent(t['found'], t['shown'])} where the carrier can show the fault",
        f"located       {_percent(t['located'], t['placed'])} at the right layers and no others",
        f"near misses   {_percent(t['silent'], t['near_misses'])} silent, just under the limit",
        f"not shown     {_percent(t['undecided'], t['asked'])} left open where the carrier cannot show it",
        f"healthy       {_percent(t['healthy_right'], t['healthy'])} of the nets as they have to be",
        f"false alarms  {t['false_alarms']} over {t['healthy_layers']:,} healthy layers: "
        f"{t['false_alarms_per_thousand_layers']:.2f} per thousand",
    ]
    if draws:
        right, drawn = sum(each["right"] for each in draws), sum(each["draws"] for each in draws)
        lines.append(f"draws         {_percent(right, drawn)} at half and at twice a limit judged rightly")
    return "\n".join(lines)


def section(told: Mapping[str, Any]) -> str:
    """The block of the README."""
    m = told["machine"]
    versions = ", ".join(f"{name} {m[name]}" for name in ("bnaudit", "torch", "onnx", "onnxruntime", "numpy"))
    machine = f"Python {m['python']}, {m['system']}, {m['cores']} cores"
    run = f"run again after a mend: {told['again']}" if told["again"] else f"{told['seconds'] / 60:.0f} min"
    return f"```text\n{summary(told)}\n```\n\n{told['date']} · {run} · {machine} · {versions}.\n"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.4g} % ({part:,} of {whole:,})" if whole else "– (no cell)"
