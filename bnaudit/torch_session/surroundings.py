"""What a run may disturb outside the model: random generators, settings of torch, of NumPy and of the process."""

from __future__ import annotations

import gc
import os
import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import torch


class _Generators:
    """The states of Python's, NumPy's and torch's global generators."""

    def __init__(self) -> None:
        self._python = random.getstate()
        self._numpy = np.random.get_state()
        self._torch = torch.get_rng_state()
        used = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        self._cuda = torch.cuda.get_rng_state_all() if used else None

    def restore(self) -> None:
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        torch.set_rng_state(self._torch)
        if self._cuda is not None:
            torch.cuda.set_rng_state_all(self._cuda)


_AUTOCAST = ("cpu", "cuda")


class _Switches:
    """Settings of torch that a model's code may change."""

    def __init__(self) -> None:
        self._threads = torch.get_num_threads()
        self._grad = torch.is_grad_enabled()
        self._dtype = torch.get_default_dtype()
        self._deterministic = torch.are_deterministic_algorithms_enabled()
        self._warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
        self._precision = torch.get_float32_matmul_precision()
        self._cudnn = (torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic)
        self._anomaly = torch.is_anomaly_enabled()
        self._autocast = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in _AUTOCAST]
        self._fast_path = torch.backends.mha.get_fastpath_enabled()
        self._device = torch.get_default_device()

    def restore(self) -> None:
        if torch.get_num_threads() != self._threads:
            torch.set_num_threads(self._threads)
        torch.set_grad_enabled(self._grad)
        if torch.get_default_dtype() is not self._dtype:
            torch.set_default_dtype(self._dtype)
        self._restore_determinism()
        if torch.get_float32_matmul_precision() != self._precision:
            torch.set_float32_matmul_precision(self._precision)
        torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = self._cudnn
        if torch.is_anomaly_enabled() != self._anomaly:
            torch.autograd.set_detect_anomaly(self._anomaly)
        for kind, enabled, dtype in self._autocast:
            torch.set_autocast_enabled(kind, enabled)
            torch.set_autocast_dtype(kind, dtype)
        torch.backends.mha.set_fastpath_enabled(self._fast_path)
        if torch.get_default_device() != self._device:
            torch.set_default_device(self._device)

    def _restore_determinism(self) -> None:
        # Setting it imports the compiler, four seconds' worth, so only what was changed is set.
        now = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
        if now != (self._deterministic, self._warn_only):
            torch.use_deterministic_algorithms(self._deterministic, warn_only=self._warn_only)


class _Process:
    """What the whole process shares: the import path, the current folder, how NumPy treats errors."""

    def __init__(self) -> None:
        self._path = list(sys.path)
        self._folder = _folder()
        self._errors = np.geterr()
        self._recursion = sys.getrecursionlimit()

    def restore(self) -> None:
        sys.path[:] = self._path
        if self._folder is not None and _folder() != self._folder:
            os.chdir(self._folder)
        np.seterr(**self._errors)
        if sys.getrecursionlimit() != self._recursion:
            sys.setrecursionlimit(self._recursion)


def _folder() -> Path | None:
    """The current folder; None where it was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


@contextmanager
def kept_surroundings() -> Iterator[None]:
    """Puts generators and settings back on leaving, also after an exception or Ctrl-C."""
    kept = (_Generators(), _Switches(), _Process())
    try:
        yield
    finally:
        for part in kept:
            part.restore()


@contextmanager
def without_collection() -> Iterator[None]:
    """No garbage collection inside: a full one walks all of torch's objects, which takes a tenth of a second."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings of the model's or of torch's on the user's terminal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def seed_all(seed: int) -> None:
    """Seed Python's, NumPy's and torch's global generators."""
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    if _has_devices():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


@cache
def _has_devices() -> bool:
    """Whether there are generators besides the processor's. Where there are none `torch.manual_seed` notes every seed
    for a device that may yet come, with the stack of its caller: three milliseconds, which nothing ever frees.
    """
    present = (torch.cuda.is_available(), torch.backends.mps.is_available(), torch.xpu.is_available())
    return any(present) or torch._C._get_privateuse1_backend_name() != "privateuseone"


@contextmanager
def kept_settings(default: torch.dtype | None = None) -> Iterator[None]:
    """Puts torch's settings back after one forward, so that the next one finds the same.

    default: the dtype of floating tensors made inside, unless they ask for another.
    """
    kept = _Switches()
    if default is not None:
        torch.set_default_dtype(default)
    try:
        yield
    finally:
        kept.restore()
