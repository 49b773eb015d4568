"""Which mode-dependent layer, other than a norm, the name of a class speaks of."""

from __future__ import annotations

import re

_CLASSES = (
    (re.compile(r"drop_?path|stochastic_?depth|drop_?connect", re.I), "stochastic-depth"),
    (re.compile(r"dropout|drop_?block", re.I), "dropout"),
    (re.compile(r"attention$", re.I), "attention"),
    (re.compile(r"^(LSTM|GRU|RNN)$"), "recurrent"),
    (re.compile(r"^RReLU$"), "rrelu"),
)


def mode_of_class(name: str) -> str | None:
    """The kind (see `ModeDependent.kind`) that a class name without its module speaks of, None: of none."""
    return next((kind for pattern, kind in _CLASSES if pattern.search(name)), None)
