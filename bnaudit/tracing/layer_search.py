"""From what was typed to one norm layer and one of its channels."""

from __future__ import annotations

from collections.abc import Sequence

from bnaudit.comparing.paths import named_part
from bnaudit.description import Description, NormLayer, Part
from bnaudit.errors import UsageError
from bnaudit.layer_names import strip_wrappers
from bnaudit.nearest_name import nearest

_MOST_NAMES = 6
"""Names that an error lists."""


def part_of(description: Description, name: str | None, layer: str) -> Part:
    """The part that is named, else the first one that has the layer, else the first.

    Raises UsageError for a part that does not exist and for an artifact without norm layers.
    """
    if name is not None:
        return named_part(description, name)
    having = [part for part in description.parts if _fitting(part.layers, layer)]
    filled = [part for part in description.parts if part.layers]
    if not filled:
        raise UsageError(
            "no norm layer was found",
            where=description.artifact.path,
            remedy="give the file that the model is saved in",
        )
    return (having or filled)[0]


def layer_of(part: Part, name: str, where: str) -> NormLayer:
    """The layer with this name, wrappers apart, or the only one whose name ends with it.

    Raises UsageError with the nearest name when there is none, with the candidates when there are several.
    """
    found = _fitting(part.layers, name)
    if len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(layer.name for layer in found[:_MOST_NAMES]) + (", …" if len(found) > _MOST_NAMES else "")
        what = f"{len(found)} norm layers are called {name}: {shown}"
        raise UsageError(what, where=where, remedy="write more of the name")
    known = [layer.name for layer in part.layers]
    remedy = _did_you_mean(name, known)
    raise UsageError(f"no norm layer is called {name}", where=where, remedy=remedy)


def check_channel(layer: NormLayer, channel: int) -> None:
    """Raises UsageError for a channel that the layer does not have."""
    channels = layer.channels
    if channel < 0 or (channels is not None and channel >= channels):
        has = (
            f"{layer.name or 'the layer'} has {channels} channels" if channels is not None else "channels count from 0"
        )
        remedy = f"give one from 0 to {channels - 1}" if channels else "give 0 or more"
        raise UsageError(f"there is no channel {channel}: {has}", where=f"--channel {channel}", remedy=remedy)


def _fitting(layers: Sequence[NormLayer], name: str) -> list[NormLayer]:
    """Exact name, else the same without wrappers, else those that end with it."""
    bare = strip_wrappers(name)
    for same in (
        lambda layer: layer.name == name,
        lambda layer: strip_wrappers(layer.name) == bare,
        lambda layer: layer.name.endswith((f".{name}", f"/{name}")),
    ):
        found = [layer for layer in layers if same(layer)]
        if found:
            return found
    return []


def _did_you_mean(name: str, known: Sequence[str]) -> str:
    listed = ", ".join(known[:_MOST_NAMES]) + (", …" if len(known) > _MOST_NAMES else "")
    meant = nearest(name, known, "", cutoff=0.5)
    if meant:
        return meant
    ends = {known_name.rpartition(".")[2] for known_name in known}
    meant = nearest(name.rpartition(".")[2], sorted(ends), "", cutoff=0.7)
    return meant if meant and len(known) > _MOST_NAMES else f"there are {listed}"
