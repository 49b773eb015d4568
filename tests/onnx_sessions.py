"""Opens sessions of small ONNX models, and makes batches for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx_builders import describe_file

from bnaudit.run_options import RunOptions
from bnaudit.runners import Subject
from bnaudit.runners.onnxruntime import RUNNER
from bnaudit.session import Batch, Session


def subject(path: Path, **options: Any) -> Subject:
    """The file, described, with run options."""
    return Subject(path, describe_file(path), RunOptions(**options))


@contextmanager
def opened(model: onnx.ModelProto | Path, folder: Path, **options: Any) -> Iterator[Session]:
    """A session of a model, which is saved in `folder`, or of a file."""
    path = folder / "model.onnx" if isinstance(model, onnx.ModelProto) else model
    if isinstance(model, onnx.ModelProto):
        path.write_bytes(model.SerializeToString())
    with RUNNER.open(subject(path, **options)) as session:
        yield session


def batch(*args: Any, anchors: tuple[int, ...] = (0,), axis: int = 0, **kwargs: Any) -> Batch:
    """A batch of these inputs; its size is that of the first one."""
    first = np.asarray(next(iter([*args, *kwargs.values()])))
    return Batch(args=args, kwargs=kwargs, size=first.shape[axis], anchors=anchors, axis=axis)


def normal(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    """Seeded float32 noise."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def values(trace: Any) -> NDArray[Any]:
    """The only output of a trace."""
    (output,) = trace.outputs
    return output.values  # type: ignore[no-any-return]


def exported(module: torch.nn.Module, example: torch.Tensor, path: Path, **settings: Any) -> Path:
    """The module exported by PyTorch's TorchScript exporter with norms kept and a free batch axis."""
    torch.onnx.export(
        module,
        (example,),
        str(path),
        dynamo=False,
        input_names=["x"],
        dynamic_axes={"x": {0: "batch"}},
        do_constant_folding=False,
        **{"training": torch.onnx.TrainingMode.PRESERVE, **settings},
    )
    return path
