"""The graph of a torch.export program, with its subgraphs, as nodes in execution order.

The layout is that of torch/_export/serde/schema.py, schema versions 1 to 8 (torch 2.1 to 2.13).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bnaudit.caps import Caps
from bnaudit.errors import CapExceededError, MalformedError
from bnaudit.reading.exported.sizes import Size, size_of
from bnaudit.reading.json_text import JsonObject, as_list, as_object, list_at, object_at, text_at

_MOST_AXES = 64
"""PyTorch's own limit."""


class Value(NamedTuple):
    """A named value in the graph that defines it."""

    scope: Scope
    name: str


class Scope:
    """One graph and the names that are valid in it. In a subgraph, `operands` says which outer value an input is."""

    __slots__ = ("_metas", "operands", "producers", "raw_nodes")

    def __init__(self, graph: JsonObject, operands: list[Value] | None = None) -> None:
        self.raw_nodes = as_list(graph.get("nodes"), "the node list of a graph")
        self.producers: dict[str, Node] = {}
        self._metas = object_at(graph, "tensor_values")
        names = [text_at(object_at(entry, "as_tensor"), "name") for entry in list_at(graph, "inputs")]
        paired = operands is not None and len(operands) == len(names)
        self.operands = dict(zip(names, operands, strict=True)) if paired and operands is not None else {}

    def sizes(self, name: str) -> tuple[Size, ...] | None:
        """The shape of a tensor, None when the graph does not say."""
        meta = self._metas.get(name)
        if not isinstance(meta, dict) or not isinstance(meta.get("sizes"), list):
            return None
        if len(meta["sizes"]) > _MOST_AXES:
            return None
        return tuple(size_of(size) for size in list_at(meta, "sizes"))

    def scalar_type(self, name: str) -> object:
        """The dtype of a tensor as the schema numbers it, None when the graph does not say."""
        return object_at(self._metas, name).get("dtype")

    def outermost(self, name: str) -> Value:
        """The value as the outer graphs know it: an input of a subgraph is what its caller passed."""
        value = Value(self, name)
        while value.name in value.scope.operands:
            value = value.scope.operands[value.name]
        return value


class Node:
    """One call of an operator: `op` is `aten.batch_norm`, `overload` is `default`."""

    __slots__ = ("_arguments", "_raw", "op", "outputs", "overload", "scope")

    def __init__(self, raw: JsonObject, scope: Scope) -> None:
        target = raw.get("target")
        if not isinstance(target, str):
            raise MalformedError("a graph node without an operator")
        words = target.removeprefix("torch.ops.").split(".")
        self.op = ".".join(words[:2])
        self.overload = words[2] if len(words) > 2 else ""
        self.scope = scope
        self._raw = raw
        self._arguments: JsonObject | None = None
        self.outputs = [name for entry in list_at(raw, "outputs") for name in tensors_in(entry)]

    @property
    def name(self) -> str:
        """The node's own name, or that of its first output (torch before 2.9 stores none)."""
        return text_at(self._raw, "name") or (self.outputs[0] if self.outputs else self.op)

    @property
    def metadata(self) -> JsonObject:
        """What the exporter noted: `nn_module_stack`, `torch_fn`, `stack_trace`."""
        return object_at(self._raw, "metadata")

    @property
    def raw_arguments(self) -> list[object]:
        """The arguments in order, as unions of the schema."""
        return [object_at(entry, "arg") for entry in list_at(self._raw, "inputs")]

    def _argument(self, name: str, tag: str) -> object:
        if self._arguments is None:
            named = list_at(self._raw, "inputs")
            self._arguments = {text_at(entry, "name"): object_at(entry, "arg") for entry in named}
        return object_at(self._arguments, name).get(tag)

    def tensor(self, *names: str) -> str | None:
        """The value passed as the first of these arguments that is a tensor."""
        for name in names:
            value = text_at(self._argument(name, "as_tensor"), "name")
            value = value or text_at(object_at(self._argument(name, "as_optional_tensor"), "as_tensor"), "name")
            if value:
                return value
        return None

    def number(self, *names: str) -> float | None:
        """A float or int argument, whichever of the names the operator has."""
        for name in names:
            for tag in ("as_float", "as_int"):
                value = self._argument(name, tag)
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    return _to_float(value)
        return None

    def flag(self, name: str) -> bool | None:
        """A bool argument; None when it is left out or computed."""
        value = self._argument(name, "as_bool")
        return value if isinstance(value, bool) else None

    def integers(self, name: str) -> tuple[int | None, ...]:
        """A list of sizes or axes; None for an entry that is computed."""
        plain = self._argument(name, "as_ints")
        if isinstance(plain, list):
            return tuple(value if isinstance(value, int) else None for value in plain)
        mixed = self._argument(name, "as_sym_ints")
        entries = mixed if isinstance(mixed, list) else []
        values = [entry.get("as_int") if isinstance(entry, dict) else None for entry in entries]
        return tuple(value if isinstance(value, int) else None for value in values)

    def tensors(self) -> list[str]:
        """All tensors among the arguments, in order."""
        return [name for argument in self.raw_arguments for name in tensors_in(argument)]


def tensors_in(argument: object) -> Iterator[str]:
    """The tensor names of one argument or output: a single tensor, an optional one, a list of either."""
    if not isinstance(argument, dict):
        return
    single = argument.get("as_tensor") or object_at(argument, "as_optional_tensor").get("as_tensor")
    lists = (list_at(argument, "as_tensors"), list_at(argument, "as_optional_tensors"))
    for entry in ([single] if single else []) + lists[0] + [object_at(e, "as_tensor") for e in lists[1]]:
        name = text_at(entry, "name")
        if name:
            yield name


def walk(root: Scope, caps: Caps) -> Iterator[Node]:
    """All nodes in execution order; those of a subgraph follow the node that calls it.

    Raises CapExceededError above `caps.graph_nodes`, MalformedError when a node is not an object with a target.
    """
    pending: list[tuple[Scope, Iterator[object]]] = [(root, iter(root.raw_nodes))]
    seen = 0
    while pending:
        scope, nodes = pending[-1]
        raw = next(nodes, None)
        if raw is None:
            pending.pop()
            continue
        seen += 1
        if seen > caps.graph_nodes:
            raise CapExceededError("the graph's nodes", cap="graph_nodes")
        node = Node(as_object(raw, "a graph node"), scope)
        for output in node.outputs:
            scope.producers[output] = node
        yield node
        pending += [(inner, iter(inner.raw_nodes)) for inner in reversed(_subgraphs(node))]


def _subgraphs(node: Node) -> list[Scope]:
    """The graphs that a higher-order operator is given; the tensors after the last one are their inputs."""
    arguments = node.raw_arguments
    places = [i for i, argument in enumerate(arguments) if object_at(argument, "as_graph")]
    if not places:
        return []
    rest = arguments[places[-1] + 1 :]
    operands = [node.scope.outermost(name) for argument in rest for name in tensors_in(argument)]
    graphs = [object_at(object_at(arguments[i], "as_graph"), "graph") for i in places]
    return [Scope(graph, operands) for graph in graphs]


def _to_float(value: int | float) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None
