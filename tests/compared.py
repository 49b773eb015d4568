"""Comparisons for tests: of two parts, of two state dicts as plain arrays, and what a rule says of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from builders import batch_norm, description, part

from bnaudit.comparison import Comparison
from bnaudit.description import Part
from bnaudit.matching import match, moves
from bnaudit.results import Hit
from bnaudit.rules import Case, load_rule


def part_of(state: Mapping[str, Any], name: str = "", **fields: Any) -> Part:
    """The part that a state dict of arrays is: a batch norm wherever there is a `running_mean`.

    `fields` are those of every NormLayer (`eps`, `kind` …).
    """
    owners = [key.removesuffix(".running_mean") for key in state if key.endswith(".running_mean")]
    return part([_layer(owner, state, fields) for owner in owners], name=name)


def _layer(owner: str, state: Mapping[str, Any], fields: Mapping[str, Any]) -> Any:
    def held(leaf: str) -> Any:
        value = state.get(f"{owner}.{leaf}")
        return None if value is None else np.asarray(value)

    five = {"mean": "running_mean", "var": "running_var", "gamma": "weight", "beta": "bias"}
    tensors = {argument: held(leaf) for argument, leaf in five.items()}
    return batch_norm(owner, counter=held("num_batches_tracked"), **tensors, **fields)


def comparison(subject: Part, baseline: Part, **fields: Any) -> Comparison:
    """What comparing the two shows, nothing run; `fields` are added to the Comparison."""
    matching = match(subject, baseline)
    return Comparison(
        baseline=description(baseline),
        subject_part=subject,
        baseline_part=baseline,
        matching=matching,
        moves=moves(matching),
        **fields,
    )


def compared_hits(
    rule: str, subject: Part, baseline: Part, limits: Mapping[str, float] | None = None, **fields: Any
) -> list[Hit]:
    """What the rule in file `rule` says of the subject against the baseline."""
    found = load_rule(rule)
    merged = MappingProxyType({**found.limits, **(limits or {})})
    return list(found.check(Case(description(subject), merged, comparison=comparison(subject, baseline, **fields))))


def trained(name: str = "bn1", channels: int = 8, seed: int = 0, **changes: Any) -> Any:
    """A trained batch norm with random values; `changes` are arguments of `batch_norm`."""
    random = np.random.default_rng(seed)
    values = {
        "mean": random.normal(size=channels),
        "var": random.uniform(0.5, 2.0, channels),
        "gamma": random.uniform(0.5, 1.5, channels),
        "beta": random.normal(size=channels),
    }
    float32 = {key: np.float32(value) for key, value in values.items()}
    return batch_norm(name, **{**float32, **changes})
