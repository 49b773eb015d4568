"""What a pickled torch.nn.Module is: a call of its class whose state holds `_modules`, `_parameters`, `_buffers`."""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.reading.pickles.stand_ins import Call, PickleDict

SECTIONS = ("_modules", "_parameters", "_buffers")
_GRAPH_MODULE = "torch.fx.graph_module.GraphModule"
_GRAPH_REDUCERS = frozenset(
    f"torch.fx.graph_module.{name}"
    for name in ("reduce_graph_module", "reduce_package_graph_module", "reduce_deploy_graph_module")
)


class PickledModule:
    """A view of one module: its class and its `__dict__`, as the pickle has them.

    `call` is its identity; `class_name` is "" for a class that the pickle makes on the fly. Attributes that the pickle
    lacks are None (old versions of PyTorch had fewer).
    """

    __slots__ = ("attributes", "call", "class_name")

    def __init__(self, call: Call, class_name: str, attributes: PickleDict) -> None:
        self.call = call
        self.class_name = class_name
        self.attributes = attributes

    @property
    def simple_name(self) -> str:
        """The class without its module (`BatchNorm2d`)."""
        return self.class_name.rpartition(".")[2]

    @property
    def training(self) -> bool | None:
        """The training flag."""
        return self.flag("training")

    @property
    def is_quantized(self) -> bool:
        """Whether the class computes with integers (`torch.ao.nn.quantized`, not `qat`), and so in eval mode only.

        What convert() makes says training=True, because it is made anew, and pays no attention to it.
        """
        return names_quantized(self.class_name)

    def flag(self, key: str) -> bool | None:
        """An attribute that is True or False."""
        value = self.attributes.get(key)
        return value if isinstance(value, bool) else None

    def number(self, *keys: str) -> float | None:
        """The first of these attributes that is a number."""
        for key in keys:
            value = self.attributes.get(key)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return float(value) if abs(value) < 1e300 else None
        return None

    def whole(self, key: str) -> int | None:
        """An attribute that is an integer."""
        value = self.attributes.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def entries(self) -> int:
        """How many children, parameters and buffers it has, empty ones counted."""
        sections = (mapping_of(self.attributes.get(section)) for section in SECTIONS)
        return sum(len(section) for section in sections if section is not None)

    def section(self, name: str) -> Iterator[tuple[object, object]]:
        """The entries of `_modules`, `_parameters` or `_buffers`, empty ones included."""
        return pairs_of(self.attributes.get(name))

    def tensor_object(self, key: str) -> object:
        """What is registered as the parameter or buffer `key`, else the attribute: pruning leaves a plain tensor."""
        for section in ("_parameters", "_buffers"):
            entries = mapping_of(self.attributes.get(section))
            if entries is not None and key in entries:
                return entries.get(key)
        value = self.attributes.get(key)
        return value if isinstance(value, Call) else None

    def registers(self, key: str) -> bool:
        """Whether a parameter or buffer is registered under this name, None counted."""
        sections = (mapping_of(self.attributes.get(section)) for section in ("_parameters", "_buffers"))
        return any(entries is not None and key in entries for entries in sections)

    @property
    def hooked(self) -> bool | None:
        """Whether forward hooks or pre-hooks are there."""
        hooks = [mapping_of(self.attributes.get(key)) for key in ("_forward_hooks", "_forward_pre_hooks")]
        if hooks == [None, None]:
            return None
        return any(entries is not None and len(entries) > 0 for entries in hooks)


def names_quantized(class_name: str) -> bool:
    """Whether a class is of PyTorch's quantized modules: `torch.ao.nn.quantized.modules.conv.Conv2d`."""
    return class_name.startswith(("torch.ao.nn.", "torch.nn.")) and ".quantized." in class_name


def as_module(value: object) -> PickledModule | None:
    """The module that a pickled object is, None when it is something else."""
    if not isinstance(value, Call):
        return None
    attributes = _attributes(value)
    if attributes is None:
        return None
    reduced = value.callee_name in _GRAPH_REDUCERS
    return PickledModule(value, _GRAPH_MODULE if reduced else value.callee_name, attributes)


def mapping_of(value: object) -> PickleDict | None:
    """The pairs of a dict or of an OrderedDict, None when it is neither."""
    if isinstance(value, PickleDict):
        return value
    if isinstance(value, Call) and value.callee_name == "collections.OrderedDict":
        return value.items if value.items is not None else PickleDict()
    return None


def pairs_of(value: object) -> Iterator[tuple[object, object]]:
    """The keys and values of a dict or OrderedDict; none for anything else."""
    mapping = mapping_of(value)
    return mapping.pairs() if mapping is not None else iter(())


def _attributes(call: Call) -> PickleDict | None:
    state = call.state
    if isinstance(state, tuple):  # (__dict__, slots)
        state = next((part for part in state if isinstance(part, PickleDict)), None)
    if isinstance(state, PickleDict):
        return state if _is_module_dict(state) else None
    if call.callee_name in _GRAPH_REDUCERS:
        return next((part for part in call.args if isinstance(part, PickleDict) and _is_module_dict(part)), None)
    return _compiled(call)


def _compiled(call: Call) -> PickleDict | None:
    """torch.compile's wrapper reduces to a call with the module and the compiler's settings (torch 2.13)."""
    if not call.callee_name.endswith(".OptimizedModule") or not call.args or not isinstance(call.args[0], Call):
        return None
    children, attributes = PickleDict(), PickleDict()
    children["_orig_mod"] = call.args[0]
    attributes["_modules"] = children
    return attributes


def _is_module_dict(attributes: PickleDict) -> bool:
    return all(mapping_of(attributes.get(section)) is not None for section in SECTIONS)
