"""Speed and memory of the measured audit: ratios of medians against a plain forward, measured in one run.

    make bench     after the static audit's

One plain forward is the baseline: the same net, the same batch of 4, eval mode, no_grad. Candidate and baseline are
run in turns in one process; memory is the peak of processes of their own. A limit that does not hold is marked and
makes the exit code 1.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from nets import NETS
from static import PYTHON, Table, run

import bnaudit
from bnaudit.results import Question, Report
from bnaudit.session import Watch
from bnaudit.torch_session.recording import LayerNames, Recorder


def plain(net: torch.nn.Module, batch: torch.Tensor) -> None:
    """The baseline."""
    with torch.no_grad():
        net(batch)


def watched(net: torch.nn.Module, batch: torch.Tensor, names: LayerNames) -> int:
    """One forward with every normalization and random operator recorded. Returns the operators seen."""
    with torch.no_grad(), Recorder(net, names, watch=Watch.CALLS, size=len(batch), anchors=(0,)) as recorder:
        net(batch)
    return recorder.operator_count


def audited(net: torch.nn.Module, batch: torch.Tensor) -> Report:
    """The whole measured audit with this batch's size."""
    many = torch.cat([batch, batch + 0.5, batch.flip(-1)])
    return bnaudit.audit(net, inputs=many, batch_size=len(batch), anchors=2)


def in_turns(rounds: int, **candidates: Callable[[], object]) -> dict[str, float]:
    """Median seconds of each candidate, taken in turns after one warm-up.

    Every other turn goes backwards: the same work twice in a row was 1.5 % slower the second time.
    """
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for turn in range(rounds + 1):
        for name, call in list(candidates.items())[:: 1 if turn % 2 else -1]:
            begin = time.perf_counter()
            call()
            if turn:
                seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def audits(table: Table, rounds: int) -> None:
    for name, limit in (("resnet50", 8.0), ("leaking", 14.0)):
        net, batch = NETS[name]()
        report = audited(net, batch)
        assert report.audits[0].measured is not None, report.audits[0].not_run
        measured = report.audits[0].measured
        found = ", ".join(sorted({finding.rule for finding in report.findings})) or "nothing"
        taken = in_turns(rounds, plain=lambda n=net, b=batch: plain(n, b), ours=lambda n=net, b=batch: audited(n, b))
        table.line(f"{name}: audit / one forward", taken["ours"], taken["plain"], limit, "s")
        verdict = {v.question: v.outcome.value for v in report.audits[0].verdicts}[Question.NEIGHBOURS]
        print(f"    {measured.forwards} + {measured.extra_forwards} forwards; neighbours {verdict}; found {found}")


def interception(table: Table, rounds: int) -> None:
    for name in ("resnet50", "transformer"):
        net, batch = NETS[name]()
        names = LayerNames.of(net)
        taken = in_turns(
            rounds,
            plain=lambda n=net, b=batch: plain(n, b),
            ours=lambda n=net, b=batch, m=names: watched(n, b, m),
        )
        table.line(f"{name}: watched / plain forward", taken["ours"], taken["plain"], 1.15, "s")
    net, batch = NETS["tiny"]()
    names = LayerNames.of(net)
    operators = watched(net, batch, names)
    taken = in_turns(3 * rounds, plain=lambda: plain(net, batch), ours=lambda: watched(net, batch, names))
    each = (taken["ours"] - taken["plain"]) / operators * 1e6
    print(f"    1,000 tiny layers: {each:.0f} µs for each of {operators:,} operators (limit 60 µs)")
    table.broken += each > 60


def memory(table: Table) -> None:
    one_batch = 4 * 3 * 224 * 224 * 4 / 2**20
    here = Path(__file__).resolve()
    costs = {what: run([PYTHON, str(here), "--only", what]) for what in ("plain", "audit")}
    limit = 1.3 + one_batch / costs["plain"].mebibytes
    table.line("resnet50: peak memory", costs["audit"].mebibytes, costs["plain"].mebibytes, limit, "MiB")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rounds")
    parser.add_argument("--only", choices=("plain", "audit"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        net, batch = NETS["resnet50"]()
        plain(net, batch) if options.only == "plain" else audited(net, batch)
        return 0
    table = Table()
    rounds = 3 if options.quick else 11
    audits(table, rounds)
    interception(table, rounds)
    memory(table)
    return 1 if table.broken else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error}\n{error.stderr.decode()}")
