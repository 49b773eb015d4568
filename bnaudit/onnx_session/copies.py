"""An edited copy of a graph: nodes put in before others, values handed out, inputs added.

Only standard operators from opset 7 on are added, in float64 where numbers are reduced.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

PREFIX = "bnaudit:"
OLDEST_OPSET = 7
"""onnxruntime implements no older one."""
_STANDARD_OPSET = 13


class Copy:
    """One edit of a model's main graph. `finish` gives the new model; the one given is not changed."""

    def __init__(self, skeleton: onnx.ModelProto) -> None:
        self._model = onnx.ModelProto()
        self._model.CopyFrom(skeleton)
        self.graph = self._model.graph
        versions = {opset.domain: opset.version for opset in skeleton.opset_import}
        self.opset = versions.get("", versions.get("ai.onnx", 0)) or self._import_standard()
        self._before: dict[int, list[onnx.NodeProto]] = defaultdict(list)
        self._nodes: list[onnx.NodeProto] = list(self.graph.node)
        self._made = _last_number(skeleton.graph)
        self._outputs = {output.name for output in self.graph.output}
        self.kept_outputs = [output.name for output in self.graph.output]
        """The model's own outputs."""

    def _import_standard(self) -> int:
        """Declare ONNX's own operators in a graph that has only others."""
        self._model.opset_import.append(helper.make_opsetid("", _STANDARD_OPSET))
        return _STANDARD_OPSET

    def original(self, number: int) -> onnx.NodeProto:
        """A node of the model, to be edited in place."""
        return self._nodes[number]

    @property
    def originals(self) -> Sequence[onnx.NodeProto]:
        """The nodes of the model, edited so far."""
        return self._nodes

    @property
    def model(self) -> onnx.ModelProto:
        """The model with its nodes edited so far, and without the new ones."""
        return self._model

    def fresh(self, what: str = "value") -> str:
        """A name that no value has."""
        self._made += 1
        return f"{PREFIX}{self._made}:{what}"

    def constant(self, values: NDArray[np.generic] | Sequence[int]) -> str:
        """The name of a new initializer; a list becomes int64."""
        array = values if isinstance(values, np.ndarray) else np.array(values, np.int64)
        name = self.fresh("constant")
        self.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def add(self, before: int, operator: str, inputs: Sequence[str], **attributes: object) -> str:
        """A new node in front of node number `before` (one past the last: at the end); the name of its output."""
        name = self.fresh(operator)
        node = helper.make_node(operator, list(inputs), [name], name=name, **attributes)  # type: ignore[arg-type]
        self._before[before].append(node)
        return name

    def place(self, before: int, node: onnx.NodeProto) -> None:
        """Put a node of the caller's in front of node number `before`."""
        self._before[before].append(node)

    def mean(self, before: int, value: str, axis: int) -> str:
        """ReduceMean over one axis, which stays as 1; its axes are an input from opset 18 on."""
        if self.opset >= 18:
            return self.add(before, "ReduceMean", [value, self.constant([axis])], keepdims=1)
        return self.add(before, "ReduceMean", [value], axes=[axis], keepdims=1)

    def cast(self, before: int, value: str, dtype: int) -> str:
        """The value in another type (TensorProto.DataType)."""
        return self.add(before, "Cast", [value], to=dtype)

    def give_out(self, value: str) -> str:
        """Make a value a graph output, once; its name."""
        if value not in self._outputs:
            self._outputs.add(value)
            self.graph.output.append(onnx.ValueInfoProto(name=value))
        return value

    def take_in(self, what: str, dtype: int, shape: Sequence[int | None]) -> str:
        """A new graph input; its name."""
        name = self.fresh(what)
        self.graph.input.append(helper.make_tensor_value_info(name, dtype, list(shape)))
        return name

    @property
    def end(self) -> int:
        """The number behind the last node."""
        return len(self._nodes)

    def finish(self, *, in_order: bool = True) -> onnx.ModelProto:
        """The edited model. With `in_order=False` the new nodes stand behind all others.

        onnxruntime seeds the generator of a random node with its place, and finds the order by itself.
        """
        placed: list[onnx.NodeProto] = [] if in_order else [*self._nodes]
        for number in range(self.end + 1):
            placed += self._before.get(number, [])
            placed += self._nodes[number : number + 1] if in_order else []
        ordered = [onnx.NodeProto.FromString(node.SerializeToString()) for node in placed]
        del self.graph.node[:]
        self.graph.node.extend(ordered)
        return self._model


def _last_number(graph: onnx.GraphProto) -> int:
    """The largest number in a name of ours: a copy may be copied."""
    names = [name for node in graph.node for name in (node.name, *node.output)]
    names += [each.name for each in (*graph.input, *graph.initializer)]
    numbers = [name.split(":")[1] for name in names if name.startswith(PREFIX)]
    return max((int(number) for number in numbers if number.isdecimal()), default=0)
