"""The convolutions and linear layers of a model that stands in several files, or beside others in a folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bnaudit.caps import Caps
from bnaudit.comparison import LinearLayer
from bnaudit.description import Part
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.checkpoints.linear_layers import checkpoint_layers
from bnaudit.reading.checkpoints.linear_tensors import linear_tensors
from bnaudit.reading.checkpoints.tally import Tally
from bnaudit.reading.folders.model_folder import ModelFolder
from bnaudit.reading.folders.weight_files import SAFETENSORS, WeightFiles


@contextmanager
def shard_layers(
    folder: Path, shards: Sequence[str], files: Mapping[str, str] | None, part: Part, caps: Caps
) -> Iterator[list[LinearLayer]]:
    """Those of a model in several files. `files` says which shard has which tensor. Raises UnreadableError."""
    weights = WeightFiles(caps)
    with ExitStack() as opened:
        entries = []
        for shard in shards:
            found, _ = weights.entries(opened.enter_context(ByteSource.open(folder / shard, caps)))
            entries += [entry for entry in found if files is None or files.get(entry[0], shard) == shard]
        yield linear_tensors(entries, part)


@contextmanager
def folder_layers(path: Path, part: Part, caps: Caps) -> Iterator[list[LinearLayer]]:
    """Those of one part of a Hugging Face folder. Raises UnreadableError."""
    weights = WeightFiles(caps)
    models = ModelFolder(path).models(weights)
    model, _, inner = part.name.partition(":") if len(models) > 1 else (next(iter(models), ""), "", part.name)
    shards, files = models.get(model, ((), None))
    if shards != (model,):
        with shard_layers(path, shards, files, part, caps) as layers:
            yield layers
        return
    with ByteSource.open(path / model, caps) as source:
        if model.endswith(SAFETENSORS):
            yield linear_tensors(weights.entries(source)[0], part)
        else:
            root, tensors = weights.pickled(source)
            yield checkpoint_layers(root, tensors, part, inner, Tally(caps, source.name))
