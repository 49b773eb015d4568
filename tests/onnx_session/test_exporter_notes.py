"""The module and the line that PyTorch's exporter notes at a node."""

from __future__ import annotations

import pytest
import torch
from onnx import NodeProto, helper
from torch import nn

from bnaudit.onnx_session.exporter_notes import in_scope, source_line


class Inner(nn.Module):
    """One line of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, 0)


class Net(nn.Module):
    """The inner module at `blocks.1.last`."""

    def __init__(self) -> None:
        super().__init__()
        block = nn.Sequential(nn.Linear(4, 4))
        block.add_module("last", Inner())
        self.blocks = nn.ModuleList([nn.Linear(4, 4), block])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def noted(**notes: str) -> NodeProto:
    node = helper.make_node("Softmax", ["x"], ["y"], name="node_softmax")
    for key, value in notes.items():
        node.metadata_props.add(key=f"pkg.torch.onnx.{key}", value=value)
    return node


def test_the_exporter_s_own_notes_are_read() -> None:
    program = torch.onnx.export(Net().eval(), (torch.ones(2, 4),), dynamo=True, verbose=False, optimize=False)
    (node,) = [node for node in program.model_proto.graph.node if node.op_type == "Softmax"]
    assert in_scope(node, node.name) == "/blocks.1/last/node_softmax"
    line = Inner.forward.__code__.co_firstlineno + 1
    assert source_line(node) == f"test_exporter_notes.py:{line}"


@pytest.mark.parametrize("scopes", ["", "['', 'softmax']", "no list", "['']", "{}", "["])
def test_without_a_module_the_name_stays(scopes: str) -> None:
    assert in_scope(noted(name_scopes=scopes), "node_softmax") == "node_softmax"
    assert source_line(noted(name_scopes=scopes)) == ""


def test_a_name_that_holds_its_scope_stays() -> None:
    node = noted(name_scopes="['', 'head', 'softmax']")
    assert in_scope(node, "/neck/Softmax") == "/neck/Softmax" and in_scope(node, "y") == "/head/y"


def test_pytorch_s_own_lines_are_passed_over() -> None:
    trace = 'File "C:\\\\nets\\\\net.py", line 7, in forward\n x\nFile "/lib/torch/nn/functional.py", line 9, in f\n y'
    assert source_line(noted(stack_trace=trace)) == "net.py:7"
