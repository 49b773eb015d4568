"""Epsilon, tracking, kind or shape of a norm layer is not the baseline's.

## What it finds

Pairs of layers that differ in what is configured, not learnt: epsilon, whether statistics are tracked, the kind of
norm, the number of channels, whether there is an affine part, a mode that the graph fixes. Notes: momentum, the mode
that was saved (one in training mode, the other in eval mode; `eval()` mends it), and another class of batch norm
(SyncBatchNorm against BatchNorm2d).

What one of the two does not say never differs: a state dict holds neither epsilon nor momentum nor modes.

## Why it matters

These settings are in the code and not in the state dict, and every framework has its own defaults: epsilon 1e-5 in
PyTorch, 1e-3 in Keras. A converted or rebuilt model loads every tensor without complaint and computes something else.

## Worked arithmetic

The gain 1 / √(variance + epsilon) of two channels, with epsilon 1e-5 and 1e-3:

    variance 1        1.000 and 1.000      0.05 % apart
    variance 0.001    31.5  and 22.4      29 %

In the message, the largest change among the layer's channels, relative to its largest gain.

## How to fix

Set what differs where the model is built, and check it after loading:

    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.eps = 1e-3

## Limits

- A float32 1e-5 (9.9999997e-06) in a graph is 1e-5. Momentum in a graph or program has no effect and is not compared.
- A state dict that lacks the buffers that the baseline has counts as one that does not track.
- A fresh head for other classes has another shape on purpose: `--intended 'BN604=head.*'`.
- An affine part that one side ignores is BN608 where the values are known.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.comparison import Move, Pair
from bnaudit.description import Cumulative, NormLayer
from bnaudit.matching.configuration import holds_statistics
from bnaudit.matching.signatures import family
from bnaudit.matching.wording import percent
from bnaudit.results import Hit, Severity
from bnaudit.rules import Case, rule

_WORDS = {
    "kind": "kind",
    "eps": "epsilon",
    "tracks_statistics": "tracking of statistics",
    "affine": "affine",
    "momentum": "momentum",
    "channels": "channels",
}


@rule(id="BN604", severity=Severity.ERROR, needs=("baseline",))
def configuration_changed(case: Case) -> Iterator[Hit]:
    """One hit per layer that differs in anything."""
    if case.comparison is None:
        return
    for pair, move in zip(case.comparison.matching.pairs, case.comparison.moves, strict=True):
        fields = [name for name in move.configuration if name != "affine" or move.affine_equal is None]
        said = [_difference(name, pair, move) for name in fields]
        if move.modes is not None:
            held = "fixed" if pair.subject.graph_training is not None else "saved"
            said.append(f"{held} in {move.modes[1]} mode, the baseline in {move.modes[0]} mode")
        if said:
            matters = any(_matters(name, pair) for name in fields) or _fixed_apart(pair, move)
            yield Hit(
                message="; ".join(said),
                advice=_advice(fields, matters, pair, move),
                layer=move.layer,
                part=case.comparison.subject_part.name,
                value=_value(fields, pair.subject),
                limit=_value(fields, pair.baseline),
                channels=move.channels if "eps" in fields else (),
                severity=None if matters else Severity.NOTE,
            )


def _fixed_apart(pair: Pair, move: Move) -> bool:
    """Whether the modes differ and the graph of one fixes training mode, whatever eval() says."""
    return move.modes is not None and True in (pair.subject.graph_training, pair.baseline.graph_training)


def _advice(fields: list[str], matters: bool, pair: Pair, move: Move) -> str:
    if _fixed_apart(pair, move):
        return "export again after model.eval(): the graph normalizes with the batch, whatever eval() says"
    if not matters:
        return "nothing to do for predictions in eval mode: call model.eval() after loading"
    if "tracks_statistics" in fields and holds_statistics(pair.subject) is False:
        return "save the whole state_dict, running statistics too; a norm without them on purpose: --intended BN604"
    return "set what the baseline has where the model is built; a new head of another shape: --intended BN604"


def _matters(name: str, pair: Pair) -> bool:
    """Whether predictions in eval mode depend on it."""
    return name != "momentum" and (name != "kind" or family(pair.subject.kind) != family(pair.baseline.kind))


def _difference(name: str, pair: Pair, move: Move) -> str:
    if name == "tracks_statistics" and holds_statistics(pair.subject) != holds_statistics(pair.baseline):
        return f"mean and variance are in {'the baseline' if holds_statistics(pair.baseline) else 'this model'} alone"
    own, other = _written(name, pair.subject), _written(name, pair.baseline)
    said = f"{_WORDS[name]} {own}, in the baseline {other}"
    if name == "eps" and move.gain_change and move.affine_equal and move.statistics_equal:
        said += f" (gain changes by up to {percent(move.gain_change)})"
    return said


def _written(name: str, layer: NormLayer) -> str:
    value = getattr(layer, name)
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value.value) if name == "kind" or isinstance(value, Cumulative) else str(value)


def _value(fields: list[str], layer: NormLayer) -> float | int | None:
    """The number of a field that has one, for reports that sort by it."""
    named = next((name for name in ("eps", "channels") if name in fields), None)
    return None if named is None else getattr(layer, named)
