"""A copy of a graph with some of its norms changed: those in training form, those with another epsilon.

What a module holds in attributes, an exported program and a script hold in constants of their code (PyTorch 2.13).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isclose
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from bnaudit.description import NormLayer
from bnaudit.records import replace
from bnaudit.session import NotPossibleError
from bnaudit.torch_session.training_forms import (
    fixed_in,
    graphs,
    is_fixed,
    program_copy,
    script_copy,
    set_flag,
    set_training,
)
from bnaudit.variation import Altered, Variation

_aten = torch.ops.aten
_EPSILONS = {
    _aten.batch_norm.default: 7,
    _aten.instance_norm.default: 7,
    _aten._native_batch_norm_legit_no_training.default: 6,
    _aten._native_batch_norm_legit.default: 7,
    _aten._native_batch_norm_legit.no_stats: 5,
    _aten.layer_norm.default: 4,
    _aten.native_layer_norm.default: 4,
    _aten.group_norm.default: 4,
}
"""Where these operators take epsilon."""
_VECTORS = ("mean", "var", "gamma", "beta")


def in_graph(altered: Altered, *, fixed: bool) -> bool:
    """Whether a change of a norm of a program or a script is one of its code. fixed: its modes are, too."""
    return altered.eps is not None or (fixed and altered.training)


def without_graph(variation: Variation, *, fixed: bool) -> Variation:
    """What is left of a variation for a copy in which the changes of the code are made."""
    left = {}
    for name, each in variation.layers.items():
        rest = replace(each, eps=None, training=each.training and not fixed)
        if rest.training or any(getattr(rest, field) is not None for field in _VECTORS):
            left[name] = rest
    return replace(variation, layers=MappingProxyType(left))


def changed_graph(
    model: nn.Module, layers: Mapping[str, NormLayer], changes: Mapping[str, Altered], *, fixed: bool
) -> nn.Module:
    """The copy, which shares the parameters. Raises NotPossibleError for a norm that is not to be found in the code."""
    for name in changes:
        if name not in layers:
            raise NotPossibleError(f"the model has no norm layer {name}")
    if isinstance(model, torch.fx.GraphModule):
        return _program(model, changes)
    return _script(model, layers, changes, fixed=fixed)


def _program(model: torch.fx.GraphModule, changes: Mapping[str, Altered]) -> nn.Module:
    copied = program_copy(model)
    nodes: dict[str, list[torch.fx.Node]] = {}
    for node in copied.graph.nodes:
        for name in _layers_of(node):
            nodes.setdefault(name, []).append(node)
    for name, altered in changes.items():
        if name not in nodes:
            raise NotPossibleError(f"{name} is no operator of its own in the program, and cannot be changed")
        for node in nodes[name]:
            _change(node, name, altered)
    copied.recompile()
    return copied


def _layers_of(node: torch.fx.Node) -> set[str]:
    """The layer whose tensors a norm reads; else the one that it was exported from."""
    if node.target not in _EPSILONS:
        return set()
    read = [each for each in node.args[1:] if isinstance(each, torch.fx.Node) and each.op == "get_attr"]
    if read:
        return {str(each.target).rpartition(".")[0] for each in read}
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return {str(stack[-1][0])} if stack else set()


def _change(node: torch.fx.Node, name: str, altered: Altered) -> None:
    if altered.eps is not None:
        args = list(node.args)
        place = _EPSILONS[node.target]  # type: ignore[index]
        if place < len(args):
            args[place] = float(altered.eps)
            node.args = tuple(args)
        else:
            node.kwargs = {**node.kwargs, "eps": float(altered.eps)}
    if altered.training and is_fixed(node):
        set_training(node)


def _script(
    model: nn.Module, layers: Mapping[str, NormLayer], changes: Mapping[str, Altered], *, fixed: bool
) -> nn.Module:
    copied = script_copy(model)
    modules = dict(copied.named_modules(remove_duplicate=False))
    for names in _by_code(modules, changes, fixed=fixed):
        name, altered = names[0], changes[names[0]]
        code = list(graphs(modules[name], alone=True)) if name in modules else []
        if altered.eps is not None:
            found = [pair for graph in code for pair in _constants(graph, layers[name].eps)]
            _check(found, name, "epsilon")
            for graph, node in found:
                _replace(graph, node, float(altered.eps))
        if altered.training and fixed:
            flags = [(graph, node) for graph in code for node in list(fixed_in(graph))]
            _check(flags, name, "mode")
            for graph, node in flags:
                set_flag(graph, node)
    return copied


def _by_code(modules: Mapping[str, nn.Module], changes: Mapping[str, Altered], *, fixed: bool) -> list[list[str]]:
    """The names to be changed, those together whose code is one: scripted modules that are alike share it.

    Raises NotPossibleError where a change is not one of all modules with the same code.
    """
    sharing: dict[str, list[str]] = {}
    for name, module in modules.items():
        sharing.setdefault(_code_of(module), []).append(name)
    groups: dict[str, list[str]] = {}
    for name in changes:
        groups.setdefault(_code_of(modules[name]) if name in modules else name, []).append(name)
    for code, names in groups.items():
        wanted = {(changes[name].eps, fixed and changes[name].training) for name in names}
        alike = len({id(modules[name]) for name in sharing.get(code, ())})
        if len(wanted) > 1 or alike > len({id(modules.get(name)) for name in names}):
            raise NotPossibleError(f"{names[0]} shares its code with other layers of the script, which change with it")
    return list(groups.values())


def _code_of(module: nn.Module) -> str:
    """The type that holds a module's code."""
    inner: Any = module._c
    return str(inner.qualified_name)


def _check(found: list[tuple[Any, Any]], name: str, what: str) -> None:
    if not found:
        raise NotPossibleError(f"the {what} of {name} is not to be found in the model's code")


def _constants(graph: Any, value: float | None) -> Iterator[tuple[Any, Any]]:
    """The constants of a norm's own code that are its epsilon. A momentum that equals it changes no output."""
    for node in graph.findAllNodes("prim::Constant") if value is not None else ():
        held = node.output().toIValue()
        if isinstance(held, float) and isclose(held, value or 0.0, rel_tol=1e-9):
            yield graph, node


def _replace(graph: Any, node: Any, value: float) -> None:
    constant = graph.insertConstant(value)
    constant.node().moveBefore(node)
    node.output().replaceAllUsesWith(constant)
