"""Where samples meet: the fewest norms that suffice, by holding the statistics of all others; else the operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bnaudit.errors import BnauditError
from bnaudit.feeds.pools import Pool
from bnaudit.mixing import mixing
from bnaudit.reproduction.demonstration import LayerCase
from bnaudit.reproduction.minimal import minimal
from bnaudit.reproduction.trials import Trials
from bnaudit.session import Held, Mode, NormCall, OperatorCall, Session, Trace, Watch

_MOST_PLACES = 3
Rows = tuple[tuple[int, ...], tuple[int, ...]]


class Guilty(NamedTuple):
    """The places, in words, and what one channel of the first norm did."""

    layers: tuple[str, ...] = ()
    case: LayerCase | None = None


def guilty(
    trials: Trials, pool: Pool, rows: Rows, anchor: int, mode: Mode, differ: Callable[[Trace, Trace], bool]
) -> Guilty:
    """Empty where nothing was found, which is no failure: the case shows the defect without it."""
    try:
        return _norms(trials, pool, rows, mode, differ) or _operators(trials, pool, rows, anchor, mode)
    except BnauditError:  # the model cannot be looked into
        return Guilty()


def _norms(trials: Trials, pool: Pool, rows: Rows, mode: Mode, differ: Callable[[Trace, Trace], bool]) -> Guilty | None:
    first, second = (trials.run(pool, each, mode, Watch.MOMENTS) for each in rows)
    mixing_calls = tuple(call for call in first.norm_calls if _holdable(call))

    def fails(free: tuple[NormCall, ...]) -> bool:
        """With the statistics of all other norms as in the first forward."""
        chosen = {call.index for call in free}
        hold = tuple(_held(call) for call in mixing_calls if call.index not in chosen)
        return differ(*(trials.run(pool, each, mode, hold=hold) for each in rows))

    if not mixing_calls or fails(()):
        return None
    few = minimal(mixing_calls, fails, trials.may_go_on)
    others = {call.index: call for call in second.norm_calls}
    names = tuple(dict.fromkeys(_name(call) for call in few))
    case = _case(trials.session, few[0], others[few[0].index]) if few[0].index in others else None
    return Guilty(names, case)


def _holdable(call: NormCall) -> bool:
    return call.uses_batch and call.mixes_samples is not False and call.batch_mean is not None


def _held(call: NormCall) -> Held:
    assert call.batch_mean is not None and call.batch_var is not None
    return Held(index=call.index, mean=call.batch_mean, var=call.batch_var)


def _name(call: NormCall) -> str:
    return call.layer or call.place.module or call.place.source or call.place.operator


def _case(session: Session, one: NormCall, other: NormCall) -> LayerCase | None:
    """The channel whose gain or mean moved most, in its own standard deviations."""
    if one.batch_mean is None or one.batch_var is None or other.batch_mean is None or other.batch_var is None:
        return None
    eps = one.eps or 0.0
    with np.errstate(all="ignore"):
        spread = np.sqrt(one.batch_var + eps)
        moved = np.abs(other.batch_mean - one.batch_mean) / spread
        moved = moved + np.abs(np.log((other.batch_var + eps) / (one.batch_var + eps)))
    channel = int(np.argmax(np.where(np.isfinite(moved), moved, -1.0)))
    layer = next((layer for layer in session.part.layers if layer.name == one.layer), None)
    stored = one.stored_mean, one.stored_var
    return LayerCase(
        layer=_name(one),
        class_name=one.place.class_name.rpartition(".")[2],
        channel=channel,
        means=(float(one.batch_mean[channel]), float(other.batch_mean[channel])),
        variances=(float(one.batch_var[channel]), float(other.batch_var[channel])),
        stored=None
        if stored[0] is None or stored[1] is None
        else (float(stored[0][channel]), float(stored[1][channel])),
        gamma=1.0 if layer is None or layer.gamma is None else float(layer.gamma[channel]),
        beta=0.0 if layer is None or layer.beta is None else float(layer.beta[channel]),
        eps=eps,
    )


def _operators(trials: Trials, pool: Pool, rows: Rows, anchor: int, mode: Mode) -> Guilty:
    one, other = (trials.run(pool, each, mode, Watch.ROWS, anchor=anchor) for each in rows)
    found = mixing(one.operators, other.operators)
    return Guilty(tuple(dict.fromkeys(_place(call) for call in found))[:_MOST_PLACES])


def _place(call: OperatorCall) -> str:
    place = call.gathered or call.place
    module = f"{place.module} ({place.class_name.rpartition('.')[2]})" if place.module else ""
    return " at ".join(piece for piece in (module, place.source) if piece) or place.operator
