"""The other part of the checkpoint was loaded: raw weights for averaged ones, or the reverse."""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.diagnosis import Hypothesis
from bnaudit.triage.hypotheses import Generator, Untried
from bnaudit.triage.situation import Situation


def singles(situation: Situation) -> Iterator[Hypothesis | Untried]:
    """Each of the other parts."""
    for part in situation.parts:
        yield Hypothesis(
            name=f"other-part:{part}",
            claim=f"{part or 'the other part'} of the checkpoint was loaded",
            advice="load the part that was evaluated, and audit the one that is served: --part",
            part=part,
        )
    for part, needs in situation.shut_parts:
        yield Untried(f"{part} of the checkpoint was loaded", needs)


GENERATOR = Generator("other-part", singles)
