"""Gives the nine nets to every tool and says what each found. Raw outputs stay under .bench/rivals/outputs/."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.against.costs import run
from bench.against.environments import RAW
from bench.against.found import BREAKS, Verdict, verdict
from bench.against.tools import Tool

HEALTHY = "healthy"
WORKERS = 2
SECONDS = 180.0
"""What is not timed may take as long as a busy machine needs."""


def detect(tools: Sequence[Tool], subjects: Path, environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """One row for each tool. Nothing is timed here, so two processes run at once, with one thread each."""
    same = json.loads((subjects / "same.json").read_text(encoding="utf-8"))
    environment = {**environment, "OMP_NUM_THREADS": "1"}
    with ThreadPoolExecutor(WORKERS) as pool:
        return [_row(tool, subjects, same, environment, pool) for tool in tools if tool.fixtures]


def _row(
    tool: Tool, subjects: Path, same: Mapping[str, list[str]], environment: Mapping[str, str], pool: ThreadPoolExecutor
) -> dict[str, Any]:
    names = (HEALTHY, *BREAKS)
    problems = dict(zip(names, pool.map(lambda name: _problems(tool, subjects, name, environment), names), strict=True))
    healthy = problems[HEALTHY]
    cells = {}
    for name, breaks in BREAKS.items():
        cell = verdict(problems[name], healthy, breaks, tool.fixtures in same[name])
        new = sorted((problems[name] or frozenset()) - (healthy or frozenset()))
        cells[name] = {"verdict": cell.value, "problems": new[:20]}
    control = {
        "verdict": Verdict.FAILED.value if healthy is None else "",
        "problems": sorted(healthy or frozenset())[:20],
    }
    print(f"{tool.name:<42} {' | '.join(cell['verdict'] for cell in cells.values())}", flush=True)
    return {"tool": tool.name, "form": tool.fixtures, "cells": cells, "healthy": control}


def _problems(tool: Tool, subjects: Path, name: str, environment: Mapping[str, str]) -> frozenset[str] | None:
    inputs = subjects / ("inputs.pt" if tool.form == "module" else "inputs.npz")
    log = RAW / "outputs" / f"{re.sub(r'[^a-z0-9.]+', '_', f'{tool.name}.{tool.fixtures}.{name}'.lower())}.txt"
    done = run(tool.argv(subjects / f"{name}.{tool.fixtures}", inputs), environment, log, SECONDS)
    return None if done.stopped else tool.read(done.text, done.code)
