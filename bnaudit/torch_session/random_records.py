"""Which operators drew random numbers, and which of them dropped values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from bnaudit.session import Place, RandomCall
from bnaudit.torch_session.operators import Operator

_DRAWS = "aten.bernoulli_"
_SCALES = {"aten.div_": "div", "aten.div": "div", "aten.mul_": "mul", "aten.mul": "mul"}
_SHIFTS = ("aten.add", "aten.sub")
"""Alpha dropout shifts its mask by −1 first."""


class RandomRecords:
    """The random calls of one forward.

    On the CPU dropout is `bernoulli_(1 − p)` whose result is divided by 1 − p; what follows a `bernoulli_` says whether
    it was one (stochastic depth does the same, and is one).
    """

    def __init__(self, place: Callable[[str, bool], Place]) -> None:
        self._place = place
        self.calls: list[RandomCall] = []
        self.pending: tuple[torch.Tensor, float] | None = None
        """The mask drawn by the operator before, and the probability of a one."""

    def record(self, known: Operator, values: Mapping[str, Any], result: object) -> None:
        """`result`: what the operator returned."""
        self.pending = None
        random = known.random
        assert random is not None
        if random.active and values.get(random.active) is False:
            return
        probability = values.get(random.probability)
        if random.probability and not probability:
            return
        if probability is not None and random.keeps:
            probability = round(1.0 - float(probability), 12)
        self.calls.append(
            RandomCall(
                place=self._place(known.name, True),
                is_dropout=random.is_dropout,
                probability=float(probability) if probability is not None else None,
            )
        )
        keep = values.get("p")
        if known.name == _DRAWS and isinstance(keep, float) and isinstance(result, torch.Tensor):
            self.pending = (result, keep)

    def follow(self, known: Operator, args: Sequence[Any]) -> None:
        """The operator after a `bernoulli_`: its mask scaled by what is kept, or shifted, makes it a dropout."""
        if self.pending is None:
            return
        mask, keep = self.pending
        self.pending = None
        if len(args) > 1 and args[0] is mask and not isinstance(args[1], torch.Tensor):
            scale = _SCALES.get(known.name)
            scaled = abs(args[1] - (keep if scale == "div" else 1 / (keep or 1.0))) < 1e-9 * abs(args[1])
            if (scale and scaled) or (known.name in _SHIFTS and abs(args[1]) == 1):
                last = self.calls[-1]
                self.calls[-1] = RandomCall(place=last.place, is_dropout=True, probability=round(1.0 - keep, 12))
