"""Medians of whole processes, in turns after a warm-up, for files of growing size and for the ResNet-50."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.against.costs import Outcome, brought_in, run
from bench.against.environments import RAW
from bench.against.tools import Tool

SLOW = 15.0
"""Seconds: what takes longer is run once, and says so."""


class Samples:
    """What the runs of one tool gave."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.runs: list[Outcome] = []
        self.trouble = ""
        self.in_page_cache: int | None = None

    def add(self, outcome: Outcome) -> None:
        self.runs.append(outcome)
        if outcome.stopped:
            self.trouble = outcome.stopped
        elif self.tool.read(outcome.text, outcome.code) is None:
            lines = [line.strip() for line in (outcome.complaint or outcome.text).splitlines() if line.strip()]
            self.trouble = f"failed: {(lines or [f'exit code {outcome.code}'])[-1][:200]}"

    def run(self, path: Path, inputs: Path | None, environment: Mapping[str, str]) -> Outcome:
        return run(self.tool.argv(path, inputs), environment, _log(self.tool, path))

    def begin(self, path: Path, inputs: Path | None, environment: Mapping[str, str]) -> None:
        """The warm-up."""
        self.in_page_cache = brought_in(path, lambda: self.add(self.run(path, inputs, environment)))
        if not self.finished:
            self.runs.clear()

    @property
    def finished(self) -> bool:
        """Not to be run again."""
        return bool(self.trouble) or (len(self.runs) == 1 and self.runs[0].seconds > SLOW)

    def median(self, values: Sequence[float]) -> float | None:
        return None if self.trouble else statistics.median(values)


def in_turns(
    tools: Sequence[Tool], path: Path, inputs: Path | None, environment: Mapping[str, str], rounds: int
) -> list[Samples]:
    """`rounds` runs of each after a warm-up, which counts only where it is slow or fails.

    The warm-up begins without the file in the page cache, so that what it brings in can be counted.
    """
    all_samples = [Samples(tool) for tool in tools]
    for samples in all_samples:
        samples.begin(path, inputs, environment)
    for _ in range(rounds):
        for samples in all_samples:
            if not samples.finished:
                samples.add(samples.run(path, inputs, environment))
    return all_samples


def _log(tool: Tool, path: Path) -> Path:
    return RAW / "outputs" / f"{re.sub(r'[^a-z0-9.]+', '_', f'{tool.name}.{path.name}'.lower())}.txt"


def files(
    tools: Sequence[Tool], path: Path, megabytes: int, environment: Mapping[str, str], rounds: int
) -> list[dict[str, Any]]:
    """One line for each tool on one file."""
    lines = []
    for samples in in_turns(tools, path, None, environment, rounds):
        line = _line(samples) | {"format": path.suffix, "megabytes": megabytes, "size": path.stat().st_size}
        if not samples.trouble:
            line["in_page_cache"] = samples.in_page_cache
            line["reported_bytes"] = _reported(samples)
        lines.append(line)
        _print(line, f"{path.suffix} {megabytes} MB")
    return lines


def _reported(samples: Samples) -> int | None:
    """bnaudit's own count of bytes read; others report none."""
    if not samples.tool.ours:
        return None
    return int(json.loads(samples.runs[-1].text)["artifacts"][0]["bytes_read"])


def modules(
    tools: Sequence[Tool], path: Path, inputs: Path, environment: Mapping[str, str], rounds: int
) -> list[dict[str, Any]]:
    """One line for each tool on the live ResNet-50: seconds of the call alone, memory of the whole process."""
    lines = []
    for samples in in_turns(tools, path, inputs, environment, rounds):
        line = _line(samples) | {"format": "module"}
        if not samples.trouble:
            reports = [json.loads(outcome.text.strip().splitlines()[-1]) for outcome in samples.runs]
            line["seconds"] = statistics.median(report["seconds"] for report in reports)
            line["forwards"] = int(statistics.median(report["forwards"] for report in reports))
            line["reported"] = len(reports[0]["problems"])
        lines.append(line)
        _print(line, "ResNet-50")
    return lines


def _line(samples: Samples) -> dict[str, Any]:
    return {
        "tool": samples.tool.name,
        "seconds": samples.median([outcome.seconds for outcome in samples.runs]),
        "mebibytes": samples.median([outcome.mebibytes for outcome in samples.runs]),
        "runs": len(samples.runs),
        "trouble": samples.trouble,
    }


def _print(line: Mapping[str, Any], subject: str) -> None:
    if line["trouble"]:
        print(f"{subject:<22} {line['tool']:<40} {line['trouble']}", flush=True)
        return
    print(f"{subject:<22} {line['tool']:<40} {line['seconds']:>8.2f} s {line['mebibytes']:>7.0f} MiB", flush=True)


def ratios(lines: Sequence[dict[str, Any]]) -> None:
    """Add to each line its median against that of bnaudit on the same subject, in place; None where one is missing."""
    ours = {_subject(line): line for line in lines if str(line["tool"]).startswith("bnaudit")}
    for line in lines:
        own = ours.get(_subject(line))
        for unit in ("seconds", "mebibytes"):
            mine = None if own is None else own[unit]
            line[f"{unit}_ratio"] = None if not mine or line[unit] is None else line[unit] / mine


def _subject(line: Mapping[str, Any]) -> tuple[object, object]:
    return line["format"], line.get("megabytes")
