"""Which modules run in training mode.

Every mode is applied as the user wrote it: `model.eval()` and `model.train()` may be overridden, and often are, to keep
a backbone's norms frozen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from bnaudit.description import NormKind, Part
from bnaudit.modes import drops_at_random, norm_depends_on_mode
from bnaudit.reading.modules.norm_classes import STATISTICAL, kind_of_class
from bnaudit.records import replace
from bnaudit.session import Mode
from bnaudit.torch_session.script_attributes import is_script
from bnaudit.torch_session.state import State
from bnaudit.torch_session.training_forms import has_training_form
from bnaudit.torch_session.wrappers import is_compiled

_BY_BATCH = (NormKind.BATCH, NormKind.SYNC_BATCH, NormKind.INSTANCE, NormKind.UNKNOWN)


@contextmanager
def kept_modes(model: nn.Module) -> Iterator[None]:
    """Puts back what eval() or train() do inside: flags, and all else where the user's class overrides either."""
    state = State(model) if overrides_modes(model) else None
    before = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, training in before:
            if module.training is not training and not is_compiled(module):
                module.training = training
        if state is not None:
            state.restore()


def overrides_modes(model: nn.Module) -> bool:
    """Whether a class in it has a train() or eval() of its own, which may do more than set flags."""
    kinds = {type(module) for module in model.modules()}
    own = any(not {"train", "eval"}.isdisjoint(module.__dict__) for module in model.modules())
    return own or not all(kind.train is nn.Module.train and kind.eval is nn.Module.eval for kind in kinds)


def train_norms(model: nn.Module, part: Part) -> None:
    """`model.train()` as the user wrote it, then everything but the norm layers back to eval.

    A norm that the user's own train() leaves in eval stays there. Every other module gets `training = False`, whether
    it is a layer or a container: a forward that looks at `self.training` (stochastic depth, auxiliary heads,
    functional dropout) acts as in eval, and so does a functional batch norm that such a module calls.
    """
    model.train()
    norms = {id(inner) for module in norm_modules(model, part) for inner in module.modules()}
    for module in model.modules():
        if id(module) not in norms and not is_compiled(module) and module.training:
            module.training = False  # torch.compile's wrapper shows the flag of the module inside


def norm_modules(model: nn.Module, part: Part) -> Iterator[nn.Module]:
    """The norm layers that keep statistics or may."""
    named = dict(model.named_modules(remove_duplicate=False))
    names = {layer.name for layer in part.layers if layer.kind in _BY_BATCH}
    for name, module in named.items():
        if name in names or (is_script(module) and _is_scripted_norm(module)):
            yield module


def _is_scripted_norm(module: nn.Module) -> bool:
    return kind_of_class(str(getattr(module, "original_name", ""))) in STATISTICAL


def fixed_modes(model: nn.Module) -> frozenset[Mode]:
    """The modes of a graph: as it is, and with its norms in training form in a copy where it has such norms."""
    found = {Mode.INFERENCE, Mode.TRAINING_NORMS} if has_training_form(model) else {Mode.INFERENCE}
    return frozenset(found)


def flags(part: Part) -> dict[str, bool | None]:
    """The training flags of the layers that depend on the mode, by name."""
    layers = {layer.name: layer.training for layer in part.layers if norm_depends_on_mode(layer) is not False}
    others = {entry.name: entry.training for entry in part.mode_dependent if drops_at_random(entry) is not False}
    return {**layers, **others}


def with_flags(model: nn.Module, part: Part) -> Part:
    """The part with the training flags that the model's modules have now."""
    now = {name: module.training for name, module in model.named_modules(remove_duplicate=False)}
    return replace(
        part,
        layers=tuple(replace(layer, training=now.get(layer.name, layer.training)) for layer in part.layers),
        mode_dependent=tuple(
            replace(entry, training=now.get(entry.name, entry.training)) for entry in part.mode_dependent
        ),
    )
