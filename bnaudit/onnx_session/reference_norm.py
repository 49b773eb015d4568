"""BatchNormalization for onnx's reference evaluator, whose own is another from opset 9 to 13.

There onnx 1.23 normalizes with a mixture of stored statistics and the batch's wherever momentum has a value, which is
always (onnx/reference/ops/op_batch_normalization.py), while the operator has no training form with one output.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx.reference.op_run import OpRun


class BatchNormalization(OpRun):
    """All versions, as onnx/docs/Changelog.md says; (N, C, …), biased variance."""

    op_domain = ""

    def _run(
        self,
        x: NDArray[Any],
        scale: NDArray[Any],
        bias: NDArray[Any],
        mean: NDArray[Any],
        var: NDArray[Any],
        epsilon: float = 1e-5,
        momentum: float = 0.9,
        training_mode: int = 0,
        is_test: int = 0,
        spatial: int = 1,
    ) -> tuple[NDArray[Any], ...]:
        opset = self.run_params["opsets"][""]
        asked = sum(1 for name in self.onnx_node.output if name)
        training = training_mode if opset >= 14 else asked >= 5 if opset >= 7 else not is_test
        axes = (0, *range(2, x.ndim)) if spatial else (0,)
        own_mean, own_var = (x.mean(axis=axes), x.var(axis=axes)) if training else (mean, var)
        shape = (1, -1, *[1] * (x.ndim - 2)) if spatial else (1, *x.shape[1:])
        factor = scale / np.sqrt(own_var + epsilon)
        result = (x - own_mean.reshape(shape)) * factor.reshape(shape) + bias.reshape(shape)
        running = [old * momentum + new * (1 - momentum) for old, new in ((mean, own_mean), (var, own_var))]
        found = [result.astype(x.dtype), *running, *((own_mean, own_var) if opset < 14 else ())]
        return tuple(found[: len(self.onnx_node.output)])
