"""State dicts for tests of formats: generated ones, and what a format must say of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from hypothesis import strategies as st

from bnaudit.caps import Caps
from bnaudit.description import Description, Part
from bnaudit.formats import Candidate, identify
from bnaudit.reading.byte_source import ByteSource

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_SEGMENT = st.text("abcxyz_019", min_size=1, max_size=6)


def describe(path: Path, caps: Caps | None = None) -> Description:
    """What the format that claims the file says of it."""
    with ByteSource.open(path, caps) as source:
        candidate = Candidate(path, source)
        return identify(candidate).read(candidate)


def batch_norm(
    name: str, channels: int, dtype: torch.dtype, seed: int, counter: bool = True
) -> dict[str, torch.Tensor]:
    """The tensors of a batch norm with random values."""
    random = torch.Generator().manual_seed(seed)
    values = torch.randn(4, channels, generator=random, dtype=torch.float64)
    leaves = ("weight", "bias", "running_mean", "running_var")
    tensors = {f"{name}.{leaf}": values[i].to(dtype) for i, leaf in enumerate(leaves)}
    tensors[f"{name}.running_var"] = values[3].abs().add(0.1).to(dtype)
    if counter:
        tensors[f"{name}.num_batches_tracked"] = torch.tensor(seed)
    return tensors


@st.composite
def state_dicts(draw: st.DrawFn) -> dict[str, torch.Tensor]:
    """Batch norms with any names, dtypes and sizes, between convolutions."""
    names = draw(st.lists(st.lists(_SEGMENT, min_size=1, max_size=3).map(".".join), unique=True, max_size=6))
    tensors: dict[str, torch.Tensor] = {}
    for position, name in enumerate(names):
        tensors[f"conv{position}.weight"] = torch.full((2, 3, 1, 1), float(position))
        channels, dtype = draw(st.integers(1, 5)), draw(st.sampled_from(FLOATS))
        tensors |= batch_norm(name, channels, dtype, draw(st.integers(0, 10**6)), draw(st.booleans()))
    return tensors


def assert_norms_equal(part: Part, tensors: Mapping[str, torch.Tensor]) -> None:
    """Every tensor beside a running mean is reported with its name, dtype, shape and exact values, and no other is."""
    layers = {name.removesuffix(".running_mean") for name in tensors if name.endswith(".running_mean")}
    expected = {name: t for name, t in tensors.items() if name.rpartition(".")[0] in layers}
    reported = {stored.name: stored for layer in part.layers for stored in layer.tensors}
    assert {layer.name for layer in part.layers} == layers
    assert set(reported) == set(expected)
    for name, tensor in expected.items():
        stored = reported[name]
        assert (stored.dtype, stored.shape) == (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
        wide = torch.float64 if tensor.is_floating_point() else torch.int64
        np.testing.assert_array_equal(stored.values, tensor.to(wide).numpy())
    assert part.tensors == len(tensors)
