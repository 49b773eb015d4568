"""Audits the architectures of torchvision and timm: nothing may crash, be cried over wrongly, or be missed.

    make zoo                                 all of them, as state dicts, and a sample of 60 in every carrier
    make zoo OPTIONS="--only timm/resnet*"   some of them
    make zoo OPTIONS=--again                 go on, and do again what was found to be wrong
    make zoo OPTIONS=--fresh                 from the start; without it a run that was stopped goes on

Each architecture is built with random weights and without downloading, and audited three times as a state dict:
fresh, trained (see moving.py for what stands for training), and trained with one fault planted by chance (faults.py).
The sample is also audited live, as TorchScript, .pt2 and ONNX, run where it can be run, and with a fault in each.
Exit code 1: a false alarm at warning or above, a crash, a batch norm that was not listed, or a fault that was not
found by its rule at its layers. What could not be audited is listed with its reason. Results: .bench/zoo.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
from datetime import date
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

from readme_sections import write_section
from zoo import architectures
from zoo.record_file import RecordFile
from zoo.sample import choose
from zoo.summary import TASKS, section, table
from zoo.tasks import Piece
from zoo.totals import Totals, exceptions, rules_planted, shames, total
from zoo.workers import run

BENCH = Path(".bench")
LIBRARIES = ("bnaudit", "torch", "torchvision", "timm", "onnx", "onnxruntime", "onnxscript", "safetensors", "numpy")
CARRIERS = TASKS[1:]
SAMPLED_FROM = 700
"""Architectures, by chance, that the sample is chosen from."""
NAMES_SHOWN = 6
PROGRESS_EVERY = 30.0
"""Seconds between lines of progress."""


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the workers are ended, too
    key = {"seed": options.seed, "torch": version("torch"), "timm": version("timm")}
    file = RecordFile(BENCH / "zoo-records.jsonl", key, options.fresh)
    if not options.report:
        file.forget(lambda record: "exception" in record)  # the bound may be another, and it takes no time
    if options.again and not options.report:
        file.forget(lambda record: bool(shames([record])) or bool({"broke", "killed", "unmoved"} & record.keys()))
    wanted = [name for name in architectures.names() if fnmatchcase(name, options.only)]
    Random(options.seed).shuffle(wanted)  # so that the first so many, and the time that is left, stand for all
    wanted = wanted[: options.limit]
    start = time.monotonic()
    _do(file, [_built(name, options) for name in wanted], options)
    built = [file.records[name, "state-dict"] for name in wanted if (name, "state-dict") in file.records]
    usable = [record for record in built[:SAMPLED_FROM] if "trained" in record.get("artifacts", {})]
    sample = choose(usable, options.sample, options.seed)
    _do(file, [_sampled(file, name, carrier, options.seed) for carrier in options.carriers for name in sample], options)
    places = [(name, carrier) for name in sample for carrier in options.carriers]
    records = built + [file.records[place] for place in places if place in file.records]
    if open_pieces := len(wanted) + len(places) - len(records):
        print(f"{open_pieces} pieces are still to be done: without --report it goes on")
    totals = _print(records, time.monotonic() - start)
    _write(records, totals, options)
    if options.only == "*" and options.limit is None and not open_pieces:
        write_section(Path("README.md"), "zoo", section(records, _versions(), date.today(), os.cpu_count() or 1))
    return 1 if totals.failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="*", help="shell pattern of names: 'timm/resnet*'")
    parser.add_argument("--limit", type=int, help="so many of them, by chance")
    parser.add_argument("--sample", type=int, default=60, help="how many in every carrier (60)")
    parser.add_argument("--carriers", nargs="+", choices=CARRIERS, default=CARRIERS, help="of the sample")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes (2)")
    parser.add_argument("--largest", type=int, default=300, help="millions of parameters of the largest net (300)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", action="store_true", help="do again what broke, or gave a false alarm or a miss")
    parser.add_argument("--report", action="store_true", help="do nothing more, print what there is")
    parser.add_argument("--fresh", action="store_true", help="forget the results so far")
    return parser.parse_args()


def _piece(name: str, task: str, seed: int) -> Piece:
    return {"name": name, "task": task, "seed": seed}


def _built(name: str, options: argparse.Namespace) -> Piece:
    return {**_piece(name, "state-dict", options.seed), "largest": options.largest * 10**6}


def _sampled(file: RecordFile, name: str, carrier: str, seed: int) -> Piece:
    return {**_piece(name, carrier, seed), "least": file.records[name, "state-dict"].get("size", 0)}


def _do(file: RecordFile, pieces: list[Piece], options: argparse.Namespace) -> None:
    open_pieces = [piece for piece in pieces if (piece["name"], piece["task"]) not in file.records]
    if options.report or not open_pieces:
        return
    progress = Progress(len(open_pieces))

    def finished(piece: Piece, record: dict[str, Any]) -> None:
        file.add(piece["name"], piece["task"], record)
        for line in shames([file.records[piece["name"], piece["task"]]]):
            print(f"  ! {line[:300]}", flush=True)
        progress.one_more(f"{piece['name']} ({piece['task']})")

    scratch = BENCH / "zoo-scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    run(open_pieces, options.jobs, str(scratch), str(BENCH / "zoo-worker.log"), finished)


class Progress:
    """A line now and then."""

    def __init__(self, count: int) -> None:
        self.count, self.done = count, 0
        self.start = self.last = time.monotonic()

    def one_more(self, label: str) -> None:
        """Count one, and say so when the last line is long ago."""
        self.done += 1
        now = time.monotonic()
        if now - self.last >= PROGRESS_EVERY or self.done == self.count:
            left = (now - self.start) / self.done * (self.count - self.done)
            print(f"{self.done:>5} of {self.count}, about {left / 60:.0f} min left: {label}", flush=True)
            self.last = now


def _print(records: list[dict[str, Any]], seconds: float) -> Totals:
    totals = total(records)
    print(f"\n{table(records)}\n\nthis run: {seconds / 60:.0f} min\n\nfaults planted, found, located")
    for rule, counts in rules_planted(records).items():
        print(f"  {rule} {counts[0]:>5} {counts[1]:>5} {counts[2]:>5}")
    for title, entries in exceptions(records).items():
        shown = ", ".join(entries[:NAMES_SHOWN]) + (", …" if len(entries) > NAMES_SHOWN else "")
        print(f"\n{len(entries)} × {title}\n  {shown}")
    told = shames(records)
    print(f"\n{len(told)} false alarms, crashes, unseen layers and misses" + (":" if told else ""))
    for line in told:
        print(f"  {line}")
    return totals


def _versions() -> dict[str, str]:
    return {name: version(name) for name in LIBRARIES} | {"python": platform.python_version()}


def _write(records: list[dict[str, Any]], totals: Totals, options: argparse.Namespace) -> None:
    content = {
        "options": vars(options),
        "versions": _versions(),
        "machine": {"system": platform.platform(), "processor": platform.machine()},
        "totals": totals._asdict(),
        "rules": rules_planted(records),
        "exceptions": exceptions(records),
        "shames": shames(records),
        "records": records,
    }
    (BENCH / "zoo.json").write_text(json.dumps(content, indent=1), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
