"""How much memory a model takes, and how much there is."""

from __future__ import annotations

from torch import nn

from bnaudit.available_memory import available_bytes as available_bytes


def model_bytes(model: nn.Module) -> int:
    """Of all parameters and buffers."""
    tensors = (*model.parameters(), *model.buffers())
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors if not nn.parameter.is_lazy(tensor))
