"""The files that the benchmark measures on, made once and kept under .bench/."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path


def state_dict(folder: Path, megabytes: int) -> list[Path]:
    """60 convolutions with batch norms, `megabytes` of float32 in all, as .pt and as .safetensors."""
    paths = [folder / f"conv_{megabytes}mb.pt", folder / f"conv_{megabytes}mb.safetensors"]
    if all(path.exists() for path in paths):
        return paths
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(0)
    channels = 512 if megabytes >= 1000 else 64
    inner = megabytes * 1_000_000 // 4 // 60 // channels
    tensors = {}
    for number in range(60):
        tensors[f"features.{number}.conv.weight"] = torch.rand(channels, inner, 1, 1, generator=generator)
        tensors |= _batch_norm(f"features.{number}.bn", channels, generator)
    torch.save(tensors, paths[0])
    save_file(tensors, paths[1])
    return paths


def many_layers(folder: Path, layers: int) -> list[Path]:
    """A state dict of `layers` batch norms with 8 channels."""
    path = folder / f"layers_{layers}.pt"
    if not path.exists():
        import torch

        generator = torch.Generator().manual_seed(0)
        tensors = {}
        for number in range(layers):
            tensors |= _batch_norm(f"blocks.{number}.bn", 8, generator)
        torch.save(tensors, path)
    return [path]


def _batch_norm(name: str, channels: int, generator: object) -> dict[str, object]:
    import torch

    def draw() -> torch.Tensor:
        return torch.rand(channels, generator=generator)  # type: ignore[arg-type]

    return {
        f"{name}.weight": draw() + 0.5,
        f"{name}.bias": draw() - 0.5,
        f"{name}.running_mean": draw() - 0.5,
        f"{name}.running_var": draw() + 0.5,
        f"{name}.num_batches_tracked": torch.tensor(10_000),
    }


def many_files(folder: Path, files: int) -> list[Path]:
    """A folder of so many state dicts of 25 MB with the batch norms of a ResNet-50: links to eight different ones."""
    import os

    linked = folder / f"files_{files}"
    if linked.exists():
        return [linked]
    originals = [_resnet50_norms(folder, seed) for seed in range(8)]
    linked.mkdir()
    for number in range(files):
        os.link(originals[number % len(originals)], linked / f"epoch_{number:04}.pt")
    return [linked]


def _resnet50_norms(folder: Path, seed: int) -> Path:
    path = folder / f"resnet50_norms_{seed}.pt"
    if path.exists():
        return path
    import torch

    generator = torch.Generator().manual_seed(seed)
    names = ["bn1"]
    widths = [64]
    for stage, blocks in enumerate((3, 4, 6, 3), 1):
        for block in range(blocks):
            for norm, factor in (("bn1", 1), ("bn2", 1), ("bn3", 4), ("downsample.1", 4)):
                if norm != "downsample.1" or block == 0:
                    names.append(f"layer{stage}.{block}.{norm}")
                    widths.append(32 * 2**stage * factor)
    inner = 25_000_000 // 4 // sum(widths)
    tensors = {}
    for name, width in zip(names, widths, strict=True):
        conv = name.replace("bn", "conv").replace("downsample.1", "downsample.0")
        tensors[f"{conv}.weight"] = torch.rand(width, inner, 1, 1, generator=generator)
        tensors |= _batch_norm(name, width, generator)
    torch.save(tensors, path)
    return path


def onnx_graph(folder: Path, megabytes: int) -> list[Path]:
    """60 convolutions with batch norms, weights embedded."""
    path = folder / f"graph_{megabytes}mb.onnx"
    if path.exists():
        return [path]
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    channels = 128
    height = max(int(megabytes * 1e6 / 4 / 60 / channels / channels), 1)
    nodes, weights, last = [], [], "x"
    for number in range(60):
        shape = (channels, channels, height, 1)
        weights.append(numpy_helper.from_array(rng.random(shape, dtype=np.float32), f"c{number}.weight"))
        for name in ("weight", "bias", "running_mean", "running_var"):
            values = rng.random(channels, dtype=np.float32) + 0.5
            weights.append(numpy_helper.from_array(values, f"bn{number}.{name}"))
        nodes.append(helper.make_node("Conv", [last, f"c{number}.weight"], [f"c{number}"], auto_pad="SAME_UPPER"))
        inputs = [f"bn{number}.{name}" for name in ("weight", "bias", "running_mean", "running_var")]
        nodes.append(helper.make_node("BatchNormalization", [f"c{number}", *inputs], [f"y{number}"]))
        last = f"y{number}"
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", channels, 8, 8])
    result = helper.make_tensor_value_info(last, TensorProto.FLOAT, None)
    onnx.save(helper.make_model(helper.make_graph(nodes, "bench", [value], [result], weights)), path)
    return [path]


def empty_app(folder: Path) -> list[Path]:
    """A Typer app with three of bnaudit's commands and their options, which do nothing.

    They are the commands that the benchmark began with: an app that grows with ours would make its limit easier.
    """
    from bnaudit import plugins

    lines = [
        "from __future__ import annotations",
        "from enum import Enum",
        "from typing import Annotated, Optional",
        "import typer",
        "app = typer.Typer(pretty_exceptions_enable=False)",
        "@app.callback()",
        "def options(version: bool = typer.Option(False, '--version')) -> None: pass",
    ]
    for name in ("explain", "inspect", "rules"):
        command = plugins.load("bnaudit.commands", name).command
        parameters = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            option = parameter.annotation.__metadata__[0]
            kind = type(option).__name__.replace("Info", "")
            inner = parameter.annotation.__origin__
            text = "bool" if inner is bool else "Optional[list[str]]" if "list" in str(inner) else "str"
            default = {"bool": "False", "str": "''"}.get(text, "None")
            parameters.append(f"{parameter.name}: Annotated[{text}, typer.{kind}(help='text')] = {default}")
        lines += [f"@app.command('{name}')", f"def {name}_({', '.join(parameters)}) -> None: pass"]
    lines.append("app()")
    path = folder / "empty_app.py"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [path]


if __name__ == "__main__":
    kind, *numbers = sys.argv[2:]
    makers = {
        "state_dict": state_dict,
        "many_layers": many_layers,
        "many_files": many_files,
        "onnx_graph": onnx_graph,
        "empty_app": empty_app,
    }
    for made in makers[kind](Path(sys.argv[1]), *map(int, numbers)):
        sys.stdout.write(f"{made}\n")
