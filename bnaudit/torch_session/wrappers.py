"""What stands around a model: torch.compile, DataParallel, DistributedDataParallel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


def unwrapped(model: nn.Module) -> nn.Module:
    """The model without what compiles or spreads it."""
    while True:
        inner = model._modules.get("_orig_mod") if is_compiled(model) else None
        if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            inner = model.module
        if inner is None:
            return model
        model = inner


def is_compiled(module: nn.Module) -> bool:
    """Whether it is what torch.compile returned for a module."""
    return type(module).__name__ == "OptimizedModule" and "_orig_mod" in module._modules


def has_compiled(model: nn.Module) -> bool:
    """Whether any module in it is compiled, in place or in a wrapper."""
    return any(
        is_compiled(module) or getattr(module, "_compiled_call_impl", None) is not None for module in model.modules()
    )


@contextmanager
def eagerly(needed: bool) -> Iterator[None]:
    """Run compiled modules as they are written, so that instruments see their operators."""
    if not needed or not hasattr(torch.compiler, "set_stance"):
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield
