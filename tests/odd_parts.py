"""Layers and parts that nobody would make, for contracts of whatever takes descriptions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from builders import batch_norm, part

from bnaudit.description import Carrier, Evidence, NormKind, NormLayer, Part
from bnaudit.records import replace


def odd_layers() -> Iterator[NormLayer]:
    """Layers that only a damaged file, a converter or an attacker makes."""
    nan, inf = float("nan"), float("inf")
    yield NormLayer(name="unknown", kind=NormKind.UNKNOWN, evidence=Evidence.AFFINE)
    yield NormLayer(name="", kind=NormKind.BATCH, evidence=Evidence.CLASS)
    yield batch_norm("none", mean=(), var=(), gamma=(), beta=())
    yield batch_norm("single", mean=(0.5,), var=(2.0,), gamma=(1.0,), beta=(0.0,))
    yield batch_norm("scalars", mean=0.5, var=2.0, gamma=1.0, beta=0.0)
    yield batch_norm("undefined", mean=(nan, inf, -inf), var=(nan, inf, -inf), gamma=(nan,) * 3, beta=(inf,) * 3)
    yield batch_norm("integers", mean=(1, 2, 3), var=(0, -1, 2**62), gamma=(1, 1, 1), beta=(0, 0, 0), dtype="int64")
    yield batch_norm("square", mean=np.ones((2, 3)), var=np.ones((2, 3)), gamma=np.ones((3, 3)), beta=np.ones((2, 2)))
    yield batch_norm("broadcast", gamma=np.ones((1, 3, 1, 1)), beta=np.ones((1, 3, 1, 1)))
    yield batch_norm("lengths", mean=(1, 2), var=(1, 2, 3, 4), gamma=(1,), beta=(1, 2, 3, 4, 5))
    yield from (batch_norm(f"counter{count}", counter=count) for count in (2**63 - 1, -(2**63), (1, 2), ()))
    yield replace(batch_norm("settings"), eps=nan, momentum=-inf, metadata_version=-1, declared_channels=-5)
    yield batch_norm("twice")
    yield batch_norm("twice", counter=7)


def odd_parts() -> Iterator[Part]:
    """Each odd layer alone and all together, in each kind of artifact, and parts without a layer."""
    for carrier in Carrier:
        yield part([], carrier=carrier)
        yield Part(name="ema", carrier=carrier)
        yield part(list(odd_layers()), carrier=carrier)
        yield from (part([layer], carrier=carrier) for layer in odd_layers())
