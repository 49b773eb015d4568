"""Where a number stands on an axis. What has no logarithm gets a lane of its own and is never bent into the range."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from bnaudit.terminal.amounts import number

_LANE = 0.13
"""Height of a lane, as a share of the range."""
_TICKS = 6


class Tick(NamedTuple):
    """A line across with its label."""

    at: float
    label: str
    lane: bool = False


class Scale(NamedTuple):
    """An axis from `low` to `high` in its own unit (decades on a logarithmic one), with lanes below and above."""

    low: float
    high: float
    is_log: bool
    floor: float
    """What is smaller stands in the lowest lane; 0: only an exact zero does."""
    lanes: tuple[str, ...]
    """Those that are used: `negative`, `zero`, `infinite`, `NaN`."""
    unit: str = ""

    def place(self, value: float) -> float:
        """Where the value stands."""
        lane = _lane(value, self.is_log, self.floor)
        return self._lane_at(lane) if lane else math.log10(value) if self.is_log else value

    def _lane_at(self, lane: str) -> float:
        height = (self.high - self.low) * _LANE
        below = [name for name in ("zero", "negative") if name in self.lanes]
        above = [name for name in ("infinite", "NaN") if name in self.lanes]
        if lane in below:
            return self.low - height * (below.index(lane) + 1)
        return self.high + height * (above.index(lane) + 1 if lane in above else 1)

    @property
    def ends(self) -> tuple[float, float]:
        """Lowest and highest place, with room for the marks."""
        places = [self.low, self.high, *(self._lane_at(lane) for lane in self.lanes)]
        room = (self.high - self.low) * _LANE / 2
        return min(places) - room, max(places) + room

    @property
    def ticks(self) -> list[Tick]:
        """At round numbers, and one for each lane."""
        words = {"zero": "0", "negative": "< 0", "infinite": "infinite", "NaN": "NaN"}
        if self.floor:
            words["zero"] = f"< {number(self.floor)}{self.unit}"
        lanes = [Tick(self._lane_at(lane), words[lane], True) for lane in self.lanes]
        return [*(Tick(self.place(at), _label(at) + self.unit) for at in self._round()), *lanes]

    def _round(self) -> list[float]:
        if not self.is_log:
            step = _round_step((self.high - self.low) / 4)
            return [step * k for k in range(math.ceil(self.low / step), math.floor(self.high / step + 1e-9) + 1)]
        decades = range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1)
        if len(decades) >= 3:
            every = -(-len(decades) // _TICKS)
            return [10.0**k for k in decades if k % every == 0]
        fine = [
            round_number * 10.0**k
            for k in range(math.floor(self.low), math.ceil(self.high) + 1)
            for round_number in (1, 2, 5)
        ]
        return [value for value in fine if self.low - 1e-9 <= math.log10(value) <= self.high + 1e-9]


def logarithmic(values: Iterable[float], also: Iterable[float] = (), floor: float = 0.0, unit: str = "") -> Scale:
    """A scale over the values and what else is to be seen (limits), at least most of a decade high."""
    values = list(values)
    lanes = {_lane(value, True, floor) for value in values} - {""}
    seen = [math.log10(v) for v in (*values, *also) if math.isfinite(v) and v > 0 and v >= floor] or [0.0]
    low, high = min(seen), max(seen)
    lacking = max(0.0, 0.8 - (high - low))
    room = max((high - low) * 0.06, 0.02)
    return Scale(low - lacking / 4 - room, high + lacking * 3 / 4 + room, True, floor, tuple(sorted(lanes)), unit)


def linear(high: float, unit: str = "") -> Scale:
    """A scale from 0."""
    return Scale(0.0, high, False, 0.0, (), unit)


def _lane(value: float, is_log: bool, floor: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "infinite" if value > 0 else "negative"
    if not is_log:
        return ""
    return "negative" if value < 0 else "zero" if value == 0 or value < floor else ""


def _round_step(least: float) -> float:
    magnitude = 10.0 ** math.floor(math.log10(least))
    return next(step * magnitude for step in (1, 2, 5, 10) if step * magnitude >= least * (1 - 1e-9))


def _label(value: float) -> str:
    if 1e-3 <= abs(value) < 1e5 or value == 0:
        return f"{value:,.10g}"
    digits, _, exponent = f"{value:.0e}".partition("e")
    return f"{digits}e{int(exponent)}"
