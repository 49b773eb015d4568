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
        return any(_is_fixed(node) for node in model.graph.nodes)
    return any(True for graph in _graphs(model) for _ in _fixed_in(graph))


def in_training_form(model: nn.Module) -> nn.Module:
    """A copy of a program's or a script's module with all norms in training form that keep statistics.

    Parameters are shared with the original, buffers are copies.
    """
    return _program(model) if isinstance(model, torch.fx.GraphModule) else _script(model)


def _program(model: torch.fx.GraphModule) -> torch.fx.GraphModule:
    shared: dict[int, Any] = {id(parameter): parameter for parameter in model.parameters()}
    copied: torch.fx.GraphModule = copy.deepcopy(model, shared)
    for node in copied.graph.nodes:
        if _is_fixed(node):
            _set(node)
    copied.recompile()
    return copied


def _is_fixed(node: torch.fx.Node) -> bool:
    aten = torch.ops.aten
    if node.target is aten._native_batch_norm_legit_no_training.default:
        return True
    norms = (aten.batch_norm.default, aten.instance_norm.default)
    return node.target in norms and node.args[_MEAN] is not None and node.args[_FLAG] is False


def _set(node: torch.fx.Node) -> None:
    aten = torch.ops.aten
    after = _FLAG + 1
    if node.target is aten._native_batch_norm_legit_no_training.default:
        node.target, after = aten._native_batch_norm_legit.default, _FLAG
    node.args = (*node.args[:_FLAG], True, *node.args[after:])


def _script(model: nn.Module) -> nn.Module:
    buffer = io.BytesIO()
    torch.jit.save(model, buffer)
    buffer.seek(0)
    copied: Any = torch.jit.load(buffer)  # type: ignore[no-untyped-call]
    for graph in _graphs(copied):
        for node in list(_fixed_in(graph)):
            constant = graph.insertConstant(True)
            constant.node().moveBefore(node)
            node.replaceInput(_FLAG, constant)
    for own, given in zip(copied.modules(), model.modules(), strict=True):
        for name, parameter in given.named_parameters(recurse=False):
            own._c.setattr(name, parameter)
    training: nn.Module = copied
    return training


def _graphs(script: nn.Module) -> Iterator[Any]:
    """Of all methods: a module that is called several times has one, with a graph of its own, for each call."""
    inner: list[Any] = [module._c for module in script.modules()]
    return (module._get_method(name).graph for module in inner for name in module._method_names())


def _fixed_in(graph: Any) -> Iterator[Any]:
    for operator in ("aten::batch_norm", "aten::instance_norm"):
        for node in graph.findAllNodes(operator):
            arguments = list(node.inputs())
            if not arguments[_MEAN].node().mustBeNone() and arguments[_FLAG].toIValue() is False:
                yield node
