"""The carriers of the matrix: every container that a model is handed on in, written with the tools that people use."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import onnx
import torch
from fault_matrix.values import Carrier, Facet, Planting
from run_time.run_carriers import quiet, write
from safetensors.torch import save_file
from torch import nn

_VALUES = (Facet.STATISTICS, Facet.NAMES)
_STATE = (*_VALUES, Facet.STATE, Facet.COUNTERS)
_RUNS = (*_VALUES, Facet.FORWARD, Facet.RUNS)
_GRAPH = (*_RUNS, Facet.EPSILON, Facet.FIXED)


def _state(planting: Planting) -> dict[str, Any]:
    state = planting.net.state_dict()
    for edit in planting.state_edits:
        edit(state)
    return state


def _state_dict(planting: Planting, folder: Path) -> Path:
    path = folder / "net.pt"
    torch.save(_state(planting), path)
    return path


def _nested(planting: Planting, folder: Path) -> Path:
    path = folder / "checkpoint.pth"
    torch.save({"epoch": 7, "model": _state(planting), **planting.beside}, path)
    return path


def _legacy(planting: Planting, folder: Path) -> Path:
    path = folder / "net.pth"
    torch.save(_state(planting), path, _use_new_zipfile_serialization=False)
    return path


def _safetensors(planting: Planting, folder: Path) -> Path:
    path = folder / "net.safetensors"
    save_file({name: value.contiguous().clone() for name, value in _state(planting).items()}, path)
    return path


def _live(planting: Planting, folder: Path) -> nn.Module:
    return _moded(planting)


def _moded(planting: Planting) -> nn.Module:
    return planting.net.train() if planting.in_training_mode else planting.net


def _by(carrier: str) -> Callable[[Planting, Path], Path]:
    def written(planting: Planting, folder: Path) -> Path:
        return write(carrier, _moded(planting), tuple(value[:8].clone() for value in planting.inputs), folder)

    return written


def _graph(carrier: str) -> Callable[[Planting, Path], Path]:
    def written(planting: Planting, folder: Path) -> Path:
        if carrier == "onnx" and _keeps_modes(planting):
            return _edited(_older(planting, folder, folds=False), planting)
        return _edited(_by(carrier)(planting, folder), planting)

    return written


def _folded(planting: Planting, folder: Path) -> Path:
    """As the older exporter writes it unless it is told otherwise."""
    return _edited(_older(planting, folder, folds=True), planting)


def _older(planting: Planting, folder: Path, *, folds: bool) -> Path:
    path = folder / "net.onnx"
    inputs = tuple(value[:8].clone() for value in planting.inputs)
    names = [f"input{number}" for number in range(len(inputs))]
    modes = torch.onnx.TrainingMode.PRESERVE if _keeps_modes(planting) else torch.onnx.TrainingMode.EVAL
    with quiet():
        torch.onnx.export(
            copy.deepcopy(_moded(planting)),
            inputs,
            str(path),
            dynamo=False,
            do_constant_folding=folds,
            training=modes,
            input_names=names,
            dynamic_axes={name: {0: "batch"} for name in names},
        )
    return path


def _keeps_modes(planting: Planting) -> bool:
    return planting.in_training_mode or planting.keeps_modes


def _edited(path: Path, planting: Planting) -> Path:
    if planting.graph_edits:
        graph = onnx.load(path)
        for edit in planting.graph_edits:
            edit(graph)
        onnx.save(graph, path)
    return path


_MODULE = (*_RUNS, Facet.COUNTERS, Facet.EPSILON, Facet.MOMENTUM, Facet.FLAGS)
_LIVE = (*_MODULE, Facet.CLASSES, Facet.OBSERVED)
_PROGRAM = (*_GRAPH, Facet.COUNTERS, Facet.MOMENTUM, Facet.OBSERVED)


def _carriers() -> Iterator[Carrier]:
    yield Carrier("state dict", frozenset({*_STATE, Facet.VERSIONS}), _state_dict, share=0.12)
    yield Carrier("nested checkpoint", frozenset({*_STATE, Facet.VERSIONS, Facet.BESIDE}), _nested, share=0.12)
    yield Carrier("legacy", frozenset({*_STATE, Facet.VERSIONS}), _legacy, share=0.08)
    yield Carrier("safetensors", frozenset(_STATE), _safetensors, share=0.12)
    yield Carrier("pickled module", frozenset(_LIVE), _by("pickled"), share=0.16)
    yield Carrier("live module", frozenset(_LIVE), _live, share=0.08)
    yield Carrier("scripted", frozenset(_MODULE), _by("scripted"), share=0.08)
    yield Carrier("traced", frozenset({*_MODULE, Facet.FIXED}), _by("traced"), share=0.08)
    yield Carrier("exported", frozenset(_PROGRAM), _by("exported"), share=0.04)
    yield Carrier("ONNX", frozenset({*_GRAPH, Facet.GRAPH}), _graph("onnx"), share=0.08)
    yield Carrier("ONNX by dynamo", frozenset({*_GRAPH, Facet.GRAPH}), _graph("onnx by dynamo"), share=0.02)
    folded = frozenset({Facet.FORWARD, Facet.RUNS, Facet.FIXED, Facet.GRAPH})
    yield Carrier("ONNX, folded", folded, _folded, share=0.04)


CARRIERS = {carrier.name: carrier for carrier in _carriers()}
"""Name → carrier. Only the folding exporter loses the norms themselves, where they follow a convolution."""


def survivors(path: Path, layers: Iterable[str]) -> list[str]:
    """The norm layers whose tensors are still in the graph, asked of onnx itself."""
    graph = onnx.load(path, load_external_data=False).graph
    read = [name for node in graph.node for name in node.input]
    return [layer for layer in layers if any(name.startswith(f"{layer}.") for name in read)]
