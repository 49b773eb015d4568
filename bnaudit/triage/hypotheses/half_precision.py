"""Production computed in half precision."""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.diagnosis import Hypothesis
from bnaudit.triage.hypotheses import Generator
from bnaudit.triage.situation import Situation
from bnaudit.variation import Variation

_NAMES = {"float16": ("fp16", "half precision (float16)"), "bfloat16": ("bf16", "bfloat16")}


def singles(situation: Situation) -> Iterator[Hypothesis]:
    """float16 and bfloat16, unless the user has said that it is so: then it is the floor."""
    for dtype, (short, words) in _NAMES.items():
        if situation.precision != short:
            yield Hypothesis(
                name=f"half-precision:{dtype}",
                claim=f"weights, inputs and arithmetic were in {words}",
                advice=f"expected on such hardware: say --precision {short}, or compute in float32",
                variation=Variation(dtype=dtype),
            )


GENERATOR = Generator("half-precision", singles)
