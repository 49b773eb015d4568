"""Writes a network into every container that can hold it, with the tools that people use."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

Write = Callable[[nn.Module, torch.Tensor, Path], object]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Exporters tell a lot, some of it about themselves."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def _program(net: nn.Module, example: torch.Tensor) -> torch.export.ExportedProgram:
    return torch.export.export(net, (example,), dynamic_shapes=({0: torch.export.Dim("batch", min=2)},))


def _onnx(net: nn.Module, example: torch.Tensor, path: Path, free: bool = True, **settings: Any) -> None:
    axes = {"input_names": ["x"], "dynamic_axes": {"x": {0: "N"}}} if free else {}
    torch.onnx.export(net, (example,), str(path), dynamo=False, **axes, **settings)


def _dynamo(net: nn.Module, example: torch.Tensor, path: Path, **settings: Any) -> None:
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    torch.onnx.export(net, (example,), str(path), dynamo=True, dynamic_shapes=shapes, verbose=False, **settings)


CARRIERS: dict[str, tuple[str, Write]] = {
    "state dict": ("pt", lambda net, _, path: torch.save(net.state_dict(), path)),
    "legacy state dict": (
        "pth",
        lambda net, _, path: torch.save(net.state_dict(), path, _use_new_zipfile_serialization=False),
    ),
    "safetensors": ("safetensors", lambda net, _, path: save_file(net.state_dict(), path)),
    "pickled module": ("pt", lambda net, _, path: torch.save(net, path)),
    "scripted": ("ts", lambda net, _, path: torch.jit.script(net).save(str(path))),
    "traced": ("ts", lambda net, x, path: torch.jit.trace(net, x, check_trace=False).save(str(path))),
    "frozen script": ("ts", lambda net, _, path: torch.jit.freeze(torch.jit.script(net)).save(str(path))),
    "exported": ("pt2", lambda net, x, path: torch.export.save(_program(net, x), path)),
    "exported, decomposed": (
        "pt2",
        lambda net, x, path: torch.export.save(_program(net, x).run_decompositions(), path),
    ),
    "ONNX": ("onnx", _onnx),
    "ONNX, not folded": (
        "onnx",
        lambda net, x, path: _onnx(net, x, path, do_constant_folding=False, keep_initializers_as_inputs=True),
    ),
    "ONNX, fixed batch": (
        "onnx",
        lambda net, x, path: _onnx(net, x, path, free=False, do_constant_folding=False),
    ),
    "ONNX by dynamo": ("onnx", _dynamo),
    "ONNX by dynamo, not optimized": ("onnx", lambda net, x, path: _dynamo(net, x, path, optimize=False)),
}
"""Name -> (suffix, how to write the file)."""

WITHOUT_CODE = ("state dict", "legacy state dict", "safetensors")
UNTOUCHED = ("exported", "exported, decomposed", "ONNX, not folded", "ONNX by dynamo, not optimized")
"""Graphs in which every norm of the model is still to be seen."""
COUNTING = (*WITHOUT_CODE, "pickled module", "scripted", "traced", "exported", "exported, decomposed")
"""Carriers that keep the counters of batches."""


def write(carrier: str, net: nn.Module, folder: Path, shape: tuple[int, ...] = (4, 3, 8, 8)) -> Path:
    """The net, switched to eval mode, in a file of its own."""
    suffix, make = CARRIERS[carrier]
    path = folder / f"net.{suffix}"
    with _quiet():
        make(net.eval(), torch.randn(shape, generator=torch.Generator().manual_seed(0)), path)
    return path
