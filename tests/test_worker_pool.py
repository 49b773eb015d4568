from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pool_tasks
import pytest

from bnaudit import worker_pool
from bnaudit.errors import UsageError
from bnaudit.worker_pool import Piece, default_jobs, results


def lost(subject: object, how: str) -> Any:
    return f"{subject}: {how}"


def done(task: Any, subjects: Sequence[object], context: object, jobs: int = 2) -> list[Any]:
    """The results in the order of the subjects; each position must come once."""
    found = list(results(task, [Piece(subject, context) for subject in subjects], jobs, lost))
    assert sorted(position for position, _ in found) == list(range(len(subjects)))
    return [result for _, result in sorted(found, key=lambda pair: pair[0])]


def test_two_processes_give_what_one_gives() -> None:
    numbers = list(range(50))
    assert done(pool_tasks.times, numbers, 7) == done(pool_tasks.times, numbers, 7, 1) == [7 * n for n in numbers]


def test_one_job_stays_in_this_process_and_two_leave_it() -> None:
    here = done(pool_tasks.process, range(3), "c", 1)
    assert here == [(os.getpid(), "c")] * 3
    elsewhere = done(pool_tasks.process, range(20), "c")
    assert {context for _, context in elsewhere} == {"c"}
    assert os.getpid() not in {pid for pid, _ in elsewhere}
    assert len({pid for pid, _ in elsewhere}) == 2


def test_each_piece_has_its_own_context() -> None:
    shared, other = {"a": 1}, {"b": 2}
    contexts = [shared, shared, other, shared, other, other, shared]
    work = [Piece(number, context) for number, context in enumerate(contexts)]
    found = dict(results(pool_tasks.process, work, 2, lost))
    assert [found[number][1] for number in range(len(work))] == contexts


def test_what_begins_is_told_before_it_is_done() -> None:
    told: list[tuple[int, int, int]] = []
    work = [Piece(10 * number, 1) for number in range(6)]
    for jobs in (1, 2):
        told.clear()
        for position, _ in results(pool_tasks.times, work, jobs, lost, lambda *begun: told.append(begun)):
            assert (10 * position, position, 6) in told
        assert sorted(told) == [(10 * number, number, 6) for number in range(6)]


@pytest.mark.parametrize(("subject", "end"), [("kill", "SIGKILL"), ("exit", "code 7")])
def test_a_process_that_dies_costs_its_piece_alone(tmp_path: Path, subject: str, end: str) -> None:
    if subject == "kill" and os.name == "nt":
        end = "code 15"
    subjects = ["a", "b", subject, "c", "d", "e"]
    *_, dead, c, d, e = done(pool_tasks.dying, subjects, tmp_path)
    assert dead.startswith(f"{subject}: its process ") and end in dead and "also when it was tried again alone" in dead
    assert (c, d, e) == ("C", "D", "E")
    assert (tmp_path / "log").read_text().split().count(subject) == 2, "tried once more, and no more"


def test_all_dying_ends_too(tmp_path: Path) -> None:
    found = done(pool_tasks.dying, ["exit"] * 5, tmp_path)
    assert all("code 7" in result for result in found)
    assert (tmp_path / "log").read_text().split() == ["exit"] * 10


def test_what_dies_once_is_done_alone_afterwards(tmp_path: Path) -> None:
    subjects = ["once1", "a", "once2", "b", "c", "d"]
    assert done(pool_tasks.dying, subjects, tmp_path) == [subject.upper() for subject in subjects]


def test_errors_for_the_user_are_raised_and_others_cost_a_piece() -> None:
    with pytest.raises(UsageError, match="no rule has an id that starts with 'X': see `bnaudit rules`"):
        done(pool_tasks.raising, ["a", "usage", "b"], None)
    good, internal, unsendable = done(pool_tasks.raising, ["good", "internal", "unsendable"], None)
    assert good == "good"
    assert "ZeroDivisionError: by nothing at pool_tasks.py:" in internal
    assert "internal failure (" in unsendable and "report it" in unsendable


def test_processes_do_not_write_to_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    done(pool_tasks.printing, ["a", "b", "c"], None)
    shown = capfd.readouterr()
    assert shown.out == ""
    assert (shown.err.count("printed"), shown.err.count("written")) == (3, 3)


def test_what_is_read_only_stays_so() -> None:
    limits = MappingProxyType({"BN105": MappingProxyType({"share": 0.1})})
    context, fixed, empty, free, scalar = done(pool_tasks.values, [0, 1], limits)[0]
    assert isinstance(context, MappingProxyType) and isinstance(context["BN105"], MappingProxyType)
    assert (context, scalar) == (limits, 1.5)
    assert fixed.tolist() == [0, 1, 2] and fixed.dtype == np.float64 and not fixed.flags.writeable
    assert empty.shape == (0, 4) and free.flags.writeable


@pytest.mark.skipif(os.name == "nt", reason="the signal would end the process on Windows")
def test_processes_ignore_interrupts() -> None:
    assert done(pool_tasks.interrupting, range(4), 0) == [True] * 4


def test_work_may_start_processes_of_its_own() -> None:
    assert done(pool_tasks.with_children, range(2), None) == [0, 0]


def test_closing_ends_the_processes() -> None:
    running = results(pool_tasks.slow, [Piece(number, 0) for number in range(3)], 2, lost)
    position, pid = next(running)
    assert position == 0
    begin = time.monotonic()
    running.close()
    assert time.monotonic() - begin < 5
    if os.name != "nt":
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_script_without_a_guard_is_told_what_to_do(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import pool_tasks\n"
        "from bnaudit.worker_pool import Piece, results\n"
        "list(results(pool_tasks.times, [Piece(n, 1) for n in range(4)], 2, None))\n"
    )
    places = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": places}
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, timeout=60)
    assert ran.returncode == 1
    last = ran.stderr.strip().splitlines()[-1]
    assert "no further process can be started" in last and "if __name__ == '__main__'" in last


def test_few_pieces_get_one_job_and_many_a_job_per_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "available_bytes", lambda: None)
    monkeypatch.setattr(os, "process_cpu_count", lambda: 6, raising=False)
    assert [default_jobs(pieces) for pieces in (0, 1, 15, 16, 5000)] == [1, 1, 1, 6, 6]
    monkeypatch.setattr(os, "process_cpu_count", lambda: 128)
    assert default_jobs(5000) == 16
    monkeypatch.setattr(os, "process_cpu_count", lambda: None)
    assert default_jobs(5000) == 1


def test_little_memory_gets_few_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "process_cpu_count", lambda: 8, raising=False)
    for gibibytes, jobs in ((64, 8), (3, 3), (0, 1)):
        monkeypatch.setattr(worker_pool, "available_bytes", lambda size=gibibytes: size << 30)
        assert default_jobs(100) == jobs
