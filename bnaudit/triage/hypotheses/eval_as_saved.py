"""Nothing went wrong: the model in eval with the state that it was saved with."""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.diagnosis import Hypothesis
from bnaudit.triage.hypotheses import Generator
from bnaudit.triage.situation import Situation


def singles(situation: Situation) -> Iterator[Hypothesis]:
    """The model as it is."""
    yield Hypothesis(
        name="eval-as-saved",
        claim="the model ran in eval with the state that it was saved with",
        advice="nothing to do",
    )


GENERATOR = Generator("eval-as-saved", singles)
