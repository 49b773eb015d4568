"""Tests in a forked process that imports one module with other code than stands on disk.

The parent has imported what takes long and belongs to others (torch, NumPy, onnx, pytest), and nothing of bnaudit: a
child starts within milliseconds and imports bnaudit afresh, the one module by `ModuleOf`. Nothing is written to the
source tree. POSIX only: there is no fork elsewhere.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import signal
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

HIDDEN = 97
"""Exit code: the tests passed and never imported the module, so that they can say nothing of it."""
_MEMORY = 6 << 30
"""Bytes that a child may take beyond what the parent has."""
PRELOADED = ("hypothesis", "jsonschema", "numpy", "onnx", "onnx.reference", "onnxruntime", "pytest", "torch")
PRELOADED += ("_pytest.assertion.rewrite", "_pytest.python", "hypothesis.strategies", "onnx.helper", "torch.nn")
PRELOADED += ("rich.console", "rich.table", "safetensors.torch", "typer", "torch.jit", "torch.export")


def preload() -> None:
    """Import what all children need. Raises RuntimeError when a module of bnaudit came with it."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in PRELOADED:
        importlib.import_module(name)
    if any(name.split(".")[0] == "bnaudit" for name in sys.modules):
        raise RuntimeError("bnaudit is imported in the parent: its children would not see a mutant")


class ModuleOf(MetaPathFinder):
    """Finds one module and gives it the code."""

    def __init__(self, name: str, path: Path, code: CodeType) -> None:
        self.name, self.path, self.code = name, path, code
        self.was_used = False

    def pytest_configure(self) -> None:
        """As a plugin: stand before pytest's own finder, which reads the sources of plugins' packages by itself."""
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of the one module; None for others."""
        if fullname != self.name:
            return None
        loader = _Given(fullname, str(self.path), self)
        where = [str(self.path.parent)] if self.path.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            fullname, self.path, loader=loader, submodule_search_locations=where
        )


class _Given(SourceFileLoader):
    def __init__(self, fullname: str, path: str, finder: ModuleOf) -> None:
        super().__init__(fullname, path)
        self.finder = finder

    def get_code(self, fullname: str) -> CodeType:
        self.finder.was_used = True
        return self.finder.code


def start(finder: ModuleOf, tests: Sequence[Path], seconds: float, scratch: Path, log: Path | None = None) -> int:
    """Fork and run the tests up to the first failure; the pid. After `seconds` the child dies of SIGALRM."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        _keep_quiet(log)
        status = _tested(finder, tests, scratch / str(os.getpid()))
    finally:
        os._exit(status)


def _keep_quiet(log: Path | None) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) if log else null
    for stream, target in ((0, null), (1, out), (2, out)):
        os.dup2(target, stream)


def _tested(finder: ModuleOf, tests: Sequence[Path], scratch: Path) -> int:
    import pytest

    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() if _has_proc() else 0
    if taken:
        resource.setrlimit(resource.RLIMIT_AS, (taken + _MEMORY, taken + _MEMORY))
    options = ["-x", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={scratch}"]
    status = int(pytest.main([*options, *map(str, tests)], plugins=[finder]))
    return HIDDEN if status == 0 and not finder.was_used else status


def _has_proc() -> bool:
    return Path("/proc/self/statm").exists()
