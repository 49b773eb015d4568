"""What a careful engineer writes today: onnx.load, and a loop over the normalization and dropout nodes.

    python loop_onnx.py load|check FILE

Prints {"problems": [...]}. `check` is onnx.checker with all it has, and no loop.
"""

from __future__ import annotations

import json
import sys


def checked(path: str) -> list[str]:
    """What onnx.checker raises, in one line."""
    import onnx.checker

    try:
        onnx.checker.check_model(path, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return [str(error).splitlines()[0]]
    return []


def looped(path: str) -> list[str]:
    """One line for each batch norm in training form or with lost, untouched or impossible statistics."""
    import numpy as np
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(path).graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    found = []
    for node in graph.node:
        values = {attribute.name: attribute.i for attribute in node.attribute}
        switch = stored.get(node.input[2]) if node.op_type == "Dropout" and len(node.input) > 2 else None
        if switch is not None and bool(numpy_helper.to_array(switch)):
            found.append(f"{node.name}: dropout in training mode")
        if node.op_type != "BatchNormalization":
            continue
        if values.get("training_mode") or len([name for name in node.output if name]) > 1:
            found.append(f"{node.name}: training mode")
        if not {node.input[3], node.input[4]} <= stored.keys():
            found.append(f"{node.name}: no stored statistics")
            continue
        mean, variance = (numpy_helper.to_array(stored[name]) for name in node.input[3:5])
        if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
            found.append(f"{node.name}: NaN or inf")
        if (variance <= 0).any():
            found.append(f"{node.name}: variance not above 0")
        if (mean == 0).all() and (variance == 1).all():
            found.append(f"{node.name}: mean 0 and variance 1, never updated")
    return found


if __name__ == "__main__":
    print(json.dumps({"problems": {"load": looped, "check": checked}[sys.argv[1]](sys.argv[2])}))
