"""Finds the plugins in a folder: the file name is the plugin name, and there is no list to edit."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType


@cache
def names(package: str) -> tuple[str, ...]:
    """The names of the plugins in `package` (`bnaudit.rules`), sorted, without importing one."""
    module = sys.modules.get(package) or import_module(package)
    return tuple(sorted(info.name for info in iter_modules(module.__path__) if not info.name.startswith("_")))


@cache
def load(package: str, name: str) -> ModuleType:
    """The module of one plugin."""
    return import_module(f"{package}.{name}")
