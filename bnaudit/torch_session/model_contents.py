"""All that a model computes with, by name, as plain values that another process can be sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from bnaudit.records import Record
from bnaudit.torch_session.digests import PLAIN, digest
from bnaudit.torch_session.object_graph import contents

_BOOKKEEPING = frozenset(vars(nn.Module())) - {"training"}
_DERIVED = ("_compiled_call_impl", "_graph", "_flat_weights", "_flat_weight_refs")
_MOST_ITEMS = 1000
"""Of a container whose values are looked at."""
_LONGEST = 40


class Content(Record):
    """One tensor or plain value."""

    kind: str
    """parameter, buffer, attribute"""
    digest: int
    """Of the value, bit for bit."""
    shown: str = ""
    """The value, where it is short."""


def model_contents(model: nn.Module) -> dict[str, Content]:
    """Every tensor, and every plain attribute of every module, registered or not; `bn1.running_mean`, `bn1.eps`."""
    found: dict[str, Content] = {}
    held = contents(model)
    for tensor in held.tensors:
        if not tensor.held.path.endswith(".grad"):
            found[tensor.held.path] = Content(kind=tensor.held.kind, digest=tensor.digest())
    for path, module in held.modules:
        for name, value in _attributes(module):
            shown = repr(value) if isinstance(value, PLAIN) and len(repr(value)) <= _LONGEST else ""
            found.setdefault(
                f"{path}.{name}" if path else name, Content(kind="attribute", digest=digest(value), shown=shown)
            )
        kind = type(module).__qualname__
        found.setdefault(
            f"{path}.class" if path else "class", Content(kind="attribute", digest=digest(kind), shown=kind)
        )
    return found


def _attributes(module: nn.Module) -> Iterator[tuple[str, Any]]:
    for name, value in vars(module).items():
        if name not in _BOOKKEEPING and name not in _DERIVED and not name.startswith("__") and _is_plain(value, 0):
            yield name, value


def _is_plain(value: object, depth: int) -> bool:
    """Whether it is made of numbers, texts and arrays alone: anything else may differ from process to process."""
    if isinstance(value, (*PLAIN, np.ndarray, np.generic)):
        return True
    if depth > 3 or isinstance(value, torch.Tensor) or not isinstance(value, (list, tuple, Mapping, set, frozenset)):
        return False
    items = [*value.keys(), *value.values()] if isinstance(value, Mapping) else list(value)
    return len(items) <= _MOST_ITEMS and all(_is_plain(item, depth + 1) for item in items)


def changed(before: Mapping[str, Content], after: Mapping[str, Content]) -> tuple[str, ...]:
    """What is not the same: tensors first, each by its name, with what it was and is where that is short."""
    names = [name for name in before if name not in after or before[name].digest != after[name].digest]
    names += [name for name in after if name not in before]
    texts = {name: _text(name, before.get(name), after.get(name)) for name in names}
    order = {"parameter": 0, "buffer": 1}
    kinds = {name: order.get((before.get(name) or after[name]).kind, 2) for name in names}
    return tuple(texts[name] for name in sorted(names, key=lambda name: kinds[name]))


def _text(name: str, before: Content | None, after: Content | None) -> str:
    name = name or "the model"
    if after is None:
        return f"{name} (gone)"
    if before is None:
        return f"{name} (new)"
    if before.shown and after.shown:
        return f"{name} ({before.shown} → {after.shown})"
    return name
