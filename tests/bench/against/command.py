"""The whole comparison."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.against import rendering
from bench.against.detecting import detect
from bench.against.environments import BENCH, RAW, RIVALS, ROOT, installed, versions
from bench.against.machine import machine
from bench.against.timing import files, modules, ratios
from bench.against.tools import Tool, tools
from readme_sections import write_section

RESULTS = ROOT / "tests" / "bench" / "rivals.json"
SIZES = (25, 100, 500, 2000)
ROUNDS = 3
OWN = ("bnaudit", "torch", "onnx", "safetensors", "numpy", "onnxruntime")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1: bnaudit did not find a defect that its form shows, or reported one on the healthy net."""
    parser = argparse.ArgumentParser(description="bnaudit beside its rivals")
    parser.add_argument("--quick", action="store_true", help="files of 25 MB only")
    parser.add_argument("--only", default="", metavar="NAME", help="tools whose name holds this")
    options = parser.parse_args(arguments)
    (RAW / "outputs").mkdir(parents=True, exist_ok=True)
    missing = {name: why for name, rival in RIVALS.items() if (why := _try(rival.name, options.only))}
    chosen = [tool for tool in tools() if tool.rival not in missing and (tool.ours or options.only in tool.name)]
    result = measured(chosen, options.quick)
    result["not_usable"] = [{"tool": name, "why": why} for name, why in missing.items() if options.only in name]
    text = rendering.json_text(result)
    result = json.loads(text)  # as it is rounded there: a test renders the file again
    BENCH.joinpath("bench.json").write_text(text, encoding="utf-8")
    print("\n" + rendering.markdown(result))
    if not options.only and not options.quick:
        RESULTS.write_text(text, encoding="utf-8")
        write_section(ROOT / "README.md", "bench", rendering.markdown(result))
        print(f"written: {RESULTS.relative_to(ROOT)} and the section of README.md")
    return 0 if rendering.sound(result) else 1


def _try(name: str, only: str) -> str:
    if only and not any(tool.rival == name and only in tool.name for tool in tools()):
        return "left out"
    why = installed(RIVALS[name])
    print(f"{RIVALS[name].package}: {why or 'installed'}", flush=True)
    return why


def measured(chosen: Sequence[Tool], quick: bool) -> dict[str, Any]:
    """All figures, as the JSON file has them."""
    rounds, environment = ROUNDS, _environment()
    subjects = RAW / "subjects"
    if not (subjects / "same.json").exists():
        subjects.mkdir(parents=True, exist_ok=True)
        _make(environment, "against/subjects.py", str(subjects))
    if not (subjects / "resnet50.inputs.pt").exists():
        _make(environment, "against/subjects.py", str(subjects), "resnet50")
    found = detect(chosen, subjects, environment)
    live = [tool for tool in chosen if tool.form == "module"]
    lines = modules(live, subjects / "resnet50.module.pt", subjects / "resnet50.inputs.pt", environment, rounds)
    for megabytes in SIZES[:1] if quick else SIZES:
        made = _make(environment, "fixtures.py", str(BENCH), "state_dict", str(megabytes))
        made += _make(environment, "fixtures.py", str(BENCH), "onnx_graph", str(megabytes))
        for path in made:
            fitting = [tool for tool in chosen if tool.form == path.suffix and tool.sizes]
            lines += files(fitting, path, megabytes, environment, rounds)
    ratios(lines)
    packages = {name: versions(name, [name, "torch"]) for name in sorted({tool.rival for tool in chosen} - {""})}
    return {
        "schema": "bnaudit.rivals/1",
        "machine": machine(),
        "rounds": rounds,
        "versions": versions("", OWN),
        "rivals": packages,
        "speed": lines,
        "found": found,
    }


def _environment() -> dict[str, str]:
    """As users have it; the nets' classes can be imported, nothing is compiled at every start."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT)]), "TERM": "dumb", "NO_COLOR": "1"}


def _make(environment: dict[str, str], script: str, *arguments: str) -> list[Path]:
    """Make files in a process of their own: a child's peak memory starts at its parent's size."""
    command = [sys.executable, "-W", "ignore", str(ROOT / "tests" / "bench" / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"{script} failed: {done.stderr}")
    return [Path(line) for line in done.stdout.splitlines() if Path(line).is_file()]
