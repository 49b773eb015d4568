"""The options of running a model, for every command that audits: `@runs_models` adds them to the command's own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from inspect import Parameter, signature
from typing import Annotated, Any, get_type_hints

import typer

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
    hints = get_type_hints(RunTexts)
    flags = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=RunTexts._field_defaults[name],
            annotation=Annotated[hints[name], option],
        )
        for name, option in FLAGS.items()
    ]
    own = signature(command, eval_str=True)
    kept = [parameter for name, parameter in own.parameters.items() if name != "texts"]

    @functools.wraps(command)
    def run(**options: Any) -> int:
        texts = RunTexts(**{name: options.pop(name) for name in FLAGS})
        return command(texts=texts, **options)

    merged = own.replace(parameters=[parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in kept] + flags)
    run.__signature__ = merged  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in merged.parameters.items()}
    return run
