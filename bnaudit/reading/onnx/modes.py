"""Dropout in a graph: whether it still drops, by opset (onnx/docs/Changelog.md).

Opsets 1 to 6 drop while `is_test` is 0, its default; 7 to 11 never do; from 12 on the third input decides. LSTM, GRU
and RNN have no modes in ONNX.
"""

from __future__ import annotations

from bnaudit.description import ModeDependent
from bnaudit.reading.onnx.analysis import Analysis, decimal
from bnaudit.reading.onnx.scope import Site

DROPOUTS = {  # operator: where the ratio and the training flag stand
    "Dropout": (1, 2),
    "com.microsoft.BitmaskDropout": (1, 2),
    "com.microsoft.BiasDropout": (3, 4),
    "com.microsoft.BitmaskBiasDropout": (3, 4),
}


def dropout(site: Site, analysis: Analysis) -> ModeDependent:
    """The dropout; its flag is None when only a run decides it."""
    ratio, flag = DROPOUTS[site.operator]
    if site.operator == "Dropout" and site.opset < 12:
        probability: float | None = site.real("ratio", 0.5)
        training: bool | None = site.opset < 7 and site.integer("is_test", 0) == 0
    else:
        probability = _number(site, ratio, 0.5, analysis)
        number = _number(site, flag, 0.0, analysis)
        training = None if number is None else bool(number)
    return ModeDependent(
        name=analysis.names.name(site),
        kind="dropout",
        class_name=site.operator,
        probability=None if probability is None else decimal(probability),
        graph_training=training,
    )


def _number(site: Site, index: int, default: float, analysis: Analysis) -> float | None:
    """A scalar input: its default when it is left out, None when it is no constant."""
    value = site.input(index)
    return default if value is None else analysis.constants.scalar(value)
