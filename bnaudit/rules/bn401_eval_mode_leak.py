"""After eval() a norm still normalizes with the batch, or a dropout still drops.

## What it finds

The model is run after `eval()` and every operator is looked at, whatever module called it. Reported is

- a normalization that uses the statistics of its input **and mixes samples**: with other companions, the anchors'
  rows went into it equal and came out unequal. Functional calls with `training=True`, norms made in `forward`,
  an overridden `train()`, modules that are not registered;
- a dropout (or RReLU, stochastic depth) that dropped at random, unless its probability is 0.

The finding names the innermost module and the line of the call.

## Why it matters

`model.training` is False and every check of the flag passes, and still the mode does not hold: predictions depend on
the neighbours or on chance, and a batch norm in training mode also replaces its running statistics with each request.

## Example

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(1))
            self.register_buffer("var", torch.ones(1))

        def forward(self, x):
            return torch.nn.functional.batch_norm(x, self.mean, self.var, training=True)

    net = Net().eval()
    net(torch.tensor([[6.0], [8.0]]))[0]       # −1.0, and mean is 0.7 now
    net(torch.tensor([[6.0], [4.0]]))[0]       # +1.0

## How to fix

    F.batch_norm(x, self.mean, self.var, training=self.training)
    F.dropout(x, 0.5, training=self.training)          # its default is training=True

Make norms in `__init__` and register them (an attribute, ModuleList, ModuleDict). An overridden `train` has to take
the mode on to its children and return self:

    def train(self, mode=True):
        return super().train(mode)

## Limits

- InstanceNorm and weight standardization run the same operator and mix no samples: not reported.
- A norm that uses the batch by configuration, whatever the mode, is told by BN301 (without a run: BN204).
- Whether samples were mixed is proved by exchanging companions. Where that was not possible, there is a note, and
  the verdict stays open.
- Modules in a plain list or dict that a pickled module shows in training mode are told by BN207, operators in
  training form in a graph by BN202 or BN203.
- Dropout that is meant (Monte-Carlo dropout) can be marked as intended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bnaudit.description import NormKind
from bnaudit.measurement import EvalDropout, EvalNorm, Measured, StateInEval
from bnaudit.places import by_place, described, drops_by_code, fixed_by_code, layer_at, norm_layer, trains_hidden
from bnaudit.results import Confidence, Hit, Question, Severity
from bnaudit.rules import Case, rule
from bnaudit.run_proofs import neighbours_passed
from bnaudit.session import MADE_IN_FORWARD, Place
from bnaudit.single_samples import refusal

_MADE_IN_FORWARD = "make it in __init__ and register it: eval() does not reach a module that is made in forward()"
_NOT_REGISTERED = "register it (an attribute, ModuleList, ModuleDict): eval() does not reach it where it is held"
_IGNORES_EVAL = "look at what sets its training flag after eval(): an overridden train() has to pass the mode on"
_FUNCTIONAL_NORM = "pass training=self.training to F.batch_norm"
_FUNCTIONAL_DROPOUT = "pass training=self.training to the functional call (the default of F.dropout is True)"
_WITH_A_FLAG = re.compile(
    r"(?:Feature)?(?:Alpha)?Dropout(?:[123]d)?|DropPath|StochasticDepth|DropBlock[23]d|RReLU|MultiheadAttention|LSTM|GRU|RNN"
)
"""Classes of PyTorch, torchvision and timm that hand their own training flag on to what drops."""
_OWN_SAMPLE = (NormKind.INSTANCE, NormKind.GROUP, NormKind.LAYER, NormKind.RMS)


@rule(
    id="BN401",
    severity=Severity.ERROR,
    question=Question.EVAL_MODE,
    needs=("eval_mode",),
    yields_to=("BN202", "BN203"),
)
def eval_mode_leak(case: Case) -> Iterator[Hit]:
    """One hit per module that leaks, for norms and for dropouts."""
    if case.measured is None:
        return
    norms = [norm for norm in case.measured.of(EvalNorm) if not norm.by_configuration]
    for name, found in by_place((_name(case, norm.place, norm.layer), norm) for norm in norms).items():
        if trains_hidden(case.subject, name):
            continue
        if mixing := [norm for norm in found if norm.mixes]:
            registered = norm_layer(case.subject, name) is not None
            yield _norm(name, mixing, registered, refusal(case.measured))
        elif _is_open(case, case.measured, found):
            yield _cannot_tell(name, found)
    drops = [drop for drop in case.measured.of(EvalDropout) if drop.call.probability != 0]
    for name, dropping in by_place((_name(case, drop.call.place), drop) for drop in drops).items():
        if not trains_hidden(case.subject, name) and not drops_by_code(case.subject, name):
            yield _dropout(name, dropping)


def _name(case: Case, place: Place, layer: str | None = None) -> str | None:
    return fixed_by_code(case.subject, layer_at(case.subject, place, layer))


def _is_open(case: Case, measured: Measured, found: list[EvalNorm]) -> bool:
    """Whether it may mix samples, and neither the swap, its kind nor its moving statistics (BN402) tell."""
    if neighbours_passed(measured):
        return False
    unknown = [norm for norm in found if norm.mixes is None]
    moving = {state.layer for state in measured.of(StateInEval) if state.depends_on_data}
    kinds = {layer.kind for norm in unknown if (layer := norm_layer(case.subject, norm.layer)) is not None}
    return (
        bool(unknown)
        and not kinds & {*_OWN_SAMPLE}
        and not any(norm.layer is not None and norm.layer in moving for norm in unknown)
    )


def _norm(name: str | None, mixing: list[EvalNorm], registered: bool, alone: str) -> Hit:
    first = mixing[0]
    advice = _IGNORES_EVAL if registered else _FUNCTIONAL_NORM
    moves = " and replaces its running statistics" if any(norm.updates for norm in mixing) else ""
    return Hit(
        message=f"after eval() it still normalizes with the batch{moves}{_at([norm.place for norm in mixing])}{alone}",
        advice=_hidden(first.place) or advice,
        layer=name,
        value="batch statistics",
        limit="stored statistics",
    )


def _hidden(place: Place) -> str:
    if not place.hidden:
        return ""
    return _MADE_IN_FORWARD if place.module.startswith(MADE_IN_FORWARD) else _NOT_REGISTERED


def _dropout(name: str | None, dropping: list[EvalDropout]) -> Hit:
    first = dropping[0].call
    share = f" with p = {first.probability:g}" if first.probability is not None else ""
    doing = "draws its slopes" if "rrelu" in first.place.operator else "drops"
    advice = _IGNORES_EVAL if _WITH_A_FLAG.fullmatch(first.place.class_name) else _FUNCTIONAL_DROPOUT
    return Hit(
        message=f"after eval() it still {doing} at random{share}{_at([drop.call.place for drop in dropping])}",
        advice=_hidden(first.place) or advice,
        layer=name,
        value="dropping",
        limit="nothing dropped",
    )


def _cannot_tell(name: str | None, found: list[EvalNorm]) -> Hit:
    return Hit(
        message="after eval() it normalizes with its input; whether that mixes samples was not found out"
        + _at([norm.place for norm in found]),
        advice="compare the output for one input alone and with companions",
        layer=name,
        value="statistics of the input",
        severity=Severity.NOTE,
        confidence=Confidence.MEDIUM,
        undecided="a norm uses its input's statistics after eval(), and it was not found out whether it mixes samples",
    )


def _at(places: list[Place]) -> str:
    named = list(dict.fromkeys(filter(None, map(described, places))))
    return f" ({'; '.join(named)})" if named else ""
