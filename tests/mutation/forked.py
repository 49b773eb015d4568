"""Tests of one module, collected once, and then run in a fork for each mutant of it.

The first process imports what takes long and belongs to others (torch, NumPy, onnx, pytest), and nothing of bnaudit.
For each module it forks one that collects the module's tests, and this one forks for each mutant. Where collecting
did not import the module (rules are loaded when they are asked for), the mutant is what its first import gives; else
its code is put into the functions that are there. Nothing is written to the source tree. POSIX only: there is no fork
elsewhere.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import IO, Any, NamedTuple

from mutation.in_place import put_into

KILLED, SURVIVED, TIMED_OUT, HIDDEN, BROKEN = "killed", "survived", "timed out", "hidden", "broken"
_PASSED, _FAILED, _NEVER_IMPORTED = 0, 1, 97
_MEMORY = 6 << 30
"""Bytes that a mutant may take beyond what there is already."""
_SLOWER, _LEAST = 6.0, 10.0
"""A mutant may take this many times as long as the module itself, and this many seconds more."""
_PRELOADED = [
    *("hypothesis", "jsonschema", "numpy", "onnx", "onnx.reference", "onnxruntime", "pytest", "torch"),
    *("hypothesis.strategies", "onnx.helper", "safetensors.torch", "rich.console", "torch.jit", "torch.export"),
]
_LIBRARIES = {"bnaudit", "numpy", "torch", "onnx", "onnxruntime", "hypothesis", "rich", "json", "safetensors"}


def preload() -> None:
    """Import what all need. Raises RuntimeError when a module of bnaudit came with it."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in _PRELOADED:
        importlib.import_module(name)
    if any(name.split(".")[0] == "bnaudit" for name in sys.modules):
        raise RuntimeError("bnaudit is imported before the fork: no test would see a mutant")
    _freeze()


def _freeze() -> None:
    """Collected objects cost a copy of their page in every fork."""
    gc.collect()
    gc.disable()
    gc.freeze()


class Variant(NamedTuple):
    """A mutant as it is run."""

    id: str
    code: Callable[[], CodeType]


class Subject(NamedTuple):
    """A module and the tests that are asked about it."""

    name: str
    path: Path
    tests: Sequence[Path]
    code: CodeType
    """As it is."""
    is_asked: Callable[[Path, Path, str], bool] = lambda module, test, name: True
    """Whether a collected test is about the module, by its file and name."""


def judge(subject: Subject, variants: Sequence[Variant], scratch: Path, out: IO[str], log: Path | None = None) -> int:
    """Fork a process that judges all variants; its pid.

    It writes one JSON line `[id, outcome]` for each, and before them `["", …]` for the module as it is: *survived*,
    *hidden* when the tests never import it, *broken* when they fail anyway, and then no more.
    """
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        _keep_quiet(log)
        status = _collect(_Judging(subject, variants, scratch, out), scratch)
        if status and not out.tell():
            _write(out, "", BROKEN)
        out.flush()
    finally:
        os._exit(status)


def _keep_quiet(log: Path | None) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND) if log else null
    for stream, target in ((0, null), (1, out), (2, out)):
        os.dup2(target, stream)


def _collect(judging: _Judging, scratch: Path) -> int:
    import pytest

    off = ("cacheprovider", "xdist", "unraisableexception", "threadexception", "playwright", "anyio", "benchmark")
    options = [option for name in off for option in ("-p", f"no:{name}")]
    options += ["-s", "--tb=short", "--assert=plain", f"--basetemp={scratch / str(os.getpid())}"]
    return int(pytest.main([*options, *map(str, judging.subject.tests)], plugins=[judging]))


def _write(out: IO[str], id: str, outcome: str) -> None:
    out.write(json.dumps([id, outcome]) + "\n")
    out.flush()


class _Judging(MetaPathFinder):
    """A pytest plugin that runs the collected tests once for each variant, and finds the module for them."""

    def __init__(self, subject: Subject, variants: Sequence[Variant], scratch: Path, out: IO[str]) -> None:
        self.subject, self.variants, self.scratch, self.out = subject, variants, scratch, out
        self.code = subject.code
        self.was_imported = False

    def pytest_configure(self) -> None:
        """Stand before all other finders."""
        sys.meta_path.insert(0, self)

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        """The spec of the one module; None for others."""
        return _spec(self) if fullname == self.subject.name else None

    def pytest_runtestloop(self, session: Any) -> bool:
        """In place of pytest's own loop."""
        subject = self.subject
        session.items = [each for each in session.items if subject.is_asked(subject.path, each.path, each.name)]
        if session.testsfailed or not session.items:
            _write(self.out, "", BROKEN)
            return True
        self._import_the_rest(session)
        began = time.monotonic()
        as_it_is = self._outcome(session, self.subject.code, 600.0)
        seconds = (time.monotonic() - began) * _SLOWER + _LEAST
        _write(self.out, "", {KILLED: BROKEN, TIMED_OUT: BROKEN}.get(as_it_is, as_it_is))
        if as_it_is == SURVIVED:
            for variant in self.variants:
                _write(self.out, variant.id, self._outcome(session, variant.code(), seconds))
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Into the log, where there is one: a fork ends before pytest tells of failures."""
        if report.failed:
            print(f"\n{report.nodeid}\n{report.longreprtext}", file=sys.stderr, flush=True)

    def _outcome(self, session: Any, code: CodeType, seconds: float) -> str:
        pid = os.fork()
        if not pid:
            status = _FAILED
            try:
                signal.setitimer(signal.ITIMER_REAL, seconds)
                _limit_memory()
                status = self._run(session, code)
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status == -signal.SIGALRM:
            return TIMED_OUT
        return {_PASSED: SURVIVED, _NEVER_IMPORTED: HIDDEN}.get(status, KILLED)

    def _run(self, session: Any, code: CodeType) -> int:
        self.code = code
        loaded = sys.modules.get(self.subject.name)
        if loaded is not None:
            put_into(loaded, code)
        following = [*session.items[1:], None]
        for item, next_item in zip(session.items, following, strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
            if session.testsfailed:
                return _FAILED
        return _PASSED if loaded is not None or self.was_imported else _NEVER_IMPORTED

    def _import_the_rest(self, session: Any) -> None:
        """Import what the tests import while they run, but for the module itself, so that no fork has to."""
        before = set(sys.modules)
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                self._run(session, self.subject.code)
                names = [name for name in sys.modules if name not in before and name != self.subject.name]
                with os.fdopen(writing, "w") as pipe:
                    json.dump(names, pipe)
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            names = json.loads(pipe.read() or "[]")
        os.waitpid(pid, 0)
        for name in names:
            if name.split(".")[0] in _LIBRARIES and importlib.util.find_spec(name.split(".")[0]):
                _import_if_possible(name)
        if self.subject.name in sys.modules and self.subject.name not in before:
            raise RuntimeError(f"{self.subject.name} is imported by what its tests import")
        _freeze()


def _import_if_possible(name: str) -> None:
    try:
        importlib.import_module(name)
    except ImportError:  # made by its package under another name
        return


def _limit_memory() -> None:
    statm = Path("/proc/self/statm")
    if statm.exists():
        import resource  # POSIX only

        limit = int(statm.read_text().split()[0]) * resource.getpagesize() + _MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _spec(judging: _Judging) -> ModuleSpec | None:
    subject = judging.subject
    loader = _Given(subject.name, str(subject.path), judging)
    below = [str(subject.path.parent)] if subject.path.name == "__init__.py" else None
    return importlib.util.spec_from_file_location(
        subject.name, subject.path, loader=loader, submodule_search_locations=below
    )


class _Given(SourceFileLoader):
    def __init__(self, fullname: str, path: str, judging: _Judging) -> None:
        super().__init__(fullname, path)
        self.judging = judging

    def get_code(self, fullname: str) -> CodeType:
        self.judging.was_imported = True
        return self.judging.code
