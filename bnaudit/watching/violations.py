"""What a watch guards, and the sentence for each way to break it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from itertools import takewhile

from bnaudit.errors import ViolatedInvariantError
from bnaudit.printable import printable
from bnaudit.records import Record

_SPECIAL = re.compile(r"([*?\[])")


class Invariant(str, Enum):
    """What holds in a healthy training loop; the value is the name in `intended`. In the order of their weight."""

    FINITE = "finite"
    """no NaN and no infinity in a running statistic"""
    EVAL = "eval"
    """a layer in eval mode keeps its statistics"""
    FROZEN = "frozen"
    """a frozen layer keeps its statistics while the rest trains"""
    STEADY = "steady"
    """no running statistic moves by many standard deviations in one forward"""


_REMEDIES = {
    Invariant.FINITE: "look for NaN or an overflow in the inputs, or lower the learning rate",
    Invariant.EVAL: "let the layer update in training mode only, F.batch_norm(…, training=self.training)",
    Invariant.FROZEN: "put frozen norms in eval mode after every model.train(), or use FrozenBatchNorm2d",
    Invariant.STEADY: "look at this batch and its scaling, or lower the learning rate",
}


class Violation(Record):
    """One invariant, broken in one forward."""

    invariant: Invariant
    layers: tuple[str, ...]
    """Every layer that broke it in this forward, in the model's order."""
    listed: str
    """The same as patterns that fit no other module of the model, at most four."""
    message: str
    """What happened to the first of them."""
    value: float | str
    limit: float | str
    forward: int
    """Which forward of the watch it was, from 1; 0: none yet, the model came so."""

    @property
    def remedy(self) -> str:
        """What to do."""
        return _REMEDIES[self.invariant]

    @property
    def _or_meant(self) -> str:
        if self.invariant is Invariant.FINITE:
            return ""
        pattern = f"{self.invariant.value}={printable(_pattern(self.layers))}"
        return f", or say that it is meant so: intended={pattern!r}"

    @property
    def _others(self) -> str:
        """`; 4 layers in all: layer1.{0,1}.bn{1,2}`."""
        return f"; {len(self.layers)} layers in all: {self.listed}" if len(self.layers) > 1 else ""

    def error(self) -> ViolatedInvariantError:
        """The violation as an exception; its text is one sentence."""
        return ViolatedInvariantError(
            f"{printable(self.layers[0]) or 'the model itself'}: {self.message}{self._others}",
            where=f"forward {self.forward}" if self.forward else "before the first forward",
            remedy=f"{self.remedy}{self._or_meant}",
            violation=self,
        )


def _pattern(layers: Sequence[str]) -> str:
    """A shell pattern for all of these layers: the name of one, else the block around them."""
    parts = zip(*(layer.split(".") for layer in layers), strict=False)
    shared = ".".join(part[0] for part in takewhile(lambda part: len(set(part)) == 1, parts))
    literal = _SPECIAL.sub(r"[\1]", shared)
    if len(layers) == 1:
        return literal or "*"
    return f"{literal}*" if not literal or shared in layers else f"{literal}.*"
