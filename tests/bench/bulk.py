"""Speed and memory of auditing many files: 25 MB state dicts in the page cache, --static, two processes.

    make bench                           200 and 800 files (links to eight, so that they take 200 MB under .bench/)
    python tests/bench/bulk.py --quick   50 and 200 files, fewer rounds

The baselines are the same work in one process, and a loop of torch.load(mmap=True, weights_only=True) over the same
files. Whole processes are compared, started in turns, by medians. Memory is the peak of the largest process, be it the
one that was started or one of its two. A limit that does not hold is marked and makes the exit code 1.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from static import BENCH, PYTHON, Cost, Table, make, run

GATE = [str(Path(PYTHON).with_name("bnaudit")), "gate", "--static"]
"""As users have it."""
LOAD = "import sys, torch; [torch.load(path, mmap=True, weights_only=True) for path in sys.argv[1:]]"
FILES_A_SECOND = 40
"""At least, with two processes on two cores."""


def read(folder: Path) -> list[Path]:
    """The files, once read to the end so that they are in the page cache."""
    files = sorted(folder.iterdir())
    for inode in {path.stat().st_ino: path for path in files}.values():
        with inode.open("rb") as file:
            while file.read(1 << 24):
                pass
    return files


def streamed(folder: Path, jobs: int) -> Cost:
    """Audit a folder into a new file."""
    out = BENCH / "bulk.jsonl"
    out.unlink(missing_ok=True)
    cost = run([*GATE, str(folder), "--output", f"jsonl={out}", "--jobs", str(jobs)])
    lines = out.read_bytes().count(b"\n")
    assert lines == len(list(folder.iterdir())), f"{lines} lines"
    return cost


def medians(costs: Sequence[Cost]) -> Cost:
    return Cost(statistics.median(c.seconds for c in costs), statistics.median(c.mebibytes for c in costs))


def bulk(table: Table, few: int, many: int, rounds: int) -> None:
    """All lines of the table."""
    small, large = (make("many_files", number)[0] for number in (few, many))
    read(small)
    files = read(large)
    costs: dict[str, list[Cost]] = {"few": [], "many": [], "one job": [], "torch": []}
    for _ in range(rounds):
        costs["few"].append(streamed(small, 2))
        costs["many"].append(streamed(large, 2))
        costs["one job"].append(streamed(large, 1))
        costs["torch"].append(run([PYTHON, "-c", LOAD, *map(str, files)]))
    cost = {name: medians(each) for name, each in costs.items()}
    two = cost["many"]
    rate = many / two.seconds
    held = rate >= FILES_A_SECOND
    table.broken += not held
    print(f"{many} files, two jobs: {rate:.0f} files a second (at least {FILES_A_SECOND}){'' if held else '  UNDER'}")
    table.line(f"{many} files, two jobs / one job, time", two.seconds, cost["one job"].seconds, 0.75, "s")
    table.line(f"{many} files, two jobs / torch.load(mmap), time", two.seconds, cost["torch"].seconds, 1.0, "s")
    table.line(f"time for each of {many} files / of {few}", two.seconds / many, cost["few"].seconds / few, 1.1, "s")
    table.line(f"memory at {many} files / at {few}", two.mebibytes, cost["few"].mebibytes, 1.1, "MiB")
    table.line(f"{many} files: memory / torch.load(mmap)", two.mebibytes, cost["torch"].mebibytes, 0.35, "MiB")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few files and few rounds")
    options = parser.parse_args()
    BENCH.mkdir(exist_ok=True)
    table = Table()
    bulk(table, *((50, 200, 1) if options.quick else (200, 800, 5)))
    return 1 if table.broken else 0


if __name__ == "__main__":
    sys.exit(main())
