"""Makes TorchScript archives with torch, and rewrites their members."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bnaudit.caps import Caps
from bnaudit.description import Description, ModeDependent, NormLayer, Part
from bnaudit.formats import Candidate
from bnaudit.formats.torchscript import FORMAT
from bnaudit.reading.byte_source import ByteSource


def saved(module: Any, path: Path) -> Path:
    """A scripted, traced or frozen module on disk."""
    torch.jit.save(module, str(path))
    return path


def traced(net: nn.Module, *inputs: torch.Tensor) -> Any:
    """A trace of the module in the mode it is in."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        return torch.jit.trace(net, inputs, check_trace=False)


def described(path: Path, caps: Caps | None = None) -> Description:
    """What the format says of a file that it claims."""
    with ByteSource.open(path, caps) as source:
        candidate = Candidate(path, source)
        assert FORMAT.claims(candidate)
        return FORMAT.read(candidate)


def part_of(module: Any, folder: Path) -> Part:
    """The part of a module that has been saved; nothing in it may be a gap that hides norms."""
    found = described(saved(module, folder / "net.pt"))
    assert [gap for gap in found.gaps if gap.hides_norms] == []
    (part,) = found.parts
    return part


def layers_of(part: Part) -> dict[str, NormLayer]:
    """Norm layers by name."""
    return {layer.name: layer for layer in part.layers}


def modes_of(part: Part) -> dict[str, ModeDependent]:
    """Other mode-dependent layers by name."""
    return {entry.name: entry for entry in part.mode_dependent}


def rewritten(
    path: Path,
    target: Path,
    changes: Mapping[str, Callable[[bytes], bytes | None]],
    extra: Mapping[str, bytes] | None = None,
) -> Path:
    """A copy of an archive; a change is found by the end of the member's name, and None leaves the member out."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        folder = old.namelist()[0].partition("/")[0]
        for name in old.namelist():
            change = next((found for end, found in changes.items() if name.endswith(end)), None)
            data = old.read(name)
            kept = change(data) if change is not None else data
            if kept is not None:
                new.writestr(name, kept)
        for name, data in (extra or {}).items():
            new.writestr(f"{folder}/{name}", data)
    return target


def randomized(net: nn.Module, seed: int = 0) -> nn.Module:
    """The module with other values in every parameter and buffer of its norms."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in [*net.named_parameters(), *net.named_buffers()]:
        if tensor.is_floating_point():
            shift = 0.5 if name.endswith("running_var") else 0.0
            tensor.data = torch.rand(tensor.shape, generator=generator) + shift
        else:
            tensor.data = torch.randint(1, 1000, tensor.shape, generator=generator)
    return net
