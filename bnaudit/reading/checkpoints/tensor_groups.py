"""Which dicts of tensors are one model: whole state dicts, layers of a nested one, aliases of another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bnaudit.description import Gap, Part
from bnaudit.reading.checkpoints.norm_names import layer_and_leaf
from bnaudit.reading.checkpoints.state_dict import describe_state_dict
from bnaudit.reading.checkpoints.tally import PART, Tally
from bnaudit.reading.checkpoints.walk import Path, TensorDict
from bnaudit.reading.tensors.tensor_refs import TensorRef

Owner = tuple[Path, frozenset[object]]
"""A module of the file: where it is, and the identities of all its tensors."""


def describe_dicts(
    dicts: list[TensorDict], owners: list[Owner] | None = None, tally: Tally | None = None
) -> tuple[list[tuple[int, Part]], list[Gap], list[str]]:
    """The models that the dicts hold with their positions in the file, what was not read, and remarks on aliases.

    A dict whose tensors all belong to one of the `owners` is its state dict, and no model of its own. Raises
    CapExceededError when there are more norm layers than the tally allows.
    """
    tally = tally if tally is not None else Tally()
    parts: list[tuple[int, Part]] = []
    gaps: list[Gap] = []
    remarks: list[str] = []
    groups = _distinct(_grouped(dicts), remarks)
    for group in _unowned(groups, owners, remarks) if owners else groups:
        tally.objects(PART)
        part, missing = describe_state_dict(".".join(group.path), group.entries, group.versions, tally)
        if part.layers or not group.scattered:
            parts.append((group.position, part))
        gaps.extend(missing)
    return parts, gaps, remarks


def entries_of(dicts: list[TensorDict], name: str) -> list[tuple[str, TensorRef]]:
    """The tensors of the part that describe_dicts calls `name`; none when there is no such part."""
    named = [group.entries for group in _grouped(dicts) if ".".join(group.path) == name]
    return max(named, key=len, default=[])


class _Group:
    """The tensors of one part."""

    __slots__ = ("entries", "path", "position", "scattered", "versions")

    def __init__(self, position: int, path: Path, versions: dict[str, int] | None, scattered: bool) -> None:
        self.position = position
        self.path = path
        self.versions = versions
        self.scattered = scattered
        """Put together from dicts of single layers and stray tensors: a part only if norm layers are in it."""
        self.entries: list[tuple[str, TensorRef]] = []


def _grouped(dicts: list[TensorDict]) -> list[_Group]:
    """A state dict is a group; the dicts of single layers below one place are one group together."""
    groups: dict[Path, _Group] = {}
    for held in dicts:
        whole_model = _is_state_dict(held)
        path = held.path if whole_model else _home(held.path, groups)
        group = groups.setdefault(path, _Group(held.position, path, held.versions, not whole_model))
        prefix = held.path[len(path) :]
        for key, ref in held.entries:
            group.entries.append((".".join((*prefix, key)) if prefix else key, ref))
    return list(groups.values())


def _is_state_dict(held: TensorDict) -> bool:
    """Whether the keys are tensors of many layers (`conv1.weight`, `bn/gamma`, `conv1_bn_s`) and not of one."""
    return held.versions is not None or any("." in key or "/" in key or _is_blob(key) for key, _ in held.entries)


def _is_blob(key: str) -> bool:
    layer, leaf = layer_and_leaf(key)
    return bool(leaf and layer)


def _home(path: Path, groups: dict[Path, _Group]) -> Path:
    """Where the dict of a single layer belongs: to the state dict around it, else to the key that names a model."""
    for length in range(len(path), 0, -1):
        if path[:length] in groups or _names_model(path[length - 1]):
            return path[:length]
    return ()


_MODEL_NAMES = frozenset(("net", "network", "ema", "module", "weights", "params", "variables", "shadow"))


def _names_model(key: str) -> bool:
    lowered = key.lower()
    return lowered in _MODEL_NAMES or "state_dict" in lowered or "model" in lowered


def _distinct(groups: list[_Group], remarks: list[str]) -> Iterator[_Group]:
    """The groups without those whose tensors are the very tensors of an earlier one."""
    first: dict[tuple[object, ...], _Group] = {}
    for group in groups:
        key = tuple((ref.identity, ref.dtype, ref.shape) for _, ref in group.entries)
        known = first.setdefault(key, group) if all(identity is not None for identity, _, _ in key) else group
        if known is group:
            yield group
        else:
            remarks.append(f"{path_text(group.path)} holds the very tensors of {path_text(known.path)}")


def _unowned(groups: Iterable[_Group], owners: list[Owner], remarks: list[str]) -> Iterator[_Group]:
    for group in groups:
        held = {ref.identity for _, ref in group.entries}
        owner = next((path for path, identities in owners if held <= identities), None)
        if owner is None:
            yield group
        else:
            remarks.append(f"{path_text(group.path)} holds the very tensors of the module {path_text(owner)}")


def path_text(path: Path) -> str:
    """A path for a person."""
    return ".".join(path) or "the whole file"
