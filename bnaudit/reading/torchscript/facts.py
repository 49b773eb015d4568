"""What a TorchScript archive says as a whole: traced or scripted, its inputs, what trains."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bnaudit.description import GraphInput, NormLayer
from bnaudit.reading.pickles.stand_ins import Call, PickleDict
from bnaudit.reading.tensors.tensor_refs import TensorRef
from bnaudit.reading.torchscript.code import CodeLibrary
from bnaudit.reading.torchscript.objects import ScriptObject, Tensors
from bnaudit.reading.torchscript.sites import Reached

_MODAL = ("BatchNorm", "InstanceNorm", "Dropout", "LSTM", "GRU", "RReLU")
_MOST_AXES = 16


def is_traced(
    objects: Sequence[ScriptObject], library: CodeLibrary, reached: Reached, *, has_inputs: bool
) -> bool | None:
    """Whether tracing recorded the code, so that its flags are constants. None: both kinds, or frozen, or no code.

    `torch.jit.trace` stores its example inputs in recent versions of PyTorch. It writes no `Final` constants, and
    PyTorch's own mode-dependent modules never ask for their training flag in a trace; scripted they always do.
    """
    scripted, traced = False, has_inputs
    for target in objects:
        code = library.class_code(target.type_name)
        if code is None:
            continue
        if code.constants or reached.reads_its_flag(target):
            scripted = True
        elif target.class_name.startswith("torch.nn.modules.") and any(word in target.short_name for word in _MODAL):
            traced = traced or reached.was_followed(target)
    if scripted:
        return None if traced else False
    return True if traced else None


class Trained(NamedTuple):
    """Parameters outside norm layers; None: the archive does not say which tensors are parameters."""

    trainable: int | None
    frozen: int | None


def trained(objects: Iterable[ScriptObject], library: CodeLibrary, layers: Iterable[NormLayer]) -> Trained:
    """Counts by the `__parameters__` of the classes and the tensors' own flags."""
    in_norms = {tensor.name for layer in layers for tensor in layer.tensors}
    flags: list[bool | None] = []
    said = False
    for target in objects:
        code = library.class_code(target.type_name)
        said = said or code is not None
        for name in sorted(code.parameters) if code is not None else ():
            ref = target.tensor(name)
            if ref is not None and target.name_of(name) not in in_norms:
                flags.append(ref.requires_grad)
    if not said or None in flags:
        return Trained(None, None)
    return Trained(flags.count(True), flags.count(False))


def inputs(root: ScriptObject, library: CodeLibrary, examples: Sequence[TensorRef | None]) -> tuple[GraphInput, ...]:
    """The tensors that `forward` takes. Example inputs of a trace tell dtype and rank, and fix no size."""
    code = library.class_code(root.type_name)
    forward = code.methods.get("forward") if code is not None else None
    if forward is None:
        return ()
    found = []
    for position, argument in enumerate(forward.args.args[1:]):
        if isinstance(argument.annotation, ast.Name) and argument.annotation.id == "Tensor":
            example = examples[position] if position < len(examples) else None
            rank = len(example.shape) if example is not None else _MOST_AXES
            shape = (None,) * rank if rank < _MOST_AXES else None
            found.append(
                GraphInput(name=argument.arg, dtype=example.dtype if example is not None else "unknown", shape=shape)
            )
    return tuple(found)


def example_inputs(pickled: object, tensors: Tensors) -> list[TensorRef | None]:
    """The tensors under `forward` in traced_inputs.pkl, None where an input is something else."""
    methods = _unwrapped(pickled)
    values = _unwrapped(methods.get("forward")) if isinstance(methods, PickleDict) else None
    return [tensors.tensor(value) for value in values] if isinstance(values, (list, tuple)) else []


def _unwrapped(value: object) -> object:
    """The value in `torch.jit._pickle.restore_type_tag(value, type)`."""
    if isinstance(value, Call) and value.callee_name == "torch.jit._pickle.restore_type_tag" and value.args:
        return value.args[0]
    return value
