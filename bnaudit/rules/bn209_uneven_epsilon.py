"""Norm layers of one kind disagree on epsilon.

## What it finds

A model in which norm layers of the same kind (batch norms among themselves, LayerNorms among themselves, …) have
different values of epsilon. One note per layer that differs from the most frequent value; a warning when some of
them have epsilon 0 and others do not.

## Why it matters

Epsilon is not in a state dict: it lives in code, often in an initialiser that walks over all layers after they were
built and sets 1e-3. A block that was rebuilt or replaced later comes back with the default 1e-5. Wherever the
variance is as small as epsilon, the gain 1/√(variance + ε) then differs from what was trained. With epsilon 0 a dead
channel (variance 0) divides by zero, and PyTorch refuses to train.

## Worked arithmetic

The gain of a channel without affine:

    variance   1e-2     1e-4     1e-6
    ε = 1e-3   9.53     30.2     31.6
    ε = 1e-5   9.995    95.3     302
    ratio      1.05     3.16     9.54

At variance 1 the two differ by 0.05 %; in a channel of variance 1e-4 the wrong epsilon triples the output.

## How to fix

Find out which value the layers were trained with, and set it where it is missing:

    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.eps = 1e-3

Copy `eps` and `momentum` when a block is replaced by a fused, quantized or re-implemented one.

## Limits

- Several published networks mix two values on purpose; the rule only shows it.
- A state dict holds no epsilon, and a layer whose epsilon the file does not say is left out.
- Values are compared to 6 digits: a float32 1e-5 in a graph and a float64 1e-5 in Python are the same.
- One value for all, even 0 (as in older frozen batch norms), is not uneven. Norms whose kind is unknown are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.description import NormKind, NormLayer, Part
from bnaudit.results import Hit, Severity
from bnaudit.rules import Case, rule


@rule(id="BN209", severity=Severity.NOTE)
def uneven_epsilon(case: Case) -> Iterator[Hit]:
    """One hit per layer whose epsilon is not the most frequent one of its kind in the part."""
    for part in case.subject.parts:
        kinds: dict[NormKind, dict[str, list[NormLayer]]] = {}
        for layer in part.layers:
            if layer.eps is not None and layer.kind is not NormKind.UNKNOWN:
                kinds.setdefault(layer.kind, {}).setdefault(f"{layer.eps:.6g}", []).append(layer)
        for groups in kinds.values():
            usual, *others = sorted(groups.values(), key=len, reverse=True)
            for group in others:
                for layer in group:
                    yield _hit(part, layer, float(layer.eps or 0.0), float(usual[0].eps or 0.0))


def _hit(part: Part, layer: NormLayer, own: float, other: float) -> Hit:
    return Hit(
        message=f"epsilon {own:.6g}, where other {layer.kind.value} norms of the model have {other:.6g}",
        advice="set the epsilon that the layers were trained with; copy eps when a block is replaced",
        layer=layer.name,
        part=part.name,
        value=own,
        limit=other,
        severity=Severity.WARNING if own == 0 or other == 0 else Severity.NOTE,
    )
