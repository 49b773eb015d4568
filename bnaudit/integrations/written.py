"""What a trainer wrote, held against the model that it was written from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from bnaudit.auditing import describe
from bnaudit.description import NormLayer, Part, StoredTensor
from bnaudit.errors import BnauditError, UnreadableError
from bnaudit.integrations.stages import Stages
from bnaudit.layer_names import strip_wrappers
from bnaudit.modes import keeps_buffers
from bnaudit.records import replace
from bnaudit.torch_session.checkpoint_files import INDEX, WEIGHT_FILES, checkpoint_tensors
from bnaudit.torch_session.checkpoint_loading import as_stored
from bnaudit.torch_session.live_tensors import stored_tensor


def check_state_dict(
    stages: Stages, model: nn.Module, state_dict: Mapping[str, object], when: str, *, speaks: bool = True
) -> None:
    """Of a state dict that is about to be written. Raises UnfitModelError, see Stages."""
    part = stages.part(model)
    own = {strip_wrappers(layer.name) for layer in part.layers if _tracks(layer)}
    stored = {
        key: stored_tensor(key, value)
        for key, value in state_dict.items()
        if isinstance(value, torch.Tensor) and strip_wrappers(key.rpartition(".")[0]) in own
    }
    metadata = getattr(state_dict, "_metadata", None)
    versions = {name: entry.get("version") for name, entry in metadata.items()} if isinstance(metadata, dict) else {}
    _check(stages, model, _Written(part, stored, versions, set(state_dict)), when, speaks)


def check_file(stages: Stages, model: nn.Module, path: Path, when: str, *, speaks: bool = True) -> None:
    """Of a file or model folder that was written, which is read back; nothing in it is executed.

    Raises UnreadableError when it cannot be read, UnfitModelError, see Stages.
    """
    part = stages.part(model)
    if not any(map(_tracks, part.layers)):
        return
    path = _weights(path)
    description = describe(path)
    if not description.parts:
        raise UnreadableError("there is no model in it", where=str(path), remedy="look at what the trainer saves")
    parts = _parts(description.parts, part)
    stored = {head + tensor.name: tensor for head, other in parts for layer in other.layers for tensor in layer.tensors}
    versions = {head + layer.name: layer.metadata_version for head, other in parts for layer in other.layers}
    names = {head + name for head, other in parts for name in _names(path, other.name)}
    _check(stages, model, _Written(part, stored, versions, {*stored, *names}), when, speaks)


def _weights(path: Path) -> Path:
    """The file of the weights, or the index of its shards, in a folder where a trainer keeps other files too."""
    names = [f"{name}{index}" for name in WEIGHT_FILES for index in ("", INDEX)]
    found = [path / name for name in names if (path / name).is_file()] if path.is_dir() else []
    return found[0] if found else path


class _Written(NamedTuple):
    part: Part
    """The live model."""
    stored: Mapping[str, StoredTensor]
    """What was written of norm layers, by name."""
    versions: Mapping[str, int | None]
    """`_metadata` by layer, where there is any."""
    names: set[str]
    """Of all tensors that were written, also of those that belong to no norm layer."""

    def bare(self) -> _Written:
        """Without what wrappers put in front of names."""
        stored = {strip_wrappers(key): tensor for key, tensor in self.stored.items()}
        versions = {strip_wrappers(key): version for key, version in self.versions.items()}
        return _Written(self.part, stored, versions, set(map(strip_wrappers, self.names)))

    def holds(self, layer: NormLayer, name: str) -> bool:
        """Whether anything of a layer was written, or, when it is nothing but its statistics, of the block around it.

        A trainer may leave whole layers out on purpose: a frozen backbone, or all but an adapter.
        """
        block = name.rpartition(".")[0] if layer.weight is None and layer.bias is None else name
        return any(key.startswith(f"{block}.") for key in self.names) if block else bool(self.names)


def _check(stages: Stages, model: nn.Module, written: _Written, when: str, speaks: bool) -> None:
    tracking = [layer for layer in written.part.layers if _tracks(layer)]
    strip = not any(written.holds(layer, layer.name) for layer in tracking)
    written = written.bare() if strip else written
    judged = []
    for layer in tracking:
        name = strip_wrappers(layer.name) if strip else layer.name
        if written.holds(layer, name):
            judged.append(
                replace(as_stored(layer, written.stored, strip=strip), metadata_version=written.versions.get(name))
            )
    if tracking and not judged and speaks:
        count = f"{len(tracking)} layers" if len(tracking) > 1 else "layer"
        stages.say(
            f"no tensor was written under the names of the {count} with running statistics: not checked (%s)", when
        )
    stages.saved(model, replace(written.part, layers=tuple(judged), hidden=()), when, speaks=speaks)


def _tracks(layer: NormLayer) -> bool:
    """Whether the live layer has statistics that belong into a checkpoint; a lazy one has none yet."""
    return keeps_buffers(layer) and not any(tensor.absence for tensor in layer.tensors)


def _likeness(other: Part, part: Part) -> int:
    """How many of the model's norm layers a part of a file has."""
    own = {strip_wrappers(layer.name) for layer in part.layers}
    return sum(strip_wrappers(layer.name) in own for layer in other.layers)


def _parts(parts: Sequence[Part], part: Part) -> list[tuple[str, Part]]:
    """The part of a file that is the model, with nothing to put in front of its names.

    Where Lightning saves modules among the hyperparameters, the state dict holds their tensors once more and is no part
    of its own: then those modules, with the model's names for them.
    """
    best = max(parts, key=lambda other: _likeness(other, part))
    inside = {} if _likeness(best, part) else {_place(other, part): other for other in parts}
    return [(head, other) for head, other in inside.items() if head] or [("", best)]


def _place(other: Part, part: Part) -> str:
    """What precedes the names of all layers of a part in the model: `net.`; empty when there is no such thing."""
    own = {layer.name for layer in part.layers}
    names = [layer.name for layer in other.layers]
    heads = [name[: -len(names[0])] for name in own if names and name.endswith(f".{names[0]}")]
    return next((head for head in heads if own.issuperset(head + name for name in names)), "")


def _names(path: Path, part: str) -> Iterable[str]:
    """Of all tensors of a part; none where torch reads the file only by executing what it says."""
    try:
        tensors = checkpoint_tensors(path, trusted=False)
    except BnauditError:
        return ()
    head = f"{part}." if part else ""
    return [name[len(head) :] for name in tensors if name.startswith(head)]
