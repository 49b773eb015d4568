"""onnx's reference evaluator: what onnxruntime lacks, and float64. Some eighty times slower than onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.external_data_helper import load_external_data_for_model
from onnx.reference import ReferenceEvaluator

from bnaudit.onnx_session.engines import Engine, Feeds
from bnaudit.onnx_session.reference_norm import BatchNormalization
from bnaudit.onnx_session.survey import RANDOM
from bnaudit.session import NotPossibleError, RunError

_BFLOAT16 = onnx.TensorProto.BFLOAT16
PER_SECOND = 4e8
"""Multiply-adds of a dense convolution with what surrounds it, measured on one core with MobileNet-like networks."""
PER_SECOND_GROUPED = 1e7
"""Of a convolution in groups, which the evaluator computes one by one."""


class ReferenceEngine:
    """A graph in the evaluator."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.dtypes: dict[str, str] = {}
        self._narrow = {each.name for each in model.graph.input if each.type.tensor_type.elem_type == _BFLOAT16}
        try:
            self._evaluator = ReferenceEvaluator(model, new_ops=[BatchNormalization])
        except Exception as error:
            raise NotPossibleError(f"onnx's reference evaluator refuses the graph: {_first_line(error)}") from error

    def run(self, names: Sequence[str], feeds: Feeds) -> list[Any]:
        """The values of these outputs. Raises RunError."""
        try:
            values = self._evaluator.run(list(names), {name: self._given(name, each) for name, each in feeds.items()})
        except Exception as error:
            raise RunError(f"the graph fails in onnx's reference evaluator: {_first_line(error)}") from error
        return [self._widened(name, value) for name, value in zip(names, values, strict=True)]

    def _given(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(_BFLOAT16)
        return array.astype(dtype) if name in self._narrow else array

    def _widened(self, name: str, value: Any) -> Any:
        if not isinstance(value, np.ndarray) or value.dtype.name != "bfloat16":
            return value
        self.dtypes[name] = "bfloat16"
        return value.astype(np.float32)


class ReferenceEngines:
    """Evaluators of one model; there is no other form for production."""

    optimizes = False
    any_order = False
    remarks: tuple[str, ...] = ()

    def __init__(
        self,
        path: Path,
        skeleton: onnx.ModelProto,
        change: Callable[[onnx.ModelProto], onnx.ModelProto] | None = None,
    ) -> None:
        self.name = f"onnx {onnx.__version__} reference evaluator"
        self.path = path
        self._change = change
        self.skeleton = skeleton
        self._seed: int | None = None

    def seed(self, seed: int) -> None:
        """Give every random node that has no seed of its own this one."""
        self._seed = seed

    def deciding(self) -> Engine:
        """The graph as it is."""
        return self.edited(self.skeleton)

    def production(self) -> Engine:
        """The same."""
        return self.deciding()

    def edited(self, model: onnx.ModelProto) -> Engine:
        """A copy, its weights read into memory."""
        whole = onnx.ModelProto()
        whole.CopyFrom(model)
        load_external_data_for_model(whole, str(self.path.parent.absolute()))
        if self._seed is not None:
            _seed(whole, self._seed)
        return ReferenceEngine(self._change(whole) if self._change is not None else whole)


def seconds(nodes: Sequence[onnx.NodeProto], shapes: Mapping[str, tuple[int, ...]]) -> float:
    """About how long one forward takes, from the multiply-adds of its products and convolutions.

    `shapes` are those of inner values, inputs and parameters, by name; what is not in it counts nothing.
    """
    total = 0.0
    for node in nodes:
        operands = [shapes.get(name, ()) for name in node.input]
        result = prod(shapes.get(node.output[0], ()) or (0,)) if node.output else 0
        if node.op_type in ("Conv", "ConvTranspose") and len(operands) > 1:
            groups = next((attribute.i for attribute in node.attribute if attribute.name == "group"), 1)
            speed = PER_SECOND if groups == 1 else PER_SECOND_GROUPED
            total += result * prod(operands[1][1:]) / speed
        elif node.op_type in ("MatMul", "Gemm") and operands and operands[0]:
            total += result * operands[0][-1] / PER_SECOND
        elif node.op_type in ("LSTM", "GRU", "RNN") and len(operands) > 1 and operands[0]:
            total += prod(operands[0][:2]) * prod(operands[1]) * 2 / PER_SECOND_GROUPED
        else:
            total += result / PER_SECOND_GROUPED / 4
    return total


def parameter_shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """Of initializers and constants of the main graph."""
    found = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            found.update((node.output[0], tuple(each.t.dims)) for each in node.attribute if each.HasField("t"))
    return found


def _seed(model: onnx.ModelProto, seed: int) -> None:
    for number, node in enumerate(model.graph.node):
        if node.op_type in (*RANDOM, "Dropout") and all(each.name != "seed" for each in node.attribute):
            given = seed + number if node.op_type == "Dropout" else float(seed + number)
            node.attribute.append(onnx.helper.make_attribute("seed", given))


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
