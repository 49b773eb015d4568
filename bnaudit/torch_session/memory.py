"""How much memory there is."""

from __future__ import annotations

import os
from pathlib import Path

from torch import nn

_MEMINFO = Path("/proc/meminfo")


def available_bytes() -> int | None:
    """Memory that can be used without swapping; None where the system does not tell."""
    try:
        for line in _MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except OSError:
        pass  # not Linux
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def model_bytes(model: nn.Module) -> int:
    """Of all parameters and buffers."""
    tensors = (*model.parameters(), *model.buffers())
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors if not nn.parameter.is_lazy(tensor))
