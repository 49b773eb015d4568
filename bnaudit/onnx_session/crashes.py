"""What crashes onnxruntime, and with it the whole process, so that it must not be run as it is.

onnxruntime 1.32 writes the running statistics of a training-form BatchNormalization wherever they should go, also
where the node leaves these outputs out (an empty name, which the specification allows).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

REMARK = (
    "a BatchNormalization in training form leaves out its running statistics, which crashes onnxruntime: "
    "it is run with them, and returns the same"
)


def name_running_statistics(model: onnx.ModelProto) -> bool:
    """Give every left-out output of a training-form BatchNormalization a name; whether there was one."""
    found = False
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    for node in _all_nodes(nodes):
        if node.op_type == "BatchNormalization" and len(node.output) > 1:
            for index, name in enumerate(node.output):
                if not name:
                    node.output[index] = f"bnaudit:running:{node.output[0]}:{index}"
                    found = True
    return found


def _all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _all_nodes(graph.node)
