"""Writes a network into every carrier that can be run, and runs each with its own framework: no word of bnaudit."""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

Inputs = tuple[torch.Tensor, ...]
Call = Callable[..., np.ndarray]
"""Runs the carrier on tensors from the state that it was loaded with, but for what the calls before left behind."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Exporters tell a lot, some of it about themselves."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def _free(inputs: Inputs) -> tuple[dict[int, Any], ...]:
    batch = torch.export.Dim("batch", min=1, max=4096)
    return tuple({0: batch} for _ in inputs)


def _pickled(net: nn.Module, inputs: Inputs, path: Path) -> None:
    torch.save(net, path)


def _scripted(net: nn.Module, inputs: Inputs, path: Path) -> None:
    torch.jit.save(torch.jit.script(net), path)


def _traced(net: nn.Module, inputs: Inputs, path: Path) -> None:
    torch.jit.save(torch.jit.trace(net, inputs, check_trace=False), path)


def _exported(net: nn.Module, inputs: Inputs, path: Path) -> None:
    torch.export.save(torch.export.export(net, inputs, dynamic_shapes=_free(inputs)), path)


def _onnx(net: nn.Module, inputs: Inputs, path: Path) -> None:
    names = [f"input{number}" for number in range(len(inputs))]
    torch.onnx.export(
        net,
        inputs,
        str(path),
        dynamo=False,
        do_constant_folding=False,
        input_names=names,
        dynamic_axes={name: {0: "batch"} for name in names},
    )


def _dynamo(net: nn.Module, inputs: Inputs, path: Path) -> None:
    torch.onnx.export(net, inputs, str(path), dynamo=True, dynamic_shapes=_free(inputs), verbose=False, optimize=False)


_WRITERS: dict[str, tuple[str, Callable[[nn.Module, Inputs, Path], None]]] = {
    "pickled": ("pt", _pickled),
    "scripted": ("ts", _scripted),
    "traced": ("ts", _traced),
    "exported": ("pt2", _exported),
    "onnx": ("onnx", _onnx),
    "onnx by dynamo": ("onnx", _dynamo),
}
CARRIERS = ("live", *_WRITERS)
MODULES = ("live", "pickled")
SCRIPTS = ("scripted", "traced")
GRAPHS = ("exported", "onnx", "onnx by dynamo")


def write(carrier: str, net: nn.Module, inputs: Inputs, folder: Path) -> Path:
    """The net, in the mode that it is in, in a file of its own."""
    suffix, writer = _WRITERS[carrier]
    path = folder / f"net.{suffix}"
    with quiet():
        writer(copy.deepcopy(net), inputs, path)
    return path


def call(carrier: str, given: nn.Module | Path) -> Call:
    """A fresh run of the carrier: production's own way, without gradients."""
    if isinstance(given, nn.Module):
        return _calling(copy.deepcopy(given).eval())
    if carrier == "pickled":
        return _calling(torch.load(given, weights_only=False).eval())
    if carrier in SCRIPTS:
        return _calling(torch.jit.load(given).eval())
    if carrier == "exported":
        return _calling(torch.export.load(given).module())
    return _session(given)


def _calling(net: Callable[..., Any]) -> Call:
    def run(*inputs: torch.Tensor) -> np.ndarray:
        with torch.no_grad():
            return _first(net(*inputs)).float().numpy()

    return run


def _first(output: Any) -> torch.Tensor:
    while not isinstance(output, torch.Tensor):
        output = next(iter(output.values())) if isinstance(output, dict) else output[0]
    return output


def _session(path: Path) -> Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]

    def run(*inputs: torch.Tensor) -> np.ndarray:
        return session.run(None, dict(zip(names, (value.numpy() for value in inputs), strict=True)))[0]

    return run


class Written(Protocol):
    """What is put into carriers: a defect or a control."""

    @property
    def name(self) -> str: ...

    @property
    def build(self) -> Callable[[], nn.Module]: ...

    @property
    def inputs(self) -> Callable[[], Inputs]: ...


@cache
def written(subject: Written, carrier: str, folder: Path) -> Any:
    """The live module, or the file; made once for all tests of it."""
    net = subject.build()
    if carrier == "live":
        return net
    place = folder / f"{subject.name}, {carrier}"
    place.mkdir()
    return write(carrier, net, tuple(value[:8].clone() for value in subject.inputs()), place)
