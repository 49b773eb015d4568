"""From a program's JSON and its tensors to a Part."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bnaudit.caps import Caps
from bnaudit.description import Carrier, Gap, GraphInput, Part
from bnaudit.reading.checkpoints.tally import Tally
from bnaudit.reading.exported.graph import Node, Scope, walk
from bnaudit.reading.exported.modes import ModeCalls
from bnaudit.reading.exported.norms import OPERATORS, NormCalls
from bnaudit.reading.exported.signature import Signature
from bnaudit.reading.exported.sizes import Size, dtype_name
from bnaudit.reading.exported.state import ProgramState
from bnaudit.reading.exported.values import Origins
from bnaudit.reading.json_text import JsonObject, as_object, object_at
from bnaudit.reading.tensors.strided_tensor import AbsentTensor
from bnaudit.reading.tensors.tensor_refs import TensorRef

_KNOWN_NAMESPACES = ("higher_order", "prims", "prim", "_operator", "math", "builtins")


def describe_program(
    name: str, program: JsonObject, refs: Mapping[str, TensorRef], caps: Caps
) -> tuple[Part, list[Gap]]:
    """The part called `name`, and what of it could not be read.

    Raises MalformedError when the graph is not one, CapExceededError above `caps.graph_nodes` or `caps.norm_layers`.
    """
    module = as_object(program.get("graph_module"), "the graph module")
    root = Scope(as_object(module.get("graph"), "the graph"))
    signature = Signature(object_at(module, "signature"))
    state = ProgramState(_with_missing(refs, signature, root))
    norms, modes = NormCalls(state, Origins(root, signature.state)), ModeCalls()
    operators, unknown = 0, dict[str, str]()
    for node in walk(root, caps):
        operators += 1
        norms.look_at(node)
        modes.look_at(node)
        if _may_be_a_norm(node):
            unknown.setdefault(node.op, node.name)
    layers, tally = norms.layers(), Tally(caps, name)
    for _ in layers:
        tally.layer()
    trainable, frozen = state.count_trainable({tensor.name for layer in layers for tensor in layer.tensors})
    part = Part(
        name=name,
        carrier=Carrier.PROGRAM,
        layers=layers,
        mode_dependent=modes.found(),
        tensors=len(state),
        floating_dtypes=state.floating_dtypes,
        trainable=trainable,
        frozen=frozen,
        buffers_to_mutate=signature.buffers_to_mutate,
        inputs=tuple(_input(root, value) for value in signature.user_inputs),
        operators=operators,
    )
    gaps = [
        Gap(where=where, why=f"{operator} is not a known operator, and a norm by its name")
        for operator, where in unknown.items()
    ]
    return part, [*state.gaps, *gaps]


def _with_missing(refs: Mapping[str, TensorRef], signature: Signature, root: Scope) -> dict[str, TensorRef]:
    """The tensors that are stored, and those that the program only names."""
    absence = "the program names it and the archive does not hold it"
    missing = {
        name: AbsentTensor(dtype_name(root.scalar_type(value)), _fixed(root.sizes(value)), absence=absence)
        for value, name in signature.state.items()
        if name not in refs
    }
    return {**refs, **missing}


def _fixed(sizes: tuple[Size, ...] | None) -> tuple[int, ...]:
    whole = tuple(size.value for size in sizes or () if isinstance(size.value, int))
    return whole if len(whole) == len(sizes or ()) else ()


def _input(scope: Scope, value: str) -> GraphInput:
    sizes = scope.sizes(value)
    shape = None if sizes is None else tuple(size.value for size in sizes)
    return GraphInput(name=value, dtype=dtype_name(scope.scalar_type(value)), shape=shape)


def _may_be_a_norm(node: Node) -> bool:
    """An operator from outside PyTorch whose name speaks of a norm, or a form of batch norm that is not known."""
    if node.op in OPERATORS or node.op.split(".")[0] in _KNOWN_NAMESPACES or "backward" in node.op:
        return False
    if node.op.startswith("aten."):
        return "batch_norm" in node.op
    return re.search(r"norm|(^|[._])bn", node.op) is not None
