"""How a Place in a running model is called in findings: by its norm layer, its module or its node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from bnaudit.description import Carrier, Description, NormKind, NormLayer
from bnaudit.modes import drops_at_random
from bnaudit.session import Place, StateChange

_T = TypeVar("_T")


def layer_at(subject: Description, place: Place, layer: str | None = None) -> str | None:
    """The name that a finding at this place has: the norm layer's, else the module's, "" for the root module.

    None where it is unknown: a graph's node without a name, an operator outside of any module.
    """
    if layer is not None:
        return layer
    if (spelled := _spelled_out_at(subject, place)) is not None:
        return spelled
    rooted = place.class_name and not any(part.carrier is Carrier.GRAPH for part in subject.parts)
    return place.module if place.module or rooted else None


def _spelled_out_at(subject: Description, place: Place) -> str | None:
    """The batch norm that a graph spells out with reductions in the scope of this node."""
    scope = _dotted(place.module.rpartition("/")[0])
    layers = (layer for part, layer in subject.layers if part.carrier is Carrier.GRAPH) if scope else ()
    found = (layer for layer in layers if layer.spelled_out and layer.kind is NormKind.BATCH)
    return next((layer.name for layer in found if _dotted(layer.name) == scope), None)


def _dotted(name: str) -> str:
    return name.strip("/").replace("/", ".")


def fixed_by_code(subject: Description, name: str | None) -> str | None:
    """The name that the file's own entry has for what runs in training form in this module of an exported program:
    there a functional call is `head.dropout_1`. Any other name stays as it is."""
    for part in subject.parts:
        if part.carrier is Carrier.PROGRAM and name is not None:
            norms = [layer.name for layer in part.layers if layer.graph_training]
            others = [entry.name for entry in part.mode_dependent if entry.graph_training]
            return next((each for each in (*norms, *others) if each.rpartition(".")[0] == name), name)
    return name


def holder_of(change: StateChange) -> str:
    """The module that holds what changed: `bn1` for `bn1.running_mean`, "" for the root module."""
    return change.name.rpartition(".")[0]


def described(place: Place) -> str:
    """What ran and where: `aten.native_batch_norm in Net, net.py:41`; "" when nothing is known."""
    operator = place.operator
    if place.class_name and place.class_name != operator:
        operator = f"{operator} in {place.class_name}" if operator else place.class_name
    return ", ".join(filter(None, (operator, place.source)))


def norm_layer(subject: Description, name: str | None) -> NormLayer | None:
    """The description's norm layer of this name."""
    return next((layer for _, layer in subject.layers if layer.name == name), None)


def trains_hidden(subject: Description, name: str | None) -> bool:
    """Whether it stands in an unregistered module that is known to be in training mode, which BN207 tells."""
    if name is None:
        return False
    paths = [hidden.path for part in subject.parts for hidden in part.hidden if hidden.in_training]
    return any(name == path or name.startswith((f"{path}.", f"{path}[")) for path in paths)


def drops_by_code(subject: Description, name: str | None) -> bool:
    """Whether a dropout without a name of its own is one that the code fixes in training form, as BN202 or BN203 tells.

    A run of TorchScript sees no modules, so that it cannot say which.
    """
    if name:
        return False
    entries = [entry for part in subject.parts if part.carrier.has_code for entry in part.mode_dependent]
    return any(entry.graph_training and drops_at_random(entry) is not False for entry in entries)


def by_place(entries: Iterable[tuple[str | None, _T]]) -> dict[str | None, list[_T]]:
    """What is reported under one name, in the order of first appearance: a finding's fingerprint is its place."""
    groups: dict[str | None, list[_T]] = {}
    for name, entry in entries:
        groups.setdefault(name, []).append(entry)
    return groups
