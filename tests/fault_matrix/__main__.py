"""The fault matrix: every fault in every architecture and carrier, and what an audit says of each.

    make faults                                       the whole matrix, two processes
    make faults OPTIONS="--only BN301 --jobs 1"        some of it

Prints recall, false alarms, localisation and what stayed undecided, writes .bench/faults.json, and ends with exit
code 1 unless every cell is as it has to be. The whole matrix also writes tests/fault_matrix/results.json and the
section of README.md that is made of it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import pickle
import platform
import sys
import time
from collections.abc import Iterator
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # nets so small only wait for threads; before torch is imported

import numpy
import onnx
import onnxruntime
import torch
from fault_matrix.cells import all_cells
from fault_matrix.draws import DRAWS, Drawn
from fault_matrix.judging import judged
from fault_matrix.summary import section
from fault_matrix.table import as_json, failures, printed
from fault_matrix.values import Cell, Expectation, Outcome
from readme_sections import write_section

import bnaudit

ROOT = Path(__file__).parents[2]
LATEST = ROOT / ".bench" / "faults.json"
OUTCOMES = ROOT / ".bench" / "fault-outcomes.pickle"
"""Of the last run, for `--again`."""
RESULTS = Path(__file__).with_name("results.json")


def _outcomes(cells: list[Cell], jobs: int) -> Iterator[Outcome]:
    if jobs == 1:
        yield from map(judged, cells)
        return
    # A fork has the trained nets of this process; where there is none every process trains its own.
    start = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    with multiprocessing.get_context(start).Pool(jobs) as pool:
        yield from pool.imap_unordered(judged, cells, chunksize=16)


def _progress(outcomes: Iterator[Outcome], total: int) -> Iterator[Outcome]:
    begin = last = time.monotonic()
    for number, outcome in enumerate(outcomes, 1):
        if not outcome.right:
            print(f"  {' / '.join(map(str, outcome.cell[:3]))}: {outcome.why}", file=sys.stderr, flush=True)
        if time.monotonic() - last > 30:
            last = time.monotonic()
            print(f"  {number} of {total} cells, {last - begin:.0f} s", file=sys.stderr, flush=True)
        yield outcome


def _fits(cell: Cell, pattern: str) -> bool:
    return any(pattern in text or fnmatchcase(text, pattern) for text in cell[:3])


def _parted(outcomes: list[Outcome]) -> tuple[list[Outcome], list[Cell]]:
    """What was right, and the cells of what was not."""
    return [each for each in outcomes if each.right], [each.cell for each in outcomes if not each.right]


def _draws(only: str) -> list[Drawn]:
    return [drawn for name, draw in DRAWS.items() if not only or only in name for drawn in draw()]


def _machine() -> dict[str, object]:
    modules = {"numpy": numpy, "onnx": onnx, "onnxruntime": onnxruntime, "torch": torch, "bnaudit": bnaudit}
    versions = {name: str(module.__version__) for name, module in modules.items()}
    return {"python": platform.python_version(), "system": platform.system(), "cores": os.cpu_count(), **versions}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cells whose architecture, fault or carrier contains this")
    parser.add_argument("--density", type=float, default=1.0, help="0.1 for a tenth of the cells, 10 for more of them")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="only the cells that were not right the last time")
    options = parser.parse_args()
    begin = time.monotonic()
    torch.set_num_threads(1)
    kept: list[Outcome] = []
    if options.again:
        whole, last = pickle.loads(OUTCOMES.read_bytes())
        kept, cells = _parted(last)
    else:
        whole = options.density == 1 and not options.only
        cells = [cell for cell in all_cells(options.density) if not options.only or _fits(cell, options.only)]
    print(f"{len(cells):,} cells in {options.jobs} processes", file=sys.stderr, flush=True)
    outcomes = [*kept, *_progress(_outcomes(cells, options.jobs), len(cells))]
    OUTCOMES.parent.mkdir(exist_ok=True)
    OUTCOMES.write_bytes(pickle.dumps((whole, outcomes)))
    planted = [outcome for outcome in outcomes if outcome.expected is not Expectation.NOWHERE]
    if len(planted) < len(outcomes):
        count = len(outcomes) - len(planted)
        print(f"{count:,} cells left out: run by itself, the net shows nothing of the fault", file=sys.stderr)
    outcomes = planted
    draws = _draws(options.only) if whole or options.only else []
    print(printed(outcomes, draws))
    told = {
        "machine": _machine(),
        "date": date.today().isoformat(),
        "seconds": round(time.monotonic() - begin),
        "again": len(cells) if options.again else 0,
        **as_json(outcomes, draws),
    }
    text = json.dumps(told, indent=1, ensure_ascii=False) + "\n"
    LATEST.write_text(text, encoding="utf-8")
    if whole:
        RESULTS.write_text(text, encoding="utf-8")
        write_section(ROOT / "README.md", "faults", section(told))
    return 1 if any(itertools.chain(failures(outcomes), (drawn.missed for drawn in draws))) else 0


if __name__ == "__main__":
    sys.exit(main())
