"""The mutation check: whatever is broken in a rule, a probe or the arithmetic makes a test fail.

    make mutation                                        all of it
    cd tests && python -m mutation.check --only bn105

Each mutant (see `mutants.py`) is run against the tests of its module (see `near_tests.py`) in a forked process. One
that passes them all survived: a test is missing, or the change changes nothing, which `justified.toml` then says.
Exit code 1: a survivor without a justification, or a justification of what is no mutant or was found by a test.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import CodeType
from typing import NamedTuple

from mutation.forked import BROKEN, HIDDEN, KILLED, SURVIVED, TIMED_OUT, Subject, Variant, judge, preload
from mutation.mutants import Mutant, mutants, mutated
from mutation.near_tests import PACKAGE, ROOT, groups, is_asked, modules

JUSTIFIED = Path(__file__).with_name("justified.toml")


class Asked(NamedTuple):
    """Mutants of one module before one group of its tests."""

    path: Path
    source: str
    """As it was when the check began, whoever edits it meanwhile."""
    mutants: tuple[Mutant, ...]
    group: int
    afresh: bool = False
    """One mutant, in place of the module from the start: its tests import it."""


class Check:
    """Has the mutants judged, several modules at once, and keeps what became of each."""

    def __init__(self, jobs: int, depth: int, log: Path | None = None) -> None:
        self.jobs, self.depth, self.log = jobs, depth, log
        self.outcomes: dict[str, str] = {}
        self.broken: list[str] = []

    def run(self, paths: Sequence[Path]) -> list[Mutant]:
        """All mutants of the modules, each with an outcome, but where a module as it is does not pass: `broken`.

        Those that have an outcome already, of an earlier check, keep it.
        """
        sources = {path: path.read_text(encoding="utf-8") for path in paths}
        found = {path: tuple(mutants(source, file_of(path))) for path, source in sources.items()}
        fresh = {path: tuple(each for each in found[path] if each.id not in self.outcomes) for path in paths}
        waiting = deque(Asked(path, sources[path], several, 0) for path, several in fresh.items() if several)
        running: dict[int, tuple[Asked, Path]] = {}
        numbers = itertools.count()
        with tempfile.TemporaryDirectory(prefix="mutation-") as scratch:
            while waiting or running:
                while waiting and len(running) < self.jobs:
                    asked = waiting.popleft()
                    answers = Path(scratch) / f"{asked.path.stem}-{asked.group}-{next(numbers)}.jsonl"
                    running[self._start(asked, answers)] = asked, answers
                pid, _ = os.wait()
                asked, answers = running.pop(pid)
                waiting.extendleft(self._read(asked, answers))
                self._tell(asked)
        return [mutant for several in found.values() for mutant in several if mutant.id in self.outcomes]

    def _tell(self, asked: Asked) -> None:
        counts = Counter(self.outcomes.get(each.id, BROKEN) for each in asked.mutants)
        shown = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        print(f"{file_of(asked.path)}: {shown}", file=sys.stderr, flush=True)

    def _start(self, asked: Asked, answers: Path) -> int:
        code = compile(asked.source, str(asked.path), "exec")
        variants = [Variant(each.id, _code(asked.source, asked.path, each)) for each in asked.mutants]
        if asked.afresh:
            code, variants = variants[0].code(), []
        tests = groups(asked.path, self.depth)[asked.group]
        subject = Subject(_module_name(asked.path), asked.path, tests, code, is_asked)
        with answers.open("w", encoding="utf-8") as out:
            return judge(subject, variants, answers.parent, out, self.log)

    def _read(self, asked: Asked, answers: Path) -> list[Asked]:
        """Keep the answers. What survived is asked before the next group of tests, or first afresh before this one."""
        (_, first), *rest = [json.loads(line) for line in answers.read_text(encoding="utf-8").splitlines()]
        if asked.afresh:
            rest = [[asked.mutants[0].id, KILLED if first == BROKEN else SURVIVED]]
        elif first != SURVIVED or len(rest) < len(asked.mutants):
            why = {HIDDEN: "its tests never import it", BROKEN: "its tests fail as it is"}
            tests = ", ".join(test.name for test in groups(asked.path, self.depth)[asked.group])
            self.broken.append(f"{file_of(asked.path)}: {why.get(first, 'its tests stopped')}: {tests}")
        self.outcomes.update(rest)
        left = tuple(each for each in asked.mutants if self.outcomes.get(each.id) == SURVIVED)
        doubtful = () if asked.afresh else tuple(each for each in left if each.at_import)
        following = [asked._replace(mutants=(each,), afresh=True) for each in doubtful]
        further = tuple(each for each in left if each not in doubtful)
        if further and asked.group + 1 < len(groups(asked.path, self.depth)):
            following.append(asked._replace(mutants=further, group=asked.group + 1))
        return following


def _code(source: str, path: Path, mutant: Mutant) -> Callable[[], CodeType]:
    return partial(_compiled, source, path, mutant)


def _compiled(source: str, path: Path, mutant: Mutant) -> CodeType:
    return compile(mutated(source, mutant), str(path), "exec")


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def file_of(path: Path) -> str:
    """`rules/bn105_….py`."""
    return path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else path.name


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


def _killed(path: Path) -> dict[str, str]:
    """What the file of an earlier check says of the mutants that tests found; tests found them as they were then."""
    rows = json.loads(path.read_text(encoding="utf-8"))["mutants"]
    return {row["id"]: row["outcome"] for row in rows if row["outcome"] != SURVIVED}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="modules whose path contains this; repeatable")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--depth", type=int, default=1, help="groups of tests asked; 1: the module's own")
    parser.add_argument("--again", action="store_true", help="keep what was killed last time, as the JSON file says")
    parser.add_argument("--json", type=Path, default=ROOT / ".bench" / "mutation.json", help="file of the outcomes")
    parser.add_argument("--log", type=Path, help="file for the output of the tests")
    asked = parser.parse_args()
    if not hasattr(os, "fork"):
        print("the mutation check forks, which this system cannot", file=sys.stderr)
        return 2
    paths = [path for path in modules() if not asked.only or any(part in file_of(path) for part in asked.only)]
    os.chdir(ROOT)
    preload()
    began = time.monotonic()
    check = Check(asked.jobs, asked.depth, asked.log)
    if asked.again:
        check.outcomes = _killed(asked.json)
    found = check.run(paths)
    reasons = justified()
    _write(asked.json, found, check.outcomes, reasons)
    survivors = listed(found, check.outcomes, reasons)
    wrong = stale(found, check.outcomes, reasons, len(paths) == len(modules()))
    print(table(found, check.outcomes, reasons))
    print(f"\n{time.monotonic() - began:.0f} s, Python {sys.version.split()[0]}")
    titles = {"survived": survivors, "justified in vain": "\n".join(wrong), "not checked": "\n".join(check.broken)}
    for title, text in titles.items():
        if text:
            print(f"\n{title}:\n{text}")
    return 1 if any(titles.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
