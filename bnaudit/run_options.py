"""What the user says of running a model: whether, with which model and inputs, and how long."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from types import MappingProxyType

from bnaudit.records import Record


class RunOptions(Record, eq=False):
    """Options of one measured audit; every field has the default of the command line."""

    static: bool = False
    """Run nothing at all, not even an ONNX graph."""
    run: bool = False
    """Run TorchScript and exported programs, which can reach the file system."""
    trust_pickle: bool = False
    """Unpickle whole modules, which executes whatever the file says."""
    model: object = None
    """A live module, a factory, or `file.py:callable` or `package.module:callable`: the user's own code."""
    model_args: Mapping[str, object] = MappingProxyType({})
    """Keyword arguments of the factory."""
    part: str = ""
    """The part of a checkpoint to load into the model; "": the one that fits best."""
    as_is: bool = False
    """Judge the factory's model in the modes that it came in, not after eval()."""
    inputs: object = None
    """A path (.npy, .npz, .pt, .safetensors), `file.py:callable` or `package.module:callable`, arrays, tensors,
    an iterable or a callable that yields batches; None: synthetic inputs."""
    batch_size: int | None = None
    """Samples of one forward; None: 16 with inputs (or as many as they give), 8 without."""
    anchors: int = 4
    """Rows whose outputs are compared, one of them a copy of the first."""
    axis: int | None = None
    """Batch axis of the inputs; None: found, else 0."""
    dims: Mapping[str, int] = MappingProxyType({})
    """Sizes of named free dimensions of a graph (`height` → 224)."""
    training_batch_size: int | None = None
    """Samples per device when the model is trained (BN405)."""
    budget: float | None = None
    """Seconds after which no further forward begins; None: no limit."""
    seed: int = 0
    device: str = "cpu"
    custom_ops: tuple[str, ...] = ()
    """Shared libraries of custom ONNX operators; loading one executes it."""

    @property
    def is_plain(self) -> bool:
        """Whether it is nothing but texts and numbers, which another process can be given: no live model, no data."""
        named = isinstance(self.model, (str, type(None))) and isinstance(self.inputs, (str, PurePath, type(None)))
        return named and _is_plain(self.model_args)


def _is_plain(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return isinstance(value, (str, int, float, type(None)))
