"""Files of models that look suspicious when they run, and are not."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from sample_models import digit_controls as nets
from sample_models.small_digits import build_small
from sample_models.write_healthy import Trained, Writer
from sample_models.write_running_defects import graph_of, module_of, program_of, script_of, state_of, trained_small


def with_perfect_statistics(net: nn.Module, inputs: torch.Tensor) -> None:
    """Every batch norm gets the exact statistics of these inputs, in one forward in training mode."""
    norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0
    net.train()
    with torch.no_grad():
        net(inputs)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    net.eval()


def perfect_statistics(trained: Trained, path: Path) -> None:
    net = trained_small(build_small, trained)
    with_perfect_statistics(net, trained.digits.held_out_inputs)
    torch.save(net.state_dict(), path)


def bfloat16(trained: Trained, path: Path) -> None:
    torch.save(trained_small(build_small, trained).to(torch.bfloat16), path)


def frozen_backbone(trained: Trained, path: Path) -> None:
    net = nets.build_frozen_backbone()
    net.load_state_dict(trained_small(build_small, trained).state_dict())
    torch.save(net.state_dict(), path)


WRITERS: dict[str, Writer] = {
    "controls/perfect_statistics.pt": perfect_statistics,
    "controls/bfloat16.pt": bfloat16,
    "controls/frozen_backbone.pt": frozen_backbone,
    "controls/weight_standardization.onnx": graph_of(nets.build_standardized),
    "controls/rotary_transformer.pt": state_of(nets.build_rotary),
    "controls/mixture_of_experts.pt": module_of(nets.build_experts),
    "controls/monte_carlo_dropout.pt": state_of(nets.build_monte_carlo),
    "controls/shared_head.pt": script_of(nets.build_shared_head),
    "controls/reading_rows.onnx": graph_of(nets.build_reading),
    "controls/instance_norm.pt2": program_of(nets.build_instance_norm),
}
