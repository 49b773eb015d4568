"""From the value of a pickle to the models in it: what is one part, what is another, what is none."""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

from bnaudit.description import Artifact, Carrier, Description, Gap, Part, PickleImport
from bnaudit.errors import NotAModelError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.checkpoints.optimizer_state import steps, whole
from bnaudit.reading.checkpoints.tally import Tally
from bnaudit.reading.checkpoints.tensor_groups import Owner, describe_dicts, path_text
from bnaudit.reading.checkpoints.walk import Found, walk
from bnaudit.reading.tensors.torch_tensors import TorchTensors

_MOST_REMARKS = 8
_MOST_OWNERS = 16


class Contents(NamedTuple):
    """What a checkpoint holds; the fields are those of Description."""

    parts: tuple[Part, ...]
    gaps: tuple[Gap, ...]
    has_optimizer: bool
    steps: int | None
    steps_name: str
    producer: str | None
    remarks: tuple[str, ...]


def describe_checkpoint(root: object, tensors: TorchTensors, name: str, tally: Tally) -> Contents:
    """The models in the value `root` of a pickle; `name` is the file's, for messages.

    Raises NotAModelError when there is neither a tensor nor a module nor an optimizer in it, CapExceededError when
    there is more than the tally allows.
    """
    found = walk(root, tensors, tally)
    parts, gaps, aliases = describe_dicts(found.dicts, _owners(found, tensors, tally), tally)
    for position, path, call in found.modules:
        from bnaudit.reading.modules.tree import describe_module  # most checkpoints hold no module

        part, missing = describe_module(call, tensors, ".".join(path), tally)
        parts.append((position, part))
        gaps.extend(missing)
    repeated = [f"{path_text(second)} is the same object as {path_text(first)}" for second, first in found.twice]
    in_file_order = [part for _, part in sorted(parts, key=itemgetter(0))]
    has_optimizer = bool(found.optimizers)
    count, where = _steps(found, tensors)
    return Contents(
        parts=tuple(in_file_order) or _without_model(found, has_optimizer, name),
        gaps=(*found.gaps, *gaps),
        has_optimizer=has_optimizer,
        steps=count,
        steps_name=where,
        producer=_producer(found),
        remarks=(*repeated, *aliases)[:_MOST_REMARKS],
    )


def description(
    root: object, imports: tuple[PickleImport, ...], tensors: TorchTensors, source: ByteSource, format_name: str
) -> Description:
    """The Description of a file that is one pickle, with the value `root`, and its tensors.

    Raises what describe_checkpoint raises.
    """
    contents = describe_checkpoint(root, tensors, source.name, Tally(source.caps, source.name))
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


def _owners(found: Found, tensors: TorchTensors, tally: Tally) -> list[Owner]:
    """The first modules of the file with the identities of their tensors."""
    if not found.modules or not found.dicts:
        return []
    from bnaudit.reading.modules.tree import tensor_identities

    return [(path, tensor_identities(call, tensors, tally)) for _, path, call in found.modules[:_MOST_OWNERS]]


def _without_model(found: Found, has_optimizer: bool, name: str) -> tuple[Part, ...]:
    """Loose tensors are a part without norm layers; an optimizer alone is no model at all."""
    count = found.loose + sum(len(held.entries) for held in found.dicts)
    if not count and not has_optimizer and not found.gaps:
        raise NotAModelError("a pickle without a tensor in it", where=name, remedy="give the checkpoint of a model")
    if not count and not found.gaps:
        return ()
    dtypes = {ref.dtype for held in found.dicts for _, ref in held.entries if "float" in ref.dtype}
    return (Part(name="", carrier=Carrier.STATE_DICT, tensors=count, floating_dtypes=tuple(sorted(dtypes))),)


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
