"""Convolutions and linear layers among named tensors: a state dict has names, order and shapes, and no topology."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from bnaudit.comparison import LinearLayer
from bnaudit.description import Part
from bnaudit.reading.checkpoints.state_dict import Entries
from bnaudit.reading.tensors.tensor_refs import TensorRef
from bnaudit.records import replace

_WEIGHT = re.compile(r"(?P<stem>.*[./_])?(?P<leaf>weights?|kernel|w|W)(?P<end>:0)?")
_BIASES = {"weight": "bias", "weights": "biases", "kernel": "bias", "w": "b", "W": "b"}
"""How the bias beside a weight is called: PyTorch; TensorFlow; Keras and Flax; Caffe2 and Haiku."""
_FEWEST_AXES, _MOST_AXES = 2, 5


def linear_tensors(entries: Entries, part: Part) -> list[LinearLayer]:
    """The layers in the order of the entries, which are the tensors of `part`. Nothing is read."""
    by_name = dict(entries)
    norm_of = {tensor.name: layer.name for layer in part.layers for tensor in layer.tensors}
    marks: list[LinearLayer | str] = []
    for name, ref in entries:
        if name in norm_of:
            marks.append(norm_of[name])
        else:
            layer = _layer(name, ref, by_name)
            if layer is not None:
                marks.append(layer)
    return list(placed(marks))


def placed(marks: Sequence[LinearLayer | str]) -> Iterator[LinearLayer]:
    """The layers of an order in which norm layers stand as names, each told the norms next to it."""
    following: list[str | None] = [None] * len(marks)
    after: str | None = None
    for index in range(len(marks) - 1, -1, -1):
        following[index] = after
        mark = marks[index]
        after = mark if isinstance(mark, str) else None
    before: str | None = None
    for mark, after in zip(marks, following, strict=True):
        if isinstance(mark, str):
            before = mark
        else:
            yield replace(mark, previous_norm=before, next_norm=after)
            before = None


def _layer(name: str, ref: TensorRef, by_name: Mapping[str, TensorRef]) -> LinearLayer | None:
    found = _WEIGHT.fullmatch(name)
    if found is None or "float" not in ref.dtype or not _FEWEST_AXES <= len(ref.shape) <= _MOST_AXES:
        return None
    stem, end = found["stem"] or "", found["end"] or ""
    bias = by_name.get(f"{stem}{_BIASES[found['leaf']]}{end}")
    return LinearLayer(
        name=stem.rstrip("./_"),
        operator="linear" if len(ref.shape) == _FEWEST_AXES else None,
        weight=ref,
        bias=bias if bias is not None and len(bias.shape) == 1 else None,
        output_last=found["leaf"] == "kernel",  # Keras and Flax put the output last, in every kind of layer
    )
