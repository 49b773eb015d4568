"""A graph in float64: kernel noise shrinks with the precision, what samples do to one another does not."""

from __future__ import annotations

from typing import Protocol

from bnaudit.description import GraphInput, Part
from bnaudit.onnx_session.engines import Engines
from bnaudit.onnx_session.reference import ReferenceEngines
from bnaudit.onnx_session.widening import NARROW_NAMES, to_double
from bnaudit.records import replace
from bnaudit.session import NotPossibleError

LONGEST = 20.0
"""Seconds that one forward may take."""


class Widens(Protocol):
    """What is asked of a session whose graph is to be computed in float64."""

    engines: Engines
    part: Part

    @property
    def draws(self) -> bool:
        """Whether anything draws random numbers."""

    def expected_seconds(self) -> float | None:
        """About how long one forward takes."""


def double_engines(session: Widens) -> ReferenceEngines:
    """Engines of the same graph in float64. Raises NotPossibleError."""
    if session.draws:
        raise NotPossibleError("the graph draws random numbers, which float64 would draw anew")
    expected = session.expected_seconds()
    if expected is not None and expected > LONGEST:
        raise NotPossibleError(
            f"float64 takes onnx's reference evaluator about {expected:.0f} s a forward, more than {LONGEST:.0f}"
        )
    return ReferenceEngines(session.engines.path, session.engines.skeleton, to_double)


def double_part(part: Part) -> Part:
    """The part with inputs of float64."""
    return replace(part, inputs=tuple(_wide(each) for each in part.inputs))


def _wide(declared: GraphInput) -> GraphInput:
    return replace(declared, dtype="float64") if declared.dtype in NARROW_NAMES else declared
