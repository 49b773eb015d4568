"""What the run says of a batch of one: whether the model refuses it for want of values to normalize with."""

from __future__ import annotations

from bnaudit.measurement import BatchSize, Measured

_TOO_FEW_VALUES = ("more than 1 value per channel", "more than 1 spatial element")
"""PyTorch's words: `Expected more than 1 value per channel when training, got input size …`; of instance norm,
`Expected more than 1 spatial element when training, …`."""


def lacks_values(found: BatchSize) -> bool:
    """Whether a norm raised because one sample is one value per channel: it normalizes with the batch."""
    return any(words in found.raised for words in _TOO_FEW_VALUES)


def refusal(measured: Measured) -> str:
    """To end the message about a norm that uses the batch; "" where a batch of one runs."""
    refuses = any(map(lacks_values, measured.of(BatchSize)))
    return "; the model raises an error for a batch of one" if refuses else ""
