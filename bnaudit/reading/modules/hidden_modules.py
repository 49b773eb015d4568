"""Modules that stand in plain containers, attributes and foreign objects, where eval() does not reach them (BN207)."""

from __future__ import annotations

from bnaudit.description import HiddenModule, StoredTensor
from bnaudit.modes import norm_depends_on_mode
from bnaudit.reading.checkpoints.tally import Tally
from bnaudit.reading.modules.mode_modules import mode_dependent
from bnaudit.reading.modules.norm_modules import norm_layer
from bnaudit.reading.modules.object_places import Place, breadth, inside, inside_module
from bnaudit.reading.modules.objects import PickledModule, as_module
from bnaudit.reading.modules.walk import Located, Walker


def hidden_modules(registered: list[Located], tally: Tally | None = None) -> tuple[tuple[HiddenModule, ...], Walker]:
    """The modules outside `registered` that hold something eval(), state_dict() or to() would have to reach.

    What is registered below another hidden module is that one's. A module without parameters, buffers and modes (a
    ReLU, a loss) loses nothing by being hidden and is not listed. Takes time in proportion to the size of the pickle.
    The second value is the walker that listed what is in them, with its gaps. Raises CapExceededError when there is
    more to look into than the tally allows.
    """
    tally = tally if tally is not None else Tally()
    walker = Walker((id(located.module.call) for located in registered), tally)
    met = _unregistered(registered, walker.seen, tally)
    below_others = {id(child) for place in met for _, child in _module(place).section("_modules")}
    hidden = []
    for place in met:
        if id(place.value) not in below_others:
            located = walker.walk(place.written(), _module(place))
            if any(_matters(entry) for entry in located):
                hidden.append(_describe(located))
    return tuple(hidden), walker


def _unregistered(registered: list[Located], known: set[int], tally: Tally) -> list[Place]:
    """Every module that is reachable from the registered ones and is none of them, in the order of the attributes."""
    met: list[Place] = []
    looked: set[int] = set()
    for located in registered:
        root = Place(None, "", located.path, None)
        tally.objects(breadth(located.module.attributes))
        waiting = inside_module(root, located.module, children=False)[::-1]
        while waiting:
            place = waiting.pop()
            if id(place.value) in looked or id(place.value) in known:
                continue
            looked.add(id(place.value))
            tally.objects(1 + breadth(place.value))
            module = as_module(place.value)
            if module is None:
                waiting.extend(reversed(inside(place)))
            else:
                met.append(place)
                waiting.extend(reversed(inside_module(place, module, children=True)))
    return met


def _module(place: Place) -> PickledModule:
    module = as_module(place.value)
    assert module is not None
    return module


def _matters(located: Located) -> bool:
    """Whether eval(), state_dict() or to() have anything to do at a module itself."""
    entries = [*located.module.section("_parameters"), *located.module.section("_buffers")]
    return any(value is not None for _, value in entries) or _mode(located) is not None


def _describe(located: list[Located]) -> HiddenModule:
    modes = [mode for mode in map(_mode, located) if mode is not None]
    root = located[0]
    return HiddenModule(
        path=root.path,
        class_name=root.module.class_name,
        training=root.module.training,
        mode_dependent=tuple(path for path, training in modes if training is not False),
        in_training=any(training for _, training in modes),
    )


def _mode(located: Located) -> tuple[str, bool | None] | None:
    """Path and training flag of a mode-dependent layer, None for any other module."""
    layer = norm_layer(located.path, located.module, _named_only)
    depends = norm_depends_on_mode(layer) if layer is not None else mode_dependent(*located) is not None
    return (located.path, located.module.training) if depends else None


def _named_only(name: str, value: object) -> StoredTensor:
    return StoredTensor(name=name, dtype="", shape=(), values=None)
