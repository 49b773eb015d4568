"""Builds by hand what a run showed, so that rules are tested on exactly the numbers that a test names."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any

from builders import description

from bnaudit.description import Description
from bnaudit.measurement import (
    Answer,
    EvalDropout,
    EvalNorm,
    LayerStatistics,
    Measured,
    Measurement,
    Mixing,
    NormSize,
    Shift,
    StateInEval,
    Swap,
)
from bnaudit.results import Hit, Outcome, Question
from bnaudit.rules import Case, load_rule
from bnaudit.session import Place, RandomCall, StateChange

EXACT = Shift(exact=True)
FLOAT32_EPS = 2.0**-23


def measured(*measurements: Measurement, **fields: Any) -> Measured:
    """A run on 16 real samples that showed these."""
    settings: dict[str, Any] = {
        "runner": "PyTorch 2.13.0",
        "inputs": "digits.npz, 16 of 360 samples",
        "synthetic": False,
        "batch_size": 16,
        "anchors": 4,
        "samples": 16,
        "forwards": 8,
        "extra_forwards": 0,
        "seconds": 0.1,
    }
    return Measured(measurements=measurements, **{**settings, **fields})


def run_hits(
    rule: str,
    *measurements: Measurement,
    subject: Description | None = None,
    limits: dict[str, float] | None = None,
    **fields: Any,
) -> list[Hit]:
    """What the rule in file `rule` says of a run that showed these, of a model without layers by default."""
    found = load_rule(rule)
    merged = MappingProxyType({**found.limits, **(limits or {})})
    return list(found.check(Case(subject or description(), merged, measured=measured(*measurements, **fields))))


def shift(difference: float, scale: float = 2.0, flips: int = 0, decisions: int = 0, **fields: Any) -> Shift:
    """A difference between two float32 outputs; 64 eps of scale 2 are 1.5e-5."""
    epsilons = difference / (scale * FLOAT32_EPS)
    settings: dict[str, Any] = {"epsilons": epsilons, "dtype": "float32", "output": "", **fields}
    return Shift(exact=False, difference=difference, scale=scale, flips=flips, decisions=decisions, **settings)


NOISE = shift(4e-7)
"""Of another order of summation: 1.7 eps."""
LARGE = shift(0.5, flips=3, decisions=4)


def place(
    module: str = "", class_name: str = "Net", operator: str = "", source: str = "", hidden: bool = False
) -> Place:
    """Where an operator ran."""
    return Place(module=module, class_name=class_name, hidden=hidden, source=source, operator=operator)


def mixing(
    module: str = "head", class_name: str = "Head", operator: str = "aten.mean.dim", source: str = "", **fields: Any
) -> Mixing:
    """A place where samples meet; no norm by default."""
    settings: dict[str, Any] = {"layer": None, "is_norm": False, **fields}
    return Mixing(place=place(module, class_name, operator, source, settings.pop("hidden", False)), **settings)


def swap(*places: Mixing, **fields: Any) -> Swap:
    """Companions exchanged in a model that leaks 0.5 of 2."""
    settings: dict[str, Any] = {"other": LARGE, "scaled": LARGE, "located": True, "leaks": True, **fields}
    return Swap(mixing=places, batch_size=16, companions=12, **settings)


def neighbours(outcome: Outcome) -> Answer:
    """What the run says of the neighbours."""
    return Answer(question=Question.NEIGHBOURS, outcome=outcome, reason="shown")


def eval_norm(module: str = "bn1", layer: str | None = "bn1", mixes: bool | None = True, **fields: Any) -> EvalNorm:
    """A batch norm that used the batch after eval()."""
    settings: dict[str, Any] = {"by_configuration": False, "updates": True, **fields}
    hidden, class_name = settings.pop("hidden", False), settings.pop("class_name", "BatchNorm2d")
    source = settings.pop("source", "net.py:41")
    at = place(module, class_name, "aten.native_batch_norm", source, hidden)
    return EvalNorm(place=at, layer=layer, mixes=mixes, **settings)


def random_call(
    module: str = "drop", probability: float | None = 0.5, is_dropout: bool = True, class_name: str = "Dropout"
) -> RandomCall:
    """An operator that draws."""
    at = place(module, class_name, "aten.bernoulli_", "net.py:43")
    return RandomCall(place=at, is_dropout=is_dropout, probability=probability)


def eval_dropout(module: str = "drop", probability: float | None = 0.5, class_name: str = "Dropout") -> EvalDropout:
    """An operator that dropped after eval()."""
    return EvalDropout(call=random_call(module, probability, class_name=class_name), calls=1)


def change(
    name: str, kind: str = "buffer", persistent: bool = True, owner: str = "Net", digest: int = 1
) -> StateChange:
    """State that a forward left changed."""
    return StateChange(name=name, kind=kind, persistent=persistent, owner=owner, digest=digest)


def state_in_eval(name: str, depends_on_data: bool | None = True, **fields: Any) -> StateInEval:
    """State that an eval forward changed."""
    layer, is_observer = fields.pop("layer", None), fields.pop("is_observer", False)
    return StateInEval(
        change=change(name, **fields), depends_on_data=depends_on_data, layer=layer, is_observer=is_observer
    )


def statistics(layer: str = "bn1", position: int = 1, **fields: Any) -> LayerStatistics:
    """A healthy layer: 0.01 sd and 2 % off, on 16 samples; `ratio` sets the variance's ratio and its logarithm."""
    ratio = fields.pop("ratio", 1.02)
    settings: dict[str, Any] = {
        "samples": 16,
        "channels": 8,
        "live": 8,
        "mean_shift": 0.01,
        "mean_error": 0.02,
        "variance_ratio": ratio,
        "log_variance": abs(math.log(ratio)),
        "log_variance_error": 0.05,
        "worst": (3, 1),
        "worst_shift": 0.02,
        "synthetic": False,
    }
    return LayerStatistics(layer=layer, position=position, **{**settings, **fields})


def norm_size(layer: str | None = "bn1", per_sample: int = 1, batch: int = 16, **fields: Any) -> NormSize:
    """How many values the statistics of a norm are computed from."""
    settings: dict[str, Any] = {"uses_batch": False, "is_batch_norm": True, "trains": False, **fields}
    return NormSize(
        place=place(layer or "norm", "BatchNorm1d"),
        layer=layer,
        values_per_sample=per_sample,
        values_per_statistic=settings.pop("values", per_sample * batch),
        **settings,
    )
