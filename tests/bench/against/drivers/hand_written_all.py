"""The hand-written loop, with what the eight defects teach: a sample alone, and frozen norms after train()."""

from __future__ import annotations

import hand_written
import torch


def check(net, inputs, labels, batch):  # type: ignore[no-untyped-def]
    inputs = inputs[:batch]
    found = hand_written.check(net, inputs, labels, batch)
    with torch.no_grad():
        if not torch.allclose(net(inputs)[:1], net(inputs[:1]), rtol=1e-4, atol=1e-5):
            found.append("model: a sample alone gets another output than in its batch")
    net.train()
    for name, norm in hand_written.norms(net):
        weights = list(norm.parameters(recurse=False))
        if norm.training and weights and not any(each.requires_grad for each in weights):
            found.append(f"{name}: frozen, and in training mode after train()")
    return found
