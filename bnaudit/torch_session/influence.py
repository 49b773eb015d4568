"""How strongly an anchor's output depends on its companions, by the gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from bnaudit.session import Batch, NotPossibleError
from bnaudit.torch_session.memory import available_bytes, model_bytes
from bnaudit.torch_session.tensors import leaves

_COPIES = 3
"""Memory of a forward that keeps its activations, in sizes of model and inputs: a lower bound."""


def influence(
    model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], batch: Batch, call: Callable[[], object]
) -> float:
    """The largest |gradient| of the anchors' outputs with respect to a companion's input, divided by the largest with
    respect to an anchor's own. Parameters are frozen for it; the caller restores them.

    The outputs are summed with random signs, so that softmax and norms do not cancel them.
    """
    inputs = [tensor for tensor in _tensors((args, kwargs)) if tensor.is_floating_point()]
    if not inputs:
        raise NotPossibleError("the model has no floating inputs to take a gradient of")
    needed = _COPIES * (model_bytes(model) + sum(tensor.numel() * tensor.element_size() for tensor in inputs))
    there = available_bytes()
    if there is not None and needed > there:
        raise NotPossibleError(f"memory is short for a gradient ({needed >> 20} of {there >> 20} MiB)")
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for tensor in inputs:
        tensor.requires_grad_(True)
    with torch.enable_grad():
        total = _signed_sum(call(), batch)
        if total is None or not total.requires_grad:
            raise NotPossibleError("no gradient leads from the outputs to the inputs")
        gradients = torch.autograd.grad(total, inputs, allow_unused=True)
    return _ratio([gradient for gradient in gradients if gradient is not None], batch)


def _tensors(tree: object) -> Iterator[torch.Tensor]:
    return (tensor for _, tensor in leaves(tree))


def _signed_sum(returned: object, batch: Batch) -> torch.Tensor | None:
    generator = torch.Generator().manual_seed(0)
    total = None
    for _, output in leaves(returned):
        axis = next((axis for axis in (0, batch.axis) if axis < output.ndim and output.shape[axis] == batch.size), None)
        if axis is None or not output.is_floating_point() or not output.requires_grad:
            continue
        rows = output.index_select(axis, torch.tensor(batch.anchors, device=output.device))
        signs = torch.randint(0, 2, rows.shape, generator=generator).mul_(2).sub_(1).to(rows)
        total = (rows * signs).sum() + (total if total is not None else 0)
    return total


def _ratio(gradients: list[torch.Tensor], batch: Batch) -> float:
    own, others = 0.0, 0.0
    for gradient in gradients:
        if batch.axis >= gradient.ndim or gradient.shape[batch.axis] != batch.size:
            continue
        rows = gradient.abs().movedim(batch.axis, 0).reshape(batch.size, -1).amax(1)
        is_anchor = torch.zeros(batch.size, dtype=torch.bool, device=rows.device)
        is_anchor[list(batch.anchors)] = True
        own = max(own, float(rows[is_anchor].max()))
        others = max([others, *rows[~is_anchor].tolist()])
    if own == 0.0:
        raise NotPossibleError("an anchor's outputs have no gradient with respect to its own input")
    return others / own
