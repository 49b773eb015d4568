"""Inputs were prepared otherwise than the given ones, with the same shape."""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.diagnosis import Hypothesis
from bnaudit.triage.hypotheses import Generator
from bnaudit.triage.situation import Situation


def singles(situation: Situation) -> Iterator[Hypothesis]:
    """Every fault that changes the given inputs."""
    for fault in situation.faults:
        yield Hypothesis(name=fault.name, claim=fault.claim, advice=fault.advice, input_fault=fault.name)


GENERATOR = Generator("input-preparation", singles)
