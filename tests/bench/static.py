"""Speed and memory of the static audit: ratios of medians against named baselines, measured in one run.

    make bench                          all sizes (writes about 5 GB under .bench/, kept for the next run)
    python tests/bench/static.py --quick     the small files only

Each line runs its candidate and its baseline in turns, as whole processes, and compares medians of wall time
and of peak resident memory. A limit that does not hold is marked and makes the exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

BENCH = Path(".bench")
PYTHON = sys.executable
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""As users have it: what was compiled once is not compiled at every start."""


class Cost(NamedTuple):
    """One process: wall time in seconds, peak resident memory in MiB."""

    seconds: float
    mebibytes: float


def run(command: Sequence[str]) -> Cost:
    """Run a whole process and wait for it. Raises CalledProcessError above exit code 1 (findings are fine)."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT)
    assert child.stderr is not None
    stderr = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    code = os.waitstatus_to_exitcode(status)
    child.returncode = code
    if code not in (0, 1):
        raise subprocess.CalledProcessError(code, command, stderr=stderr)
    return Cost(seconds, usage.ru_maxrss / 1024)


def alternate(commands: dict[str, Sequence[str]], rounds: int) -> dict[str, Cost]:
    """Medians of `rounds` runs of each command, taken in turns after one warm-up."""
    samples: dict[str, list[Cost]] = {name: [] for name in commands}
    for command in commands.values():
        run(command)
    for _ in range(rounds):
        for name, command in commands.items():
            samples[name].append(run(command))
    return {
        name: Cost(statistics.median(c.seconds for c in costs), statistics.median(c.mebibytes for c in costs))
        for name, costs in samples.items()
    }


def make(kind: str, *arguments: int) -> list[Path]:
    """Make fixtures in a process of their own: a child's peak memory starts at its parent's size."""
    maker = [PYTHON, str(Path(__file__).with_name("fixtures.py")), str(BENCH), kind, *map(str, arguments)]
    made = subprocess.run(maker, capture_output=True, text=True, check=True)
    return [Path(line) for line in made.stdout.splitlines()]


def inspect(path: Path) -> list[str]:
    """The command as users have it: the script that installing bnaudit puts beside the interpreter."""
    return [str(Path(PYTHON).with_name("bnaudit")), "inspect", "--static", str(path)]


class Table:
    """Prints lines as they come and remembers whether a limit was broken."""

    def __init__(self) -> None:
        self.broken = 0
        print(f"{'measured':<48} {'bnaudit':>10} {'baseline':>10} {'ratio':>7} {'limit':>7}")

    def line(self, label: str, ours: float, theirs: float, limit: float, unit: str) -> None:
        ratio = ours / theirs
        held = ratio <= limit
        self.broken += not held
        scale, suffix = (1000, "ms") if unit == "s" else (1, unit)
        print(
            f"{label:<48} {ours * scale:>7.0f} {suffix:<3}{theirs * scale:>7.0f} {suffix:<3}"
            f"{ratio:>7.2f} {limit:>7.2f}{'' if held else '  OVER'}",
            flush=True,
        )


def bytes_read(path: Path) -> float:
    """Share of the file that the audit read, from its own report."""
    done = subprocess.run([*inspect(path), "--format", "json"], capture_output=True, text=True, check=False)
    artifact = json.loads(done.stdout)["artifacts"][0]
    return float(artifact["bytes_read"] / artifact["size"])


def checkpoints(table: Table, sizes: Sequence[int], rounds: int) -> None:
    empty = [PYTHON, str(make("empty_app")[0]), "inspect"]
    for megabytes in sizes:
        torch_file, safe_file = make("state_dict", megabytes)
        load = f"import torch; torch.load({str(torch_file)!r}, weights_only=True, mmap=True)"
        safe = f"from safetensors.torch import load_file; load_file({str(safe_file)!r})"
        for path, baseline, name in (
            (torch_file, load, "torch.load(mmap)"),
            (safe_file, safe, "safetensors.load_file"),
        ):
            costs = alternate({"ours": inspect(path), "theirs": [PYTHON, "-c", baseline], "empty": empty}, rounds)
            ours, theirs = costs["ours"], costs["theirs"]
            label = f"{path.suffix} {megabytes} MB / {name}"
            table.line(f"{label}, time", ours.seconds, theirs.seconds, 0.2, "s")
            table.line(f"{label}, memory", ours.mebibytes, theirs.mebibytes, 0.35, "MiB")
            table.line(
                f"{path.suffix} {megabytes} MB / empty Typer app", ours.seconds, costs["empty"].seconds, 1.5, "s"
            )
        share = max(bytes_read(torch_file), bytes_read(safe_file))
        if megabytes >= 2000:
            print(f"    {share:.3%} of the bytes read (limit 1 %)")
            table.broken += share > 0.01


def graph(table: Table, megabytes: int, rounds: int) -> None:
    (path,) = make("onnx_graph", megabytes)
    costs = alternate(
        {"ours": inspect(path), "theirs": [PYTHON, "-c", f"import onnx; onnx.load({str(path)!r})"]}, rounds
    )
    table.line(f".onnx {megabytes} MB / onnx.load, time", costs["ours"].seconds, costs["theirs"].seconds, 0.4, "s")
    print(f"    {bytes_read(path):.3%} of the bytes read")


def curve(rounds: int) -> None:
    """Cost against the number of layers, at one file size: the excess over an almost empty file, per layer."""
    print("\nlayers   whole process   above 10 layers, per layer")
    base = None
    for layers in (10, 100, 1_000, 10_000):
        (path,) = make("many_layers", layers)
        seconds = alternate({"ours": inspect(path)}, rounds)["ours"].seconds
        base = seconds if base is None else base
        excess = f"{(seconds - base) / (layers - 10) * 1e6:.0f} µs" if layers > 10 else ""
        print(f"{layers:>6} {seconds * 1000:>12.0f} ms   {excess:>12}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small files and few rounds")
    options = parser.parse_args()
    BENCH.mkdir(exist_ok=True)
    rounds = 5 if options.quick else 11
    table = Table()
    checkpoints(table, (25,) if options.quick else (25, 2000), rounds)
    graph(table, 50 if options.quick else 500, rounds)
    curve(3)
    return 1 if table.broken else 0


if __name__ == "__main__":
    sys.exit(main())
