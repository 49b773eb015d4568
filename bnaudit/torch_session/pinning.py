"""The anchors' rows of what an operator returned, taken in one forward and written over those of another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from bnaudit.session import Pinned
from bnaudit.torch_session.fingerprints import Fingerprints, as_plain
from bnaudit.torch_session.layouts import WHOLE, Layout

_Rows = tuple[torch.Tensor, int, torch.Tensor]
"""A view, the dimension of the samples, the anchors' places."""


def pinned(
    pin: Pinned, outputs: Iterable[tuple[torch.Tensor, Layout | None]], prints: Fingerprints
) -> Iterator[Pinned]:
    """Take the rows, or write those that are given; nothing where a tensor with rows cannot be written."""
    places = []
    for tensor, layout in outputs:
        if layout is not None and prints.held(layout):
            if (place := _place(tensor, layout, prints)) is None:
                return
            places.append(place)
    if not places:
        return
    if not pin.rows:
        yield Pinned(index=pin.index, rows=tuple(map(_taken, places)))
    elif len(pin.rows) == len(places) and all(map(_fits, places, pin.rows)):
        for place, rows in zip(places, pin.rows, strict=True):
            _write(place, rows)
        yield pin


def _place(tensor: torch.Tensor, layout: Layout, prints: Fingerprints) -> _Rows | None:
    plain = as_plain(tensor)
    if plain is None or plain.data_ptr() != tensor.data_ptr() or torch._debug_has_internal_overlap(plain):
        return None
    if layout.dim == WHOLE:
        return plain.unsqueeze(0), 0, torch.zeros(1, dtype=torch.int64, device=plain.device)
    return prints.places(plain, layout, prints.held(layout))


def _taken(place: _Rows) -> NDArray[np.generic]:
    """Their bits: NumPy has no bfloat16."""
    tensor, dim, index = place
    rows = tensor.index_select(dim, index).contiguous().reshape(-1)
    bits: NDArray[np.generic] = rows.view(torch.uint8).cpu().numpy()
    return bits


def _fits(place: _Rows, rows: NDArray[np.generic]) -> bool:
    tensor, dim, index = place
    return bool(tensor.shape[dim]) and rows.size == tensor.nbytes // tensor.shape[dim] * len(index)


def _write(place: _Rows, rows: NDArray[np.generic]) -> None:
    tensor, dim, index = place
    values = torch.from_numpy(rows).to(tensor.device).view(tensor.dtype)
    tensor.index_copy_(dim, index, values.reshape(*tensor.shape[:dim], len(index), *tensor.shape[dim + 1 :]))
