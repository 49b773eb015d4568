"""torchtest2: its checks on batch invariance, eval mode and frozen parameters; every WARN or FAIL."""

from __future__ import annotations

import torch
import torchtest2

NEAREST = {"forward", "output_finite", "eval_determinism", "batch_independence", "frozen_params"}


def check(net, inputs, labels, batch):  # type: ignore[no-untyped-def]
    report = torchtest2.check_model(
        net,
        inputs[:batch],
        labels[:batch],
        loss_fn=torch.nn.functional.cross_entropy,
        skip=set(torchtest2.CHECKS) - NEAREST,
    )
    print(report)
    return [f"{result.name}: {result.message}" for result in report.results if result.status.value in ("WARN", "FAIL")]
