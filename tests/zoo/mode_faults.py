"""Faults that are planted in the module itself, for the carriers that hold code or are run."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from zoo import faults
from zoo.faults import Layers, Planted
from zoo.moving import affine_norms, tracking

OF_STATE = tuple(fault for fault in faults.FAULTS if fault.name in faults.IN_EVERY_CARRIER)
OF_ITS_BATCH = ("BN2", "BN3", "BN4")
"""What a batch norm that uses its batch really does beside its own rule: rows depend on neighbours, state moves."""
OF_ITS_VALUES = ("BN403", "BN404")
"""What values that are wrong really do in a run: train parts from eval, and the layers behind receive what is not
stored. How much of it is seen depends on how far a short budget reaches."""
MEASURED = ("BN301", "BN401")
"""The rules that speak in place of the fault's own where a run showed at that layer what it does."""


class ModeFault(NamedTuple):
    """`plant` changes one batch norm; `rules` are those that may name it, by carrier."""

    name: str
    severity: str
    plant: Callable[[_BatchNorm], object]
    rules: dict[str, str]
    """Carrier → the rule that must find it; a carrier that is not here cannot show it. A trace has fixed its modes."""


def _forget(norm: _BatchNorm) -> None:
    norm.track_running_stats = False
    norm.running_mean = norm.running_var = norm.num_batches_tracked = None


OF_MODE = (
    ModeFault(
        "one norm in training mode",
        "warning",
        lambda norm: norm.train(),
        {"live": "BN201", "torchscript": "BN201", "traced": "BN202", "pt2": "BN202", "onnx": "BN202"},
    ),
    ModeFault(
        "one norm without tracking", "warning", _forget, {"live": "BN204", "torchscript": "BN204", "traced": "BN204"}
    ),
    ModeFault("one norm frozen, and updating", "error", lambda norm: norm.requires_grad_(False), {"live": "BN501"}),
)


class Plant(NamedTuple):
    """A fault in the net."""

    planted: Planted
    of_mode: bool

    @property
    def consequences(self) -> tuple[str, ...]:
        """Rules that may rightly speak beside the fault's own."""
        return OF_ITS_BATCH if self.of_mode else OF_ITS_VALUES


def plant(net: nn.Module, carrier: str, random: Random) -> Plant | None:
    """Plant one fault that this carrier can show; a batch norm that never ran is left alone. None: no norm layer.

    A norm that its class spells out in arithmetic (ConvNeXt V2's response norm, EvoNorm) is no operator and no class
    that is known: these carriers do not list it. A state dict does where its name says that it is one.
    """
    ran = {name: norm for name, norm in tracking(net) if int(norm.num_batches_tracked or 0)}
    modes = [fault for fault in OF_MODE if carrier in fault.rules and _can_have(fault, ran)]
    layers = Layers(list(ran), affine_norms(net, of_torch=True))
    states = [fault for fault in OF_STATE if faults.fits(fault, layers)]
    if not modes and not states:
        return None
    fault = random.choice([*modes, *states])
    if isinstance(fault, ModeFault):
        name = random.choice(sorted(name for name, norm in ran.items() if _is_fit(fault, norm)))
        fault.plant(ran[name])
        return Plant(Planted(fault.name, fault.rules[carrier], fault.severity, (name,)), of_mode=True)
    state = faults.copy_of(net.state_dict())
    where = fault.plant(state, layers, random)
    net.load_state_dict(state)
    return Plant(Planted(fault.name, fault.rule, fault.severity, where), of_mode=False)


def _can_have(fault: ModeFault, norms: dict[str, _BatchNorm]) -> bool:
    return any(_is_fit(fault, norm) for norm in norms.values())


def _is_fit(fault: ModeFault, norm: _BatchNorm) -> bool:
    return norm.weight is not None or "frozen" not in fault.name
