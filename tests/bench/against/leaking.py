"""A norm that needs importing wherever its pickle is loaded."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class AlwaysBatchStatistics(nn.BatchNorm2d):
    """Passes training=True whatever its mode is: eval() is obeyed and changes nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, True, 0.1, self.eps)
