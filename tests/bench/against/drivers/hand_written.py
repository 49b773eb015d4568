"""What a careful engineer writes today for a live module: flags after eval(), statistics there, moved and finite."""

from __future__ import annotations

import torch


def norms(net):  # type: ignore[no-untyped-def]
    return [
        (name, each) for name, each in net.named_modules() if isinstance(each, torch.nn.modules.batchnorm._BatchNorm)
    ]


def check(net, inputs, labels, batch):  # type: ignore[no-untyped-def]
    found = [f"{name or 'model'}: in training mode" for name, module in net.named_modules() if module.training]
    net.eval()
    found += [f"{name}: in training mode after eval()" for name, module in net.named_modules() if module.training]
    for name, norm in norms(net):
        if norm.running_mean is None or norm.running_var is None:
            found.append(f"{name}: no running statistics")
        elif bool((norm.running_mean == 0).all()) and bool((norm.running_var == 1).all()):
            found.append(f"{name}: mean 0 and variance 1, never updated")
        elif not bool(norm.running_mean.isfinite().all() and norm.running_var.isfinite().all()):
            found.append(f"{name}: NaN or inf")
    return found
