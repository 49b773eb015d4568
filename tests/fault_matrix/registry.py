"""The architectures and the faults of the matrix, found in their folders: a new file needs no list."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from fault_matrix.values import Architecture, Fault


def _found(folder: str, name: str) -> Iterable[Any]:
    for file in sorted((Path(__file__).parent / folder).glob("*.py")):
        yield from getattr(import_module(f"fault_matrix.{folder}.{file.stem}"), name, ())


def _by_name(kind: str, named: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, each in named:
        if name in found:
            raise ValueError(f"two {kind} are called {name!r}")
        found[name] = each
    return found


ARCHITECTURES: dict[str, Architecture] = _by_name(
    "architectures", ((each.name, each) for each in _found("architectures", "ARCHITECTURES"))
)
FAULTS: dict[str, Fault] = _by_name("faults", ((each.id, each) for each in _found("faults", "FAULTS")))
