"""A copy of a fixed graph whose norms compute in training form, as a copy of an ONNX graph gets it.

An exported program and a traced script hold the mode of each norm in their graph, so that train() cannot reach it.
There the flag is an input of the operator (`aten.batch_norm`, PyTorch 2.13: the sixth argument), which a copy has set.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

_FLAG = 5
"""Position of `training` in `aten.batch_norm` and in its decomposed form, of `use_input_stats` in instance norm."""
_MEAN = 3


def has_training_form(model: nn.Module) -> bool:
    """Whether the graphs of a program or a script hold norms in inference form that keep statistics."""
    if isinstance(model, torch.fx.GraphModule):
        return any(is_fixed(node) for node in model.graph.nodes)
    return any(True for graph in graphs(model) for _ in fixed_in(graph))


def in_training_form(model: nn.Module) -> nn.Module:
    """A copy of a program's or a script's module with all norms in training form that keep statistics.

    Parameters are shared with the original, buffers are copies.
    """
    return _program(model) if isinstance(model, torch.fx.GraphModule) else _script(model)


def _program(model: torch.fx.GraphModule) -> torch.fx.GraphModule:
    copied = program_copy(model)
    for node in copied.graph.nodes:
        if is_fixed(node):
            set_training(node)
    copied.recompile()
    return copied


def program_copy(model: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy that shares the parameters; its code is to be compiled anew when its nodes were changed."""
    shared: dict[int, Any] = {id(parameter): parameter for parameter in model.parameters()}
    copied: torch.fx.GraphModule = copy.deepcopy(model, shared)
    return copied


def is_fixed(node: torch.fx.Node) -> bool:
    """Whether a node of a program is a norm in inference form that keeps statistics."""
    aten = torch.ops.aten
    if node.target is aten._native_batch_norm_legit_no_training.default:
        return True
    norms = (aten.batch_norm.default, aten.instance_norm.default)
    return node.target in norms and node.args[_MEAN] is not None and node.args[_FLAG] is False


def set_training(node: torch.fx.Node) -> None:
    """Let such a node normalize with its batch."""
    aten = torch.ops.aten
    after = _FLAG + 1
    if node.target is aten._native_batch_norm_legit_no_training.default:
        node.target, after = aten._native_batch_norm_legit.default, _FLAG
    node.args = (*node.args[:_FLAG], True, *node.args[after:])


def _script(model: nn.Module) -> nn.Module:
    copied = script_copy(model)
    for graph in graphs(copied):
        for node in list(fixed_in(graph)):
            set_flag(graph, node)
    return copied


def script_copy(model: nn.Module) -> nn.Module:
    """A copy of a script that shares the parameters."""
    buffer = io.BytesIO()
    torch.jit.save(model, buffer)
    buffer.seek(0)
    copied: Any = torch.jit.load(buffer)  # type: ignore[no-untyped-call]
    for own, given in zip(copied.modules(), model.modules(), strict=True):
        for name, parameter in given.named_parameters(recurse=False):
            own._c.setattr(name, parameter)
    found: nn.Module = copied
    return found


def set_flag(graph: Any, node: Any) -> None:
    """Let a norm of a script normalize with its batch."""
    constant = graph.insertConstant(True)
    constant.node().moveBefore(node)
    node.replaceInput(_FLAG, constant)


def graphs(script: nn.Module, *, alone: bool = False) -> Iterator[Any]:
    """Of all methods: a module that is called several times has one, with a graph of its own, for each call.

    alone: of this module without those in it.
    """
    inner: list[Any] = [module._c for module in ([script] if alone else script.modules())]
    return (module._get_method(name).graph for module in inner for name in module._method_names())


def fixed_in(graph: Any) -> Iterator[Any]:
    """Norms of a script's graph in inference form that keep statistics."""
    for operator in ("aten::batch_norm", "aten::instance_norm"):
        for node in graph.findAllNodes(operator):
            arguments = list(node.inputs())
            if not arguments[_MEAN].node().mustBeNone() and arguments[_FLAG].toIValue() is False:
                yield node
