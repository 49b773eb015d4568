"""BN901: pickles that do more than build a model when they are loaded. None of them is loaded here."""

from __future__ import annotations

import argparse
import builtins
import collections
import ctypes
import functools
import importlib
import io
import operator
import os
import pathlib
import pickle
import runpy
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from fault_matrix.faults.saved_state import PICKLED_STATES
from fault_matrix.values import Fault, Planting, Scope
from torch import nn

from bnaudit.results import Severity

PICKLES = PICKLED_STATES | {"pickled module"}
Plant = Callable[[Planting], None]


class Payload:
    """Pickled as a call, and copied as itself: a deep copy would make the call."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.call

    def __deepcopy__(self, memo: dict[int, Any]) -> Payload:
        return self


def holding(value: Any) -> Plant:
    """The value as an entry of the checkpoint or state dict, or as an attribute of the module."""

    def plant(planting: Planting) -> None:
        if planting.carrier.name == "nested checkpoint":
            planting.beside["extra"] = value
        elif planting.carrier.name == "pickled module":
            planting.net.extra = value
        else:
            planting.state_edits.append(lambda state: state.update(extra=value))

    return plant


def compiled_source(planting: Planting) -> None:
    """A traced graph, pickled with the source text of its forward()."""
    holding(torch.fx.symbolic_trace(nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU())))(planting)


def needed_class(planting: Planting) -> None:
    """A class of the script that was trained with."""
    script = sys.modules["__main__"]
    settings = type("TrainingSettings", (), {"__module__": "__main__"})
    script.TrainingSettings = settings  # type: ignore[attr-defined]
    holding(settings())(planting)


def _embedded() -> Payload:
    """A pickle in a pickle, as torch.storage rebuilds a storage."""
    held = io.BytesIO()
    torch.save(Payload(os.system, "true"), held, _use_new_zipfile_serialization=False)
    return Payload(torch.storage._load_from_bytes, held.getvalue())


def _unlisted() -> Any:
    """What trainers put beside a model."""
    return {
        "args": argparse.Namespace(lr=0.1, out=pathlib.PurePosixPath("runs/1")),
        "best": np.float64(0.93),
        "order": np.arange(4),
        "seen": {1, 2},
        "scheduler": collections.OrderedDict(last_epoch=7),
        "counts": collections.Counter("aab"),
        "activation": functools.partial(torch.nn.functional.leaky_relu, negative_slope=0.1),
        "dtype": torch.float16,
        "generator": torch.get_rng_state(),
    }


_ERRORS = {
    "a program": Payload(os.system, "true"),
    "a subprocess": Payload(subprocess.Popen, ["true"]),  # written as Python 2's commands.Popen
    "eval": Payload(builtins.eval, "1"),
    "exec": Payload(builtins.exec, "pass"),
    "compile": Payload(builtins.compile, "1", "file", "eval"),
    "__import__": Payload(builtins.__import__, "antigravity"),
    "import_module": Payload(importlib.import_module, "antigravity"),
    "open": Payload(builtins.open, "net.log", "w"),
    "rmtree": Payload(shutil.rmtree, "folder"),
    "remove": Payload(os.remove, "file"),
    "a connection": Payload(socket.create_connection, ("localhost", 9)),
    "a download": Payload(urllib.request.urlopen, "http://localhost"),
    "native code": Payload(ctypes.CDLL, "libc.so.6"),
    "another pickle": Payload(pickle.loads, b"N."),
    "another file": Payload(torch.load, "other.pt"),
    "a script": Payload(runpy.run_path, "script.py"),
    "getattr of a class": Payload(getattr, nn.Linear.forward, "__globals__"),
    "attrgetter": Payload(operator.attrgetter, "__class__.__base__"),
    "methodcaller": Payload(operator.methodcaller, "system", "true"),
    "a hub": Payload(torch.hub.load, "owner/repository", "model"),
}
_FOUND = [
    *(
        Fault(
            f"a pickle that calls {what}",
            "BN901",
            holding(payload),
            Severity.ERROR,
            scope=Scope.NET,
            only=PICKLES,
            whole=True,
        )
        for what, payload in _ERRORS.items()
    ),
    *(
        Fault(name, "BN901", plant, Severity.ERROR, scope=Scope.NET, only=PICKLES, whole=True)
        for name, plant in (
            ("a program deep inside", holding({"a": [{"b": (1, Payload(os.system, "true"))}]})),
            ("a program as the argument of a harmless call", holding(functools.partial(Payload, os.system))),
            ("a pickle in the pickle", holding(_embedded())),
        )
    ),
    Fault(
        "source text that is compiled",
        "BN901",
        compiled_source,
        Severity.WARNING,
        scope=Scope.NET,
        only=PICKLES,
        whole=True,
    ),
    Fault("a class of __main__", "BN901", needed_class, Severity.NOTE, scope=Scope.NET, only=PICKLES, whole=True),
]
_SILENT = [
    Fault("what trainers save", "BN901", holding(_unlisted()), None, scope=Scope.NET, only=PICKLED_STATES),
    Fault(
        "plain numbers and texts",
        "BN901",
        holding({"epoch": 7, "name": "run", "losses": [0.1, 0.2], "done": True, "none": None}),
        None,
        scope=Scope.NET,
        only=PICKLED_STATES,
        unnoted=True,
    ),
]
FAULTS = [*_FOUND, *_SILENT]
