"""The same inputs give other outputs than in the model that is trusted.

## What it finds

Both models are run on the same inputs, in the same order, in eval mode. Reported is an output that differs by more
than rounding can make, in the coarser of the two precisions. The floor is 64 rounding steps of the output's largest
value. Where a difference is above it, rounding is measured: one of the two is run once more in float64, and eight
times what this moves is rounding too. In half precision 64 steps would hide a lot (6 % in float16), so that the
measured floor, at least 4 steps, takes their place: the float32 model is run once more in half precision.

The message names the first place where the two part. At every norm layer that both ran, the mean and deviation of
each sample's input are compared: where they are equal and the layer's own map is not (statistics, affine, epsilon,
mode), the difference **originates** there; where they are not, it came in between that norm and the one before.

Before anything else it is checked that the baseline is in eval itself: norms that use the batch, dropouts, outputs
that depend on random numbers or on what ran before. Such a model is no reference, and what differs from it proves
nothing.

After a round trip (`--roundtrip`: saved, loaded in a fresh process) the rule also names what came back otherwise.

## Why it matters

Weights that agree do not make predictions that agree: epsilon, mode, preprocessing inside the model, a
functional call or another operator are in no state dict. The outputs are what production returns.

## Worked arithmetic

A channel with mean 0, variance 0.0001 and gamma 1, and an input of 0.01. With epsilon 1e-5, and with the 1e-3 that
another framework takes:

    0.01 / √(0.0001 + 0.00001) = 0.953
    0.01 / √(0.0001 + 0.001)   = 0.302

The difference is 0.652. In float32 the floor is 64 · 2⁻²³ · 0.953 = 7.3e-6.

## How to fix

Start at the place that is named. A norm layer: give it the baseline's statistics, affine, epsilon and mode (BN601 to
BN604 show them). Before the first norm layer: compare the first layer's weights and the preprocessing. Between two
norm layers: compare what stands there. After the last one: the head.

    bnaudit compare trained.pt deployed.onnx --model net.py:build --inputs x.npz

## Limits

- On synthetic inputs a difference is real and its size may be another on yours: a warning at most.
- Norms that were folded into convolutions cannot be watched: outputs are compared, no place is named.
- The order is that of execution: in a branch, "between" names the norm that ran before, which may stand in the other.
- Labels alone do not show how near a decision was: where fewer than 1 % differ, it may be a tie that rounding broke.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from bnaudit.comparison import ComparedRun, OutputPair, RoundTrip
from bnaudit.results import Confidence, Hit, Severity
from bnaudit.rules import Case, rule
from bnaudit.shift_wording import amount, value

_NORM = "give this layer the baseline's statistics, affine, epsilon and mode"
_PLACE = "compare what stands at the place where the two part: weights, operators, what is done to the input"
_NO_PLACE = "compare the two layer by layer, in the form in which norms are not folded"
_REFERENCE = "put the baseline into eval mode throughout, then compare again"
_BACK = "register what the model needs as parameters or persistent buffers, and give the factory what it was built with"
_SETTINGS = ("eps", "momentum", "track_running_stats", "affine", "class", "training")
_MOST = 6
_FEW = 0.01
"""Share of labels within which ties may be what differs."""


@rule(id="BN606", severity=Severity.ERROR, needs=("baseline", "outputs"))
def outputs_differ(case: Case) -> Iterator[Hit]:
    """One hit on the place where they part, one on a reference that is none, one on a round trip."""
    if case.comparison is None:
        return
    run, trip = case.comparison.run, case.comparison.round_trip
    if run is not None:
        yield from _run(run)
    if trip is not None and not trip.not_done:
        yield from _round_trip(trip)


def _run(run: ComparedRun) -> Iterator[Hit]:
    apart = [output for output in run.outputs if not output.within_floor]
    if run.reference_in_eval is False:
        differs = f"; the outputs differ {amount(_worst(apart).shift)}, which proves nothing" if apart else ""
        yield Hit(
            message=f"the baseline is no reference: {run.reference_why or 'it is not in eval mode'}{differs}",
            advice=_REFERENCE,
            value="reference",
            severity=Severity.WARNING,
            undecided="the baseline is not in eval mode",
            settles=False,
        )
    elif apart:
        yield _differ(run, _worst(apart))


def _differ(run: ComparedRun, worst: OutputPair) -> Hit:
    origin = next((parting for parting in run.partings if parting.originates), None)
    first = origin is not None and run.parts_at.startswith(origin.layer)
    return Hit(
        message=f"the same inputs give another {_named(worst)}: it differs {amount(worst.shift)}{_flips(run)}"
        f"{f'; they part at {run.parts_at}' if run.parts_at else ''}",
        advice=_NORM if first else _PLACE if run.parts_at else _NO_PLACE,
        layer=origin.layer if first and origin is not None else None,
        value=value(worst.shift),
        limit=_limit(worst),
        confidence=_confidence(run, worst),
    )


def _worst(apart: list[OutputPair]) -> OutputPair:
    """The one furthest beyond its floor; of those without one, the largest difference."""
    return max(apart, key=lambda output: (_times(output), output.shift.difference))


def _times(output: OutputPair) -> float:
    times = output.shift.difference / output.floor if output.floor > 0 else math.inf
    return math.inf if math.isnan(times) else times


def _limit(output: OutputPair) -> float | None:
    if not (math.isfinite(output.shift.difference) and math.isfinite(output.floor)):
        return None
    return float(f"{output.floor:.2g}")


def _named(output: OutputPair) -> str:
    name = output.subject or output.baseline
    return f"output {name}" if name else "output"


def _flips(run: ComparedRun) -> str:
    if not run.flips:
        return ""
    return f", {run.flips} of {run.decisions} decisions flip{'s' if run.flips == 1 else ''}"


def _confidence(run: ComparedRun, worst: OutputPair) -> Confidence:
    """Made inputs show that it differs, and not how much on real ones; a few labels may be ties."""
    shift = worst.shift
    whole = worst.floor == 0.0 and "int" in shift.dtype
    if run.synthetic or (whole and shift.flips < _FEW * shift.decisions):
        return Confidence.MEDIUM
    return Confidence.HIGH


def _round_trip(trip: RoundTrip) -> Iterator[Hit]:
    apart = [output for output in trip.outputs if not output.within_floor]
    if not (apart or trip.changed):
        return
    named = ", ".join(trip.changed[:_MOST]) + (f" and {len(trip.changed) - _MOST} more" * (len(trip.changed) > _MOST))
    came_back = f"{named} came back otherwise"
    if not apart:
        counts = any(_computes(text) for text in trip.changed)
        yield Hit(
            message=f"saved and loaded in a fresh process, {came_back}; the outputs are the same",
            advice=_BACK,
            value="round trip",
            severity=Severity.WARNING if counts else Severity.NOTE,
        )
        return
    worst = _worst(apart)
    yield Hit(
        message=f"saved and loaded in a fresh process, the {_named(worst)} differs {amount(worst.shift)}"
        + (f"; {came_back}" if trip.changed else "; all that it holds came back"),
        advice=_BACK,
        value=value(worst.shift),
        limit=_limit(worst),
    )


def _computes(text: str) -> bool:
    """Whether it is a tensor or a setting of a norm, `bn1.eps (0.001 → 1e-05)`: other numbers may count steps."""
    name, _, values = text.partition(" ")
    return name.rpartition(".")[2] in _SETTINGS or " → " not in values
