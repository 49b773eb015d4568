"""A Hugging Face folder: which files are weights, which belong together, what else is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from bnaudit.description import Gap
from bnaudit.errors import UnreadableError

if TYPE_CHECKING:
    from bnaudit.reading.folders.weight_files import WeightFiles

_INDEX = ".index.json"
_STEMS = ("model", "pytorch_model", "diffusion_pytorch_model", "open_clip_pytorch_model", "adapter_model")
_SHARD = re.compile(r"(.+)-\d{5}-of-(\d{5})(\.\w+)")
_OTHER_MODELS = (".h5", ".msgpack", ".onnx", ".gguf", ".pt", ".pth", ".ckpt", ".tflite", ".ot")
_TRAINING = ("optimizer", "scheduler", "rng_state", "training_args", "scaler")


class ModelFolder:
    """The names in a folder, sorted. Raises UnreadableError when it may not be listed."""

    __slots__ = ("names", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.names = sorted(entry.name for entry in path.iterdir())
        except OSError as error:
            where = error.strerror or type(error).__name__
            raise UnreadableError(f"{path} cannot be listed", where=where, remedy="check its permissions") from error

    @property
    def indexes(self) -> list[str]:
        """The indexes of sharded weights."""
        return [name for name in self.names if name.endswith(_INDEX) and _is_weights(name.removesuffix(_INDEX))]

    @property
    def is_model(self) -> bool:
        """Whether it holds an index, or a config.json with weights beside it."""
        return bool(self.indexes) or ("config.json" in self.names and any(map(_is_weights, self.names)))

    def other_models(self) -> list[str]:
        """Names of models in formats of their own, which have to be given by name."""
        return [name for name in self.names if name.endswith(_OTHER_MODELS) and not name.startswith(_TRAINING)]

    def read_models(self, weights: WeightFiles) -> list[str]:
        """Read every model of the folder into `weights`; returns their names.

        A model that cannot be read is a Gap. Raises UnreadableError when none can.
        """
        models = self.models(weights)
        failures: list[UnreadableError] = []
        for name, (shards, files) in models.items():
            part = name if len(models) > 1 else ""
            try:
                if shards == (name,):
                    weights.add_file(self.path / name, part)
                else:
                    weights.add_shards(self.path, shards, files, part)
            except UnreadableError as error:
                failures.append(error)
                weights.gaps.append(Gap(where=name, why=str(error)))
        if not weights.parts:
            raise failures[0] if failures else UnreadableError(f"no weights in {self.path}", remedy="give the model")
        return list(models)

    def models(self, weights: WeightFiles) -> dict[str, Model]:
        """Name (of its file or its index, else the pattern of its files) -> its files, and which holds which tensor."""
        models: dict[str, Model] = {}
        for index in self.indexes:
            try:
                found = weights.index(self.path / index)
            except UnreadableError as error:
                weights.gaps.append(Gap(where=index, why=str(error)))  # the shards are found by their numbers
            else:
                models[index] = found.shards, found.files
        taken = {shard for shards, _ in models.values() for shard in shards}
        loose = [name for name in self.names if _is_weights(name) and name not in taken]
        for name, shards, missing in _numbered(loose):
            models[name] = shards, None
            if missing > 0:
                weights.gaps.append(Gap(where=name, why=f"{missing} of its files are not there"))
        return models


Model = tuple[tuple[str, ...], dict[str, str] | None]


def _numbered(names: list[str]) -> list[tuple[str, tuple[str, ...], int]]:
    """Files by model: its name, its files, and how many the numbering (`-00001-of-00002`) says are missing."""
    groups: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    for name in names:
        shard = _SHARD.fullmatch(name)
        model = f"{shard[1]}-*{shard[3]}" if shard else name
        groups.setdefault(model, []).append(name)
        counts[model] = int(shard[2]) if shard else 1
    return [(model, tuple(files), counts[model] - len(files)) for model, files in groups.items()]


def _is_weights(name: str) -> bool:
    return name.endswith(".safetensors") or (name.endswith(".bin") and name.startswith(_STEMS))
