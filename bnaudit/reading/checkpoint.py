"""From the value of a pickle to the models in it: what is one part, what is another, what is none."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

from bnaudit.description import Artifact, Carrier, Description, Gap, Part, PickleImport
from bnaudit.errors import NotAModelError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.checkpoint_walk import Found, Path, TensorDict, walk
from bnaudit.reading.module_tree import describe_module
from bnaudit.reading.norm_names import layer_and_leaf
from bnaudit.reading.optimizer_state import is_kept, steps, whole
from bnaudit.reading.state_dict import describe_state_dict
from bnaudit.reading.tensor_refs import TensorRef
from bnaudit.reading.torch_tensors import TorchTensors

_MOST_REMARKS = 8


class Contents(NamedTuple):
    """What a checkpoint holds; the fields are those of Description."""

    parts: tuple[Part, ...]
    gaps: tuple[Gap, ...]
    has_optimizer: bool
    steps: int | None
    steps_name: str
    producer: str | None
    remarks: tuple[str, ...]


def describe_checkpoint(root: object, tensors: TorchTensors, name: str) -> Contents:
    """The models in the value `root` of a pickle; `name` is the file's, for messages.

    Raises NotAModelError when there is neither a tensor nor a module nor an optimizer in it.
    """
    found = walk(root, tensors)
    remarks = [f"{_name(second)} is the same object as {_name(first)}" for second, first in found.twice]
    parts: list[tuple[int, Part]] = []
    gaps = list(found.gaps)
    for position, path, call in found.modules:
        part, missing = describe_module(call, tensors, ".".join(path))
        parts.append((position, part))
        gaps.extend(missing)
    for group in _distinct(_group(found.dicts), remarks):
        part, missing = describe_state_dict(".".join(group.path), group.entries, group.versions)
        if part.layers or not group.scattered:
            parts.append((group.position, part))
        gaps.extend(missing)
    in_file_order = [part for _, part in sorted(parts, key=itemgetter(0))]
    has_optimizer = any(is_kept(optimizer) for optimizer in found.optimizers)
    count, where = _steps(found, tensors)
    return Contents(
        parts=tuple(in_file_order) or (_without_model(found, has_optimizer, name),),
        gaps=tuple(gaps),
        has_optimizer=has_optimizer,
        steps=count,
        steps_name=where,
        producer=_producer(found),
        remarks=tuple(remarks[:_MOST_REMARKS]),
    )


def description(
    root: object, imports: tuple[PickleImport, ...], tensors: TorchTensors, source: ByteSource, format_name: str
) -> Description:
    """The Description of a file that is one pickle, with the value `root`, and its tensors.

    Raises what describe_checkpoint raises.
    """
    contents = describe_checkpoint(root, tensors, source.name)
    return Description(
        artifact=Artifact(
            path=str(source.path),
            format=format_name,
            size=source.size,
            bytes_read=source.bytes_read,
            producer=contents.producer,
        ),
        parts=contents.parts,
        gaps=contents.gaps,
        imports=imports,
        has_optimizer=contents.has_optimizer,
        steps=contents.steps,
        steps_name=contents.steps_name,
        remarks=contents.remarks,
    )


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


def _group(dicts: list[TensorDict]) -> list[_Group]:
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
            remarks.append(f"{_name(group.path)} holds the very tensors of {_name(known.path)}")


def _name(path: Path) -> str:
    return ".".join(path) or "the whole file"


def _without_model(found: Found, has_optimizer: bool, name: str) -> Part:
    count = found.loose + sum(len(held.entries) for held in found.dicts)
    if not count and not has_optimizer and not found.gaps:
        raise NotAModelError("a pickle without a tensor in it", where=name, remedy="give the checkpoint of a model")
    dtypes = {ref.dtype for held in found.dicts for _, ref in held.entries if "float" in ref.dtype}
    return Part(name="", carrier=Carrier.STATE_DICT, tensors=count, floating_dtypes=tuple(sorted(dtypes)))


def _steps(found: Found, tensors: TorchTensors) -> tuple[int | None, str]:
    """Optimizer steps only: `epoch`, `iteration` and `step` mean something else in every second trainer."""
    for key in ("global_step", "global_steps"):
        count = whole(found.scalars.get(key))
        if count is not None:
            return count, key
    count = steps(found.optimizers, tensors)
    return count, "optimizer step" if count is not None else ""


def _producer(found: Found) -> str | None:
    for key, producer in (("pytorch-lightning_version", "pytorch-lightning"), ("ds_version", "deepspeed")):
        version = found.scalars.get(key)
        if isinstance(version, str):
            return f"{producer} {version[:40]}"
    return None
