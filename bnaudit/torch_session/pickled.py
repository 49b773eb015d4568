"""Whole modules out of torch.save files. Unpickling executes what the file says: only when the user trusts it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import nn

from bnaudit.errors import UnreadableError
from bnaudit.torch_session.failures import first_line
from bnaudit.user_code import raised

_DEEPEST = 6


def load_module(path: Path, part: str, device: str) -> nn.Module:
    """The module of the file that is the part called `part`.

    Raises UnreadableError when a class cannot be imported, the code of the file raises, or there is no such module.
    """
    found = dict(_modules(unpickled(path, device), ""))
    if part not in found:
        what = f"unpickling gave no module {part}" if part else "unpickling gave no module"
        raise UnreadableError(what, where=path.name, remedy="give the model with --model")
    return found[part]


def unpickled(path: Path, device: str) -> object:
    """What torch.load gives of a file that the user trusts. Raises UnreadableError."""
    return _unpickled(path, lambda: torch.load(path, map_location=device, weights_only=False))


def unpickled_arrays(path: Path) -> object:
    """What a pickle holds that torch.save did not write, of a file that the user trusts. Raises UnreadableError."""
    return _unpickled(path, lambda: np.load(path, allow_pickle=True, encoding="latin1"))


def _unpickled(path: Path, load: Callable[[], object]) -> object:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # where the classes of the user's project are
    try:
        return load()
    except (ImportError, AttributeError) as error:
        remedy = "start where the code that it was saved with can be imported"
        raise UnreadableError(f"unpickling failed: {first_line(error)}", where=path.name, remedy=remedy) from error
    except Exception as error:
        raise raised(f"unpickling {path.name}", error) from error


def _modules(value: object, path: str, depth: int = 0) -> Iterator[tuple[str, nn.Module]]:
    if isinstance(value, nn.Module):
        yield path, value
    elif isinstance(value, Mapping) and depth < _DEEPEST:
        for key, item in value.items():
            yield from _modules(item, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, (list, tuple)) and depth < _DEEPEST:
        for index, item in enumerate(value):
            yield from _modules(item, f"{path}.{index}" if path else str(index), depth + 1)
    elif depth < _DEEPEST and isinstance(getattr(value, "__dict__", None), dict):
        yield from _modules(vars(value), path, depth + 1)
