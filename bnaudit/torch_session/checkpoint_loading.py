"""A checkpoint in the user's model: which of its tensors fit, and what of every norm layer is stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from bnaudit.description import Description, NormLayer, Part, StoredTensor
from bnaudit.errors import UnreadableError
from bnaudit.layer_names import strip_wrappers
from bnaudit.measurement import Loaded
from bnaudit.records import replace
from bnaudit.torch_session.checkpoint_files import Tensors, checkpoint_tensors
from bnaudit.torch_session.live_layers import live_part
from bnaudit.torch_session.live_tensors import stored_tensor

_ROLES = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
_COUNTER = "num_batches_tracked"
_SAME_MODEL = "give the model that it was saved from"


class Fitted(NamedTuple):
    """A model with a checkpoint in it."""

    part: str
    """The part of the file that was loaded."""
    loaded: Loaded
    stored: dict[str, StoredTensor]
    """The file's tensors of norm layers by their names in the model."""

    def with_stored(self, part: Part, *, strip: bool) -> Part:
        """The live part with the tensors of the file: None for what the file lacks."""
        return replace(part, layers=tuple(as_stored(layer, self.stored, strip=strip) for layer in part.layers))


def as_stored(layer: NormLayer, stored: Mapping[str, StoredTensor], *, strip: bool) -> NormLayer:
    """A live layer with the tensors of a file, which are under their names in the model: None for what it lacks."""
    name = strip_wrappers(layer.name) if strip else layer.name
    found: dict[str, StoredTensor | None] = {}
    for role in _ROLES:
        live: StoredTensor | None = getattr(layer, role)
        if live is not None:
            leaf = live.name.rpartition(".")[2]
            own = stored.get(f"{name}.{leaf}" if name else leaf)
            found[role] = replace(own, requires_grad=live.requires_grad) if own is not None else None
    return replace(layer, **found)


class _Candidate(NamedTuple):
    """The tensors of one part under the names that they would have in the model."""

    part: str
    tensors: Tensors
    names: dict[str, str]
    """Name in the model → name in the part."""

    def fitting(self, shapes: dict[str, torch.Size]) -> int:
        """How many of the model's tensors it has, in their shapes; a counter fits anywhere and proves nothing."""
        return sum(
            name in shapes and tensor.shape == shapes[name] for name, tensor in self.tensors.items() if tensor.ndim
        )


def load_checkpoint(
    model: nn.Module, path: Path, description: Description, wanted: str, name: str, *, trusted: bool = False
) -> Fitted:
    """Load the part that is wanted, else the one that fits best, and say how its norm layers fit.

    Prefixes of wrappers are taken off; tensors of another shape are left out. Raises UnreadableError when the file
    cannot be loaded, not one tensor fits, or every norm layer that it has is of another size.
    """
    tensors = checkpoint_tensors(path, trusted=trusted)
    own = model.state_dict()
    shapes = {key: value.shape for key, value in own.items() if isinstance(value, torch.Tensor)}
    parts = [part.name for part in description.parts if not wanted or part.name == wanted]
    candidates = [candidate for part in parts for candidate in _candidates(part, tensors, shapes)]
    best = max(candidates, key=lambda candidate: candidate.fitting(shapes), default=None)
    if best is None or not best.fitting(shapes):
        raise UnreadableError(_nothing_fits(candidates, own, path, name), remedy=_SAME_MODEL)
    kept = {key: tensor for key, tensor in best.tensors.items() if key in shapes and tensor.shape == shapes[key]}
    loaded = _loaded(model, best, kept, name)
    if loaded.mismatched and not loaded.matched:
        raise UnreadableError(_other_sizes(best, loaded.mismatched, shapes, path, name), remedy=_SAME_MODEL)
    with torch.no_grad():
        model.load_state_dict(kept, strict=False, assign=any(tensor.is_meta for tensor in own.values()))
    return Fitted(best.part, loaded, _stored(best))


def _candidates(part: str, tensors: Tensors, shapes: dict[str, torch.Size]) -> Iterator[_Candidate]:
    """The tensors of a part under their names, and without what wrappers and models around them add."""
    local = part.rpartition(":")[2]
    head = f"{local}." if local else ""
    inside = {key[len(head) :]: tensor for key, tensor in tensors.items() if key.startswith(head)}
    yield _Candidate(part, inside, {key: key for key in inside})
    stripped = {strip_wrappers(key): key for key in inside}
    yield _Candidate(part, {new: inside[old] for new, old in stripped.items()}, stripped)
    for prefix in sorted(_prefixes(inside, shapes)):
        cut = {key[len(prefix) :]: key for key in inside if key.startswith(prefix)}
        yield _Candidate(part, {new: inside[old] for new, old in cut.items()}, cut)
    for prefix in sorted(_prefixes(dict.fromkeys(shapes, torch.empty(0)), {key: t.shape for key, t in inside.items()})):
        added = {f"{prefix}{key}": key for key in inside}
        yield _Candidate(part, {new: inside[old] for new, old in added.items()}, added)


def _prefixes(longer: Iterable[str], shorter: Iterable[str]) -> set[str]:
    """What must be cut off names so that they become others: of the first of each that end alike."""
    ends = set(shorter)
    found: set[str] = set()
    for name in longer:
        pieces = name.split(".")
        for cut in range(1, len(pieces)):
            if ".".join(pieces[cut:]) in ends:
                found.add(".".join(pieces[:cut]) + ".")
        if len(found) > 16:
            break
    return found


def _loaded(model: nn.Module, best: _Candidate, kept: Tensors, name: str) -> Loaded:
    layers = live_part(model).layers
    needed = {layer.name: [tensor.name for tensor in layer.tensors] for layer in layers}
    own = {key for names in needed.values() for key in names} & set(model.state_dict())
    missing = [key for names in needed.values() for key in names if key in own and key not in best.tensors]
    in_file = {key.rpartition(".")[0] for key in best.tensors if key.rpartition(".")[2] in _STATISTICS}
    unexpected = [
        key
        for key in best.tensors
        if key not in model.state_dict() and (key.rpartition(".")[0] in {*in_file, *needed} or _is_statistic(key))
    ]
    filled = [key for key in missing if key.endswith(_COUNTER)]
    whole_layers = [layer for layer, names in needed.items() if names and all(key in missing for key in names)]
    lacking = [key for key in missing if key not in filled and key.rpartition(".")[0] not in whole_layers]
    return Loaded(
        model=name,
        matched=tuple(
            layer for layer, names in needed.items() if names and all(key in kept for key in names if _counts(key))
        ),
        missing=(*whole_layers, *lacking),
        unexpected=tuple(best.names[key] for key in unexpected),
        filled_counters=tuple(key for key in filled if key.rpartition(".")[0] not in whole_layers),
        mismatched=tuple(best.names[key] for key in best.tensors if key in own and key not in kept),
    )


def _counts(key: str) -> bool:
    return not key.endswith(_COUNTER)


def _is_statistic(key: str) -> bool:
    return key.rpartition(".")[2] in _STATISTICS


def _stored(best: _Candidate) -> dict[str, StoredTensor]:
    """Tensors of at most one axis, which is what norm layers have, and counters."""
    return {key: stored_tensor(best.names[key], tensor) for key, tensor in best.tensors.items() if tensor.ndim <= 1}


def _other_sizes(
    best: _Candidate, mismatched: tuple[str, ...], shapes: dict[str, torch.Size], path: Path, name: str
) -> str:
    first = next(key for key, stored in best.names.items() if stored == mismatched[0])
    sizes = f"{mismatched[0]} is {tuple(best.tensors[first].shape)} there and {tuple(shapes[first])} in the model"
    return f"not one norm layer of {path.name} fits into {name} ({sizes})"


def _nothing_fits(candidates: list[_Candidate], own: dict[str, torch.Tensor], path: Path, name: str) -> str:
    stored = next((key for candidate in candidates for key in candidate.names.values()), "")
    wanted = next(iter(own), "")
    example = f" (it holds {stored}, the model wants {wanted})" if stored and wanted else ""
    return f"not one tensor of {path.name} fits into {name}{example}"
