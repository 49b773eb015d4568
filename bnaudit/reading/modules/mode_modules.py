"""Pickled modules other than norms whose output depends on the mode."""

from __future__ import annotations

from bnaudit.description import ModeDependent
from bnaudit.reading.modules.mode_classes import mode_of_class
from bnaudit.reading.modules.objects import PickledModule

_PROBABILITIES = ("p", "drop_prob", "dropout_prob", "drop_rate", "rate", "prob")
_RECURRENT_MODES = ("LSTM", "GRU", "RNN_TANH", "RNN_RELU")


def mode_dependent(path: str, module: PickledModule) -> ModeDependent | None:
    """The module as a mode-dependent layer, None when it has no modes or drops with probability 0."""
    if module.is_quantized:
        return None
    found = _dropping(module) or _recurrent(module) or _attention(module) or _rrelu(module)
    if found is None or found[1] == 0:
        return None
    kind, probability = found
    return ModeDependent(
        name=path,
        kind=kind,
        class_name=module.class_name,
        probability=probability,
        training=module.training,
    )


_Found = tuple[str, float | None]


def _dropping(module: PickledModule) -> _Found | None:
    """Dropout and stochastic depth: by name and a probability, or by exactly the attributes of PyTorch's dropout."""
    kind = mode_of_class(module.simple_name)
    probability = module.number(*_PROBABILITIES)
    if kind == "stochastic-depth":
        # timm's DropPath(None) never drops.
        absent = "drop_prob" in module.attributes and module.attributes.get("drop_prob") is None
        return "stochastic-depth", 0.0 if absent else probability
    if probability is None:
        return None
    if kind == "dropout":
        return "dropout", probability
    own = {key for key, _ in module.attributes.pairs() if isinstance(key, str) and not key.startswith("_")}
    inherits = own == {"p", "inplace", "training"}
    return ("dropout", probability) if inherits and not any(True for _ in module.section("_modules")) else None


def _recurrent(module: PickledModule) -> _Found | None:
    if module.attributes.get("mode") not in _RECURRENT_MODES or module.whole("hidden_size") is None:
        return None
    probability = module.number("dropout")
    between_layers = module.whole("num_layers")
    return "recurrent", 0.0 if between_layers == 1 else probability


def _attention(module: PickledModule) -> _Found | None:
    probability = module.number("dropout", "attention_dropout", "attn_dropout", "dropout_p")
    if "attention" not in module.simple_name.lower() and module.attributes.get("num_heads") is None:
        return None
    return ("attention", probability) if probability is not None else None


def _rrelu(module: PickledModule) -> _Found | None:
    return ("rrelu", None) if mode_of_class(module.simple_name) == "rrelu" else None
