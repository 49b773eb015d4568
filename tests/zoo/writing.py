"""Writes a net as TorchScript, .pt2 and ONNX, each in the first of several ways that torch manages."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

Write = Callable[[nn.Module, tuple[Any, ...], Path], object]


class NotWrittenError(Exception):
    """Torch can not write this net in any way that was tried; says what it raised, in one line."""


def _script(net: nn.Module, _: tuple[Any, ...], path: Path) -> None:
    torch.jit.script(net).save(str(path))


def _trace(net: nn.Module, example: tuple[Any, ...], path: Path) -> None:
    torch.jit.trace(net, example, check_trace=False).save(str(path))


def _export(net: nn.Module, example: tuple[Any, ...], path: Path, free: bool) -> None:
    shapes = tuple({0: torch.export.Dim("batch", min=2)} for _ in example) if free else None
    torch.export.save(torch.export.export(net, example, dynamic_shapes=shapes), path)


def _onnx_by_trace(net: nn.Module, example: tuple[Any, ...], path: Path) -> None:
    """Norms are kept as they are: neither folded into convolutions nor switched to eval by the exporter."""
    names = [f"x{position}" for position, _ in enumerate(example)]
    torch.onnx.export(
        net,
        example,
        str(path),
        dynamo=False,
        input_names=names,
        dynamic_axes={name: {0: "N"} for name in names},
        training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=False,
    )


def _onnx_by_export(net: nn.Module, example: tuple[Any, ...], path: Path) -> None:
    shapes = tuple({0: torch.export.Dim.DYNAMIC} for _ in example)
    torch.onnx.export(
        net, example, str(path), dynamo=True, dynamic_shapes=shapes, verbose=False, external_data=False, optimize=False
    )


WAYS: dict[str, tuple[str, dict[str, Write]]] = {
    "torchscript": ("ts", {"scripted": _script, "traced": _trace}),
    "pt2": (
        "pt2",
        {
            "exported, free batch": lambda net, x, path: _export(net, x, path, True),
            "exported, fixed batch": lambda net, x, path: _export(net, x, path, False),
        },
    ),
    "onnx": ("onnx", {"by tracing": _onnx_by_trace, "by torch.export": _onnx_by_export}),
}
"""Carrier → suffix, and ways to write it by name."""


def write(carrier: str, net: nn.Module, example: tuple[Any, ...], folder: Path, ways: list[str]) -> tuple[Path, str]:
    """The file, and the way it was written: the first of `ways` that works. Raises NotWrittenError."""
    suffix, known = WAYS[carrier]
    path = folder / f"net.{suffix}"
    why = ""
    for way in ways:
        try:
            with _quiet():
                known[way](net, example, path)
            return path, way
        except Exception as error:  # whatever a tracer or exporter raises on code that it does not take
            why = why or f"{way}: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
            path.unlink(missing_ok=True)
    raise NotWrittenError(why)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
        yield
