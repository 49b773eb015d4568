"""The mutation check: whatever is broken in a rule, a probe or the arithmetic makes a test fail.

    make mutation                                        all of it
    python tests/mutation/check.py --only bn105 --jobs 1

Each mutant (see `mutants.py`) is run against the tests of its module (see `near_tests.py`) in a forked process. One
that passes them all survived: a test is missing, or the change changes nothing, which `justified.toml` then says.
Exit code 1: a survivor without a justification, or a justification of what is no mutant or was found by a test.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

from mutation.forked import HIDDEN, ModuleOf, preload, start
from mutation.mutants import Mutant, mutants, mutated
from mutation.near_tests import PACKAGE, ROOT, groups, modules

JUSTIFIED = Path(__file__).with_name("justified.toml")
KILLED, SURVIVED, TIMED_OUT = "killed", "survived", "timed out"
_SLOWER = 6.0
"""A mutant may take this many times as long as the module itself, and `_LEAST` seconds more."""
_LEAST = 5.0


class Task(NamedTuple):
    """A mutant, or the module itself, before the next group of its tests."""

    path: Path
    mutant: Mutant | None
    group: int = 0


class Check:
    """Runs the tasks on some processes and keeps what became of each mutant."""

    def __init__(self, jobs: int, depth: int, log: Path | None = None) -> None:
        self.jobs, self.depth, self.log = jobs, depth, log
        self.outcomes: dict[str, str] = {}
        self.broken: list[str] = []
        self._seconds: dict[tuple[Path, ...], float] = {}
        self._running: dict[int, tuple[Task, float]] = {}
        self._sources: dict[Path, str] = {}

    def run(self, tasks: Iterable[Task]) -> None:
        """Until every mutant has an outcome. The modules themselves have to pass before their mutants are tried."""
        with tempfile.TemporaryDirectory(prefix="mutation-") as scratch:
            waiting = deque(tasks)
            while waiting or self._running:
                while waiting and len(self._running) < self.jobs:
                    self._start(waiting.popleft(), Path(scratch))
                following = self._finish()
                if following is not None:
                    waiting.appendleft(following)

    def tests(self, task: Task) -> list[Path]:
        """The group of tests that is next."""
        return groups(task.path)[: self.depth][task.group]

    def _start(self, task: Task, scratch: Path) -> None:
        source = self._sources.setdefault(task.path, task.path.read_text(encoding="utf-8"))
        tree = mutated(source, task.mutant) if task.mutant else source
        relative = task.path.relative_to(PACKAGE.parent).with_suffix("")
        name = ".".join(relative.parts).removesuffix(".__init__")
        finder = ModuleOf(name, task.path, compile(tree, str(task.path), "exec"))  # type: ignore[arg-type]
        tests = self.tests(task)
        usual = self._seconds.get(tuple(tests), 120.0)
        pid = start(finder, tests, usual * _SLOWER + _LEAST, scratch, self.log)
        self._running[pid] = task, time.monotonic()

    def _finish(self) -> Task | None:
        pid, status = os.wait()
        task, began = self._running.pop(pid)
        code = os.waitstatus_to_exitcode(status)
        if task.mutant is None:
            self._seconds[tuple(self.tests(task))] = time.monotonic() - began
            if code != 0:
                self.broken.append(f"{task.path.name}: {_why(code)} ({', '.join(t.name for t in self.tests(task))})")
            return None
        if code == -signal.SIGALRM:
            self.outcomes[task.mutant.id] = TIMED_OUT
        elif code != 0:
            self.outcomes[task.mutant.id] = KILLED
        elif task.group + 1 < len(groups(task.path)[: self.depth]):
            return task._replace(group=task.group + 1)
        else:
            self.outcomes[task.mutant.id] = SURVIVED
        return None


def _why(code: int) -> str:
    if code == HIDDEN:
        return "its tests never import it"
    return "its tests fail as it is" if code > 0 else f"its tests die of signal {-code}"


def checked(paths: Sequence[Path], jobs: int, depth: int, log: Path | None = None) -> tuple[list[Mutant], Check]:
    """The mutants of these modules and what became of them. Raises SystemExit when a module as it is does not pass."""
    check = Check(jobs, depth, log)
    tests = [Task(path, None, group) for path in paths for group in range(len(groups(path)[:depth]))]
    once = {tuple(check.tests(task)): task for task in tests}
    check.run(once.values())
    if check.broken:
        raise SystemExit("\n".join(check.broken))
    found = {path: mutants(path.read_text(encoding="utf-8"), file_of(path)) for path in paths}
    check.run(Task(path, mutant) for path, several in found.items() for mutant in several)
    return [mutant for several in found.values() for mutant in several], check


def file_of(path: Path) -> str:
    """`rules/bn105_….py`."""
    return path.relative_to(PACKAGE).as_posix()


def justified() -> dict[str, str]:
    """Id → why no test can find it."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    entries = tomllib.loads(JUSTIFIED.read_text(encoding="utf-8"))["survivor"]
    return {id: entry["reason"] for entry in entries for id in entry["ids"]}


def table(found: Sequence[Mutant], outcomes: dict[str, str], reasons: dict[str, str]) -> str:
    """One row per file and one for all."""
    lines = [f"{'':46}{'mutants':>8}{'killed':>8}{'timed out':>11}{'justified':>11}{'survived':>10}"]
    for name in [*dict.fromkeys(mutant.file for mutant in found), "all"]:
        ids = [mutant.id for mutant in found if name in (mutant.file, "all")]
        counts = Counter(outcomes[id] for id in ids)
        excused = sum(outcomes[id] == SURVIVED and id in reasons for id in ids)
        row = (len(ids), counts[KILLED], counts[TIMED_OUT], excused, counts[SURVIVED] - excused)
        lines.append(f"{name:46}{row[0]:8}{row[1]:8}{row[2]:11}{row[3]:11}{row[4]:10}")
    return "\n".join(lines)


def listed(found: Sequence[Mutant], outcomes: dict[str, str], reasons: dict[str, str]) -> str:
    """The survivors without a reason, each with its line."""
    lines: list[str] = []
    for mutant in found:
        if outcomes[mutant.id] == SURVIVED and mutant.id not in reasons:
            source = (PACKAGE / mutant.file).read_text(encoding="utf-8").splitlines()[mutant.line - 1].strip()
            lines += [mutant.id, f"    {mutant.line}:{mutant.column}  {source}"]
    return "\n".join(lines)


def stale(found: Sequence[Mutant], outcomes: dict[str, str], reasons: dict[str, str], whole: bool) -> list[str]:
    """Justifications of mutants that a test finds or, when all modules were checked, that are none."""
    killed = [f"a test finds it: {id}" for id in reasons if outcomes.get(id, SURVIVED) != SURVIVED]
    files = {mutant.file for mutant in found}
    known = {mutant.id for mutant in found}
    gone = [id for id in reasons if id not in known and (whole or id.split("::")[0] in files)]
    return [*killed, *(f"it is no mutant: {id}" for id in gone)]


def _write(path: Path, found: Sequence[Mutant], outcomes: dict[str, str], reasons: dict[str, str]) -> None:
    path.parent.mkdir(exist_ok=True)
    rows = [
        {**mutant._asdict(), "outcome": outcomes[mutant.id], "reason": reasons.get(mutant.id, "")} for mutant in found
    ]
    path.write_text(json.dumps({"python": sys.version.split()[0], "mutants": rows}, indent=1), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="modules whose path contains this; repeatable")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--depth", type=int, default=3, help="groups of tests asked, 1: the module's own only")
    parser.add_argument("--log", type=Path, help="file for the output of the tests, with --jobs 1")
    asked = parser.parse_args()
    if not hasattr(os, "fork"):
        print("the mutation check forks, which this system cannot", file=sys.stderr)
        return 2
    paths = [path for path in modules() if not asked.only or any(part in file_of(path) for part in asked.only)]
    os.chdir(ROOT)
    preload()
    began = time.monotonic()
    found, check = checked(paths, asked.jobs, asked.depth, asked.log)
    reasons = justified()
    _write(ROOT / ".bench" / "mutation.json", found, check.outcomes, reasons)
    survivors, wrong = (
        listed(found, check.outcomes, reasons),
        stale(found, check.outcomes, reasons, len(paths) == len(modules())),
    )
    print(table(found, check.outcomes, reasons))
    print(f"\n{time.monotonic() - began:.0f} s, Python {sys.version.split()[0]}")
    for text in (survivors and f"\nsurvived:\n{survivors}", wrong and "\njustified in vain:\n" + "\n".join(wrong)):
        if text:
            print(text)
    return 1 if survivors or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
