"""Exports small modules with torch.export and rewrites the archives into the layouts of older versions."""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bnaudit.caps import Caps
from bnaudit.description import Description
from bnaudit.formats import Candidate
from bnaudit.formats.exported_program import FORMAT
from bnaudit.reading.byte_source import ByteSource


def export(
    module: nn.Module,
    example: torch.Tensor,
    *,
    training: bool = False,
    decomposed: bool = False,
    dynamic: bool = True,
) -> torch.export.ExportedProgram:
    """The module as an exported program; `dynamic` frees the batch axis, `decomposed` lowers it to core operators."""
    module.train(training)
    shapes = ({0: torch.export.Dim("batch")},) if dynamic else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(module, (example,), dynamic_shapes=shapes)
        return program.run_decompositions() if decomposed else program


def saved(program: torch.export.ExportedProgram, path: Path) -> Path:
    """The program in a file, as torch writes it."""
    torch.export.save(program, path)
    return path


def described(path: Path, caps: Caps | None = None) -> Description:
    """What the format says, given that it claims the file."""
    with ByteSource.open(path, caps) as source:
        candidate = Candidate(path, source)
        assert FORMAT.claims(candidate)
        return FORMAT.read(candidate)


def randomized(module: nn.Module, seed: int = 0) -> nn.Module:
    """The module with every parameter and buffer drawn anew, variances positive, counters whole."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        with torch.no_grad():
            if not tensor.is_floating_point():
                tensor.fill_(int(torch.randint(1, 1000, (), generator=generator)))
            elif "var" in name:
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.1)
            else:
                tensor.copy_(torch.randn(tensor.shape, generator=generator))
    return module


def rewritten(path: Path, target: Path, change: Callable[[dict[str, bytes]], dict[str, bytes]]) -> Path:
    """The archive with its members changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in change(members).items():
            archive.writestr(name, content)
    return target


def with_program(path: Path, target: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The archive with its program's JSON changed in place."""

    def edit(members: dict[str, bytes]) -> dict[str, bytes]:
        name = next(name for name in members if "/models/" in name)
        program = json.loads(members[name])
        change(program)
        return members | {name: json.dumps(program).encode()}

    return rewritten(path, target, edit)


def torch_saved(value: object) -> bytes:
    """The bytes that torch.save writes."""
    import io

    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def as_torch_2_7(program: torch.export.ExportedProgram, path: Path, target: Path, suffix: str = ".pt") -> Path:
    """The flat layout of torch 2.1 to 2.7 (torch.export.load of 2.13 still reads it)."""

    def flatten(members: dict[str, bytes]) -> dict[str, bytes]:
        graph = next(content for name, content in members.items() if "/models/" in name)
        inputs = next(content for name, content in members.items() if "/sample_inputs/" in name)
        version = json.loads(graph)["schema_version"]
        return {
            "serialized_exported_program.json": graph,
            f"serialized_state_dict{suffix}": torch_saved(program.state_dict),
            f"serialized_constants{suffix}": torch_saved(program.constants),
            "serialized_example_inputs.pt": inputs,
            "version": f"{version['major']}.{version['minor']}".encode(),
        }

    return rewritten(path, target, flatten)


def as_torch_2_8(program: torch.export.ExportedProgram, path: Path, target: Path) -> Path:
    """The first folder layout: the weights in one torch.save archive (torch.export.load of 2.13 still reads it)."""

    def gather(members: dict[str, bytes]) -> dict[str, bytes]:
        root = next(iter(members)).split("/")[0]
        kept = {
            name: content
            for name, content in members.items()
            if "/data/weights/" not in name and "/data/constants/" not in name
        }
        return {
            f"{root}/data/weights/model.pt": torch_saved(program.state_dict),
            f"{root}/data/constants/model.pt": torch_saved(program.constants),
        } | kept

    return rewritten(path, target, gather)
