"""Builds descriptions by hand, so that rules are tested on exactly the facts that a test names."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from bnaudit.description import Artifact, Carrier, Description, Evidence, NormKind, NormLayer, Part, StoredTensor
from bnaudit.results import Hit
from bnaudit.rules import Case, load_rule


def tensor(
    name: str, values: Any, dtype: str = "float32", requires_grad: bool | None = None, absence: str = ""
) -> StoredTensor:
    """A stored tensor; float values become float64, integers int64, as formats return them."""
    array = None
    shape: tuple[int, ...] = (1,)
    if not absence:
        array = np.asarray(values, dtype=np.int64 if "int" in dtype else np.float64)
        array.setflags(write=False)
        shape = array.shape
    return StoredTensor(name=name, dtype=dtype, shape=shape, values=array, absence=absence, requires_grad=requires_grad)


def batch_norm(
    name: str = "bn1",
    *,
    mean: Any = (0.3, -0.2, 0.1),
    var: Any = (0.9, 1.4, 2.0),
    gamma: Any = (1.1, 0.9, 1.0),
    beta: Any = (0.1, 0.0, -0.1),
    counter: Any = 1000,
    dtype: str = "float32",
    requires_grad: bool | None = None,
    **fields: Any,
) -> NormLayer:
    """A healthy, trained batch norm with three channels; None leaves a tensor out; `fields` override NormLayer's."""

    def named(attribute: str, values: Any, kind: str = dtype, grad: bool | None = None) -> StoredTensor | None:
        if values is None or isinstance(values, StoredTensor):
            return values
        return tensor(f"{name}.{attribute}", values, kind, grad)

    settings: dict[str, Any] = {"kind": NormKind.BATCH, "evidence": Evidence.STATISTICS}
    settings.update(fields)
    return NormLayer(
        name=name,
        weight=named("weight", gamma, grad=requires_grad),
        bias=named("bias", beta, grad=requires_grad),
        running_mean=named("running_mean", mean),
        running_var=named("running_var", var),
        num_batches_tracked=named("num_batches_tracked", counter, "int64"),
        **settings,
    )


def part(layers: Sequence[NormLayer], name: str = "", carrier: Carrier = Carrier.STATE_DICT, **fields: Any) -> Part:
    """A part that holds the layers."""
    settings: dict[str, Any] = {"floating_dtypes": ("float32",), "tensors": 5 * len(layers)}
    settings.update(fields)
    return Part(name=name, carrier=carrier, layers=tuple(layers), **settings)


def description(*parts: Part, **fields: Any) -> Description:
    """A description of one artifact with these parts."""
    artifact = Artifact(path="model.pt", format="PyTorch zip checkpoint", size=1000, bytes_read=500)
    return Description(artifact=artifact, parts=parts, **fields)


def hits(rule: str, *parts: Part, limits: dict[str, float] | None = None, **fields: Any) -> list[Hit]:
    """What the rule in file `rule` says of a description."""
    found = load_rule(rule)
    merged = MappingProxyType({**found.limits, **(limits or {})})
    return list(found.check(Case(description(*parts, **fields), merged)))
