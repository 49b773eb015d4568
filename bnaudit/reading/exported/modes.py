"""Calls of an exported program, other than norms, whose result depends on the mode the module was exported in.

In a graph the mode is a constant, so `graph_training` is always known. A drawn mask is there only when the module
was exported in training mode. Probabilities follow PyTorch: the share that is dropped.
"""

from __future__ import annotations

from typing import NamedTuple

from bnaudit.description import ModeDependent
from bnaudit.reading.exported.graph import Node
from bnaudit.reading.exported.modules import function_of, module_of
from bnaudit.reading.modules.mode_classes import mode_of_class

_DROPOUTS = frozenset(
    f"aten.{name}{inplace}"
    for name in ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "native_dropout")
    for inplace in ("", "_")
)
_RRELUS = frozenset(
    f"aten.{name}"
    for name in ("rrelu", "rrelu_", "rrelu_with_noise", "rrelu_with_noise_", "rrelu_with_noise_functional")
)
_RECURRENT = frozenset(f"aten.{name}" for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"))
_BERNOULLI = frozenset({"aten.bernoulli", "aten.bernoulli_"})
_DRAWS = frozenset(f"aten.{name}" for name in ("rand", "rand_like", "uniform", "uniform_"))


class _Seen(NamedTuple):
    kind: str
    probability: float | None
    training: bool


class ModeCalls:
    """Collects the mode-dependent calls of one program in execution order; a module is listed once."""

    def __init__(self) -> None:
        self._found: dict[str, ModeDependent] = {}

    def look_at(self, node: Node) -> None:
        """Take a node in."""
        module = module_of(node)
        kind = mode_of_class(module.class_name.rpartition(".")[2])
        seen = _look(node, kind)
        if seen is None:
            return
        name = module.path if kind is not None else f"{module.path}.{node.name}" if module.path else node.name
        known = self._found.get(name)
        if known is None or (seen.training and not known.graph_training):
            self._found[name] = ModeDependent(
                name=name,
                kind=kind or seen.kind,
                class_name=module.class_name if kind is not None else f"torch.ops.{node.op}",
                probability=seen.probability,
                graph_training=seen.training,
            )

    def found(self) -> tuple[ModeDependent, ...]:
        """What was found, in execution order."""
        return tuple(self._found.values())


def _look(node: Node, kind: str | None) -> _Seen | None:
    if node.op in _DROPOUTS:
        return _dropout(node)
    if node.op in _RRELUS:
        return _Seen("rrelu", None, node.flag("training") is True)
    if node.op in _RECURRENT:
        return _recurrent(node)
    if "scaled_dot_product" in node.op or node.op in (
        "aten._flash_attention_forward",
        "aten._efficient_attention_forward",
    ):
        probability = node.number("dropout_p")
        return _Seen("attention", probability, True) if probability else None
    return _mask(node, kind)


def _dropout(node: Node) -> _Seen | None:
    probability = node.number("p")
    if probability == 0:
        return None
    kind = "attention" if function_of(node) == "scaled_dot_product_attention" else "dropout"
    return _Seen(kind, probability, node.flag("train") is not False)


def _recurrent(node: Node) -> _Seen | None:
    """Dropout acts between the layers: one layer has none."""
    probability = node.number("dropout")
    if not probability or node.number("num_layers") == 1:
        return None
    return _Seen("recurrent", probability, node.flag("train") is not False)


def _mask(node: Node, kind: str | None) -> _Seen | None:
    """A mask drawn with one fixed probability (what dropout decomposes to), or any draw inside a dropping module.

    `bernoulli` with a tensor of probabilities samples data and is not dropout.
    """
    if node.op in _BERNOULLI and node.overload in ("p", "float"):
        kept = node.number("p")
        dropped = 0.5 if kept is None else round(1 - kept, 12)
        return _Seen(kind or "dropout", dropped, True) if dropped > 0 else None
    if kind in ("dropout", "stochastic-depth") and (node.op in _DRAWS or node.op in _BERNOULLI):
        return _Seen(kind, None, True)
    return None
