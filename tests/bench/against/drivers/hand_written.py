"""What a careful engineer writes today for a live module: training flags, frozen layers, and a sample alone."""

from __future__ import annotations

import torch


def check(net, inputs, labels, batch):  # type: ignore[no-untyped-def]
    inputs = inputs[:batch]
    found = [f"{name or 'model'}: in training mode" for name, module in net.named_modules() if module.training]
    net.eval()
    found += [f"{name}: in training mode after eval()" for name, module in net.named_modules() if module.training]
    norms = [
        (name, each) for name, each in net.named_modules() if isinstance(each, torch.nn.modules.batchnorm._BatchNorm)
    ]
    for name, norm in norms:
        if norm.running_mean is None or norm.running_var is None:
            found.append(f"{name}: no running statistics")
        elif bool((norm.running_mean == 0).all()) and bool((norm.running_var == 1).all()):
            found.append(f"{name}: mean 0 and variance 1, never updated")
        elif not bool(norm.running_mean.isfinite().all() and norm.running_var.isfinite().all()):
            found.append(f"{name}: NaN or inf")
    with torch.no_grad():
        if not torch.allclose(net(inputs)[:1], net(inputs[:1]), rtol=1e-4, atol=1e-5):
            found.append("model: a sample alone gets another output than in its batch")
    net.train()
    for name, norm in norms:
        weights = list(norm.parameters(recurse=False))
        if norm.training and weights and not any(each.requires_grad for each in weights):
            found.append(f"{name}: frozen, and in training mode after train()")
    return found
