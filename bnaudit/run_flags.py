"""The options of running a model, for every command that audits: `@runs_models` adds them to the command's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from bnaudit.merged_options import with_options_of
from bnaudit.option_texts import RunTexts

RUNNING = "Running the model"
REPORTED = "What is reported"


def _option(*names: str, help: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=RUNNING, show_default=False)


FLAGS: dict[str, Any] = {
    "inputs": _option(help="Real inputs: .npy, .npz, .pt, .safetensors, or a callable that yields batches."),
    "model": _option(help="The model's code: file.py:callable or package.module:callable. A checkpoint is loaded."),
    "model_args": _option(help="Keyword arguments of that callable, as a JSON object."),
    "part": _option(help="The part of the checkpoint to load; otherwise the one that fits best."),
    "as_is": _option("--as-is", help="Judge the callable's model in the modes it comes in, not after eval()."),
    "run": _option("--run", help="Run TorchScript and .pt2 files. They are programs and can reach your files."),
    "trust_pickle": _option("--trust-pickle", help="Unpickle whole modules. That executes whatever the file says."),
    "custom_ops": _option(help="Library of custom ONNX operators, which is executed. Repeatable."),
    "static": _option("--static", help="Run nothing, not even an ONNX graph."),
    "batch_size": _option(help="Samples of one forward; otherwise 16 with inputs, 8 without."),
    "anchors": _option(help="Rows whose outputs are compared while others change; otherwise 4."),
    "batch_axis": _option(help="Axis of the inputs that counts samples; otherwise it is found."),
    "dim": _option(help="Size of a free dimension of a graph, e.g. height=224. Repeatable."),
    "training_batch_size": _option(help="Samples per device in training, for BN405."),
    "budget": _option(help="Begin no forward after this time: 60s, 2m, 500ms."),
    "seed": _option(help="Seed of all that is drawn; otherwise 0."),
    "device": _option(help="Where PyTorch runs: cpu, cuda, cuda:1, mps."),
}


def runs_models(command: Callable[..., int]) -> Callable[..., int]:
    """The command, which takes a RunTexts as `texts`, with an option for each of its fields instead."""
    return with_options_of(command, "texts", RunTexts, FLAGS)
