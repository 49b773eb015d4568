"""Names, sites and values: who computes what, through branches, loops and model-local functions.

A function is looked through: what it returns is the value its body computes, and its formal inputs are the values of
the call. So a chain of nodes reads the same whether an exporter wrote it inline or as functions.
"""

from __future__ import annotations

from bnaudit.errors import MalformedError
from bnaudit.reading.onnx.graph import Attribute, Graph, Node, read_graph
from bnaudit.reading.onnx.model import Function, Model
from bnaudit.reading.onnx.tensor import OnnxTensor, SparseTensor
from bnaudit.reading.onnx.value_info import ValueInfo

MOST_CALLS = 64
"""Functions and graphs that may run inside one another."""

_SCOPE_COST = 20
"""A scope takes as much time and memory as so many nodes; functions that call functions can make very many."""
_LONGEST_STEP = 200
"""Characters of one name on the way to a scope."""

_CONTROL_FLOW = {"If", "Loop", "Scan", "SequenceMap"}
_STANDARD_DOMAINS = {"", "ai.onnx", "ai.onnx.ml", "com.ms.internal.nhwc"}


class Value:
    """One value: the output `index` of a site, an initializer (`tensor`), or, with neither, an input of its scope."""

    __slots__ = ("index", "name", "scope", "site", "tensor")

    def __init__(
        self,
        scope: Scope,
        name: str,
        site: Site | None = None,
        index: int = 0,
        tensor: OnnxTensor | SparseTensor | None = None,
    ) -> None:
        self.scope = scope
        self.name = name
        self.site = site
        self.index = index
        self.tensor = tensor

    @property
    def info(self) -> ValueInfo | None:
        """What the graph declares of it."""
        return self.scope.body.value_info(self.name)

    @property
    def is_model_input(self) -> bool:
        """Whether whoever runs the model gives it."""
        return self.site is None and self.tensor is None and self.scope.caller is None

    def origin(self) -> Value:
        """The value that Identity nodes hand on."""
        value = self
        for _ in range(1000):
            site = value.site
            if site is None or site.operator != "Identity":
                break
            before = site.input(0)
            if before is None or before is value:
                break
            value = before
        return value


class Site:
    """One node where it runs: inside a function there is one site per call."""

    __slots__ = ("node", "number", "operator", "scope")

    def __init__(self, scope: Scope, node: Node, number: int) -> None:
        self.scope = scope
        self.node = node
        self.number = number
        self.operator = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
        """The type of the node, with its domain unless that is ONNX's own."""

    @property
    def label(self) -> str:
        """The node's name, else its type and place."""
        return self.node.name or f"{self.node.op_type}_{self.number}"

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators that holds here; 1 where the file says none, as before IR version 3."""
        return self.scope.opsets.get("", 1)

    def input(self, index: int) -> Value | None:
        """An input, None when it is left out."""
        names = self.node.inputs
        return self.scope.value(names[index]) if index < len(names) else None

    @property
    def inputs(self) -> list[Value]:
        """The inputs that are there."""
        found = (self.scope.value(name) for name in self.node.inputs)
        return [value for value in found if value is not None]

    def output(self, index: int = 0) -> Value | None:
        """An output, None when it is not asked for."""
        names = self.node.outputs
        return self.scope.value(names[index]) if index < len(names) else None

    def attribute(self, name: str) -> Attribute | None:
        """An attribute; in a function a reference leads to the calling node or to the function's default."""
        found = self.node.attributes.get(name)
        scope = self.scope
        for _ in range(MOST_CALLS):
            if found is None or not found.reference:
                return found
            while scope.function is None and scope.caller is not None:
                scope = scope.caller.scope
            if scope.function is None or scope.caller is None:
                return None
            asked = found.reference
            found = scope.caller.node.attributes.get(asked) or scope.function.defaults.get(asked)
            scope = scope.caller.scope
        return None

    def integer(self, name: str, default: int) -> int:
        """An INT attribute."""
        found = self.attribute(name)
        return default if found is None or found.i is None else found.i

    def real(self, name: str, default: float) -> float:
        """A FLOAT attribute."""
        found = self.attribute(name)
        return default if found is None or found.real is None else found.real

    def integers(self, name: str) -> list[int] | None:
        """An INTS attribute, None when it is not there."""
        found = self.attribute(name)
        return None if found is None else found.integers

    @property
    def bodies(self) -> dict[str, Scope]:
        """The graphs in its attributes, by attribute name."""
        if self.operator not in _CONTROL_FLOW and self.node.domain in _STANDARD_DOMAINS:
            return {}
        return self.scope.bodies_of(self)

    @property
    def callee(self) -> Scope | None:
        """The body of the model-local function that the node calls."""
        return self.scope.callee_of(self)


class Scope:
    """A body that runs: the main graph, a branch or loop body, or a function called from one node."""

    def __init__(
        self,
        model: Model,
        body: Graph,
        *,
        caller: Site | None = None,
        function: Function | None = None,
        attribute: str = "",
    ) -> None:
        self.model = model
        self.body = body
        self.caller = caller
        self.function = function
        self._attribute = attribute
        self._depth: int = 0 if caller is None else caller.scope._depth + 1
        if self._depth > MOST_CALLS:
            raise MalformedError(f"more than {MOST_CALLS} functions in one another", where=self.where[:200])
        outer: dict[str, int] = model.opsets if caller is None else caller.scope.opsets
        self.opsets: dict[str, int] = (function.opsets if function else None) or outer
        self.sites = [Site(self, node, number) for number, node in enumerate(body.nodes)]
        self._producers: dict[str, tuple[Site, int]] = {}
        for site in self.sites:
            for index, name in enumerate(site.node.outputs):
                self._producers[name] = (site, index)
        names = function.inputs if function else [info.name for info in body.inputs]
        self._formals = {name: position for position, name in enumerate(names)}
        self._values: dict[str, Value | None] = {"": None}
        self._callees: dict[Site, Scope] = {}
        self._bodies: dict[Site, dict[str, Scope]] = {}

    @property
    def where(self) -> str:
        """The way from the main graph, `layer_3/If_7.then_branch/`."""
        return self._way(through_functions=True)

    @property
    def branch(self) -> str:
        """The same without function calls, which parameters are handed through."""
        return self._way(through_functions=False)

    def _way(self, through_functions: bool) -> str:
        steps, scope = [], self
        while scope.caller is not None:
            if through_functions or scope.function is None:
                suffix = f".{scope._attribute[:_LONGEST_STEP]}/" if scope._attribute else "/"
                steps.append(scope.caller.label[:_LONGEST_STEP] + suffix)
            scope = scope.caller.scope
        return "".join(reversed(steps))

    def value(self, name: str) -> Value | None:
        """The value that a name stands for here, None when nothing gives it."""
        if name not in self._values:
            self._values[name] = None
            self._values[name] = self._find(name)
        return self._values[name]

    def _find(self, name: str) -> Value | None:
        producer = self._producers.get(name)
        if producer is not None:
            site, index = producer
            callee = site.callee
            if callee is None:
                return Value(self, name, site, index)
            outputs = callee.body.outputs
            return callee.value(outputs[index]) if index < len(outputs) else None
        tensor = self.body.initializers.get(name)
        if tensor is not None:
            return Value(self, name, tensor=tensor)
        if name in self._formals:
            if self.function is not None and self.caller is not None:
                return self.caller.input(self._formals[name])
            return Value(self, name)
        if self.function is None and self.caller is not None:
            return self.caller.scope.value(name)
        return None

    def callee_of(self, site: Site) -> Scope | None:
        """The scope of a call; one per node, made when it is first asked for."""
        if not self.model.functions:
            return None
        node = site.node
        function = self.model.functions.get((node.domain, node.op_type, node.overload))
        if function is None:
            return None
        if site not in self._callees:
            self._charge(len(function.body.nodes))
            self._callees[site] = Scope(self.model, function.body, caller=site, function=function)
        return self._callees[site]

    def bodies_of(self, site: Site) -> dict[str, Scope]:
        """The graphs of a control-flow node, read when they are first asked for."""
        if site not in self._bodies:
            self._charge(0)
            self._bodies[site] = {
                name: Scope(
                    self.model,
                    read_graph(self.model.source, [attribute.graph], self._depth + 1),
                    caller=site,
                    attribute=name,
                )
                for name, attribute in site.node.attributes.items()
                if attribute.graph is not None
            }
        return self._bodies[site]

    def _charge(self, nodes: int) -> None:
        for _ in range(nodes + _SCOPE_COST):
            self.model.source.charge()
