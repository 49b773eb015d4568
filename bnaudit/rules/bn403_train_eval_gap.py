"""Training mode and eval mode give other outputs than the companions in a batch explain.

## What it finds

The outputs e in eval mode are compared with the outputs t₁ and t₂ when the norms alone are in training mode, beside two
independent sets of companions. What both have in common is systematic, what differs between them is noise:

    systematic = √⟨t₁ − e, t₂ − e⟩        noise = ‖t₁ − t₂‖ / √2        both relative to the spread of the outputs

Reported when the first exceeds the second, on at least 16 samples, **and** BN404 names a layer. An error when more
decisions flip between the modes than between the two sets, by more than 5 % of at least 64.

`--max-gap X` sets a limit of your own: more than X is reported, whatever the layers' statistics are, as soon as it is
more than companions explain. It is off by default.

## Why it matters

It is the gap that users see as a good training accuracy and a bad one in validation, from the same weights.

## Worked arithmetic

Even perfect statistics leave a gap, because a batch of N samples has its own mean and variance. Its outputs scatter
around those of eval mode, and independent batches scatter independently:

    t₁ − e = (0.3, −0.4)    t₂ − e = (0.4, 0.3)     ⟨ , ⟩ = 0.12 − 0.12 = 0        systematic 0: noise alone
    t₁ − e = (0.5, −0.4)    t₂ − e = (0.4, −0.5)    ⟨ , ⟩ = 0.20 + 0.20 = 0.40     systematic 0.63
                                                    ‖t₁ − t₂‖ = √0.02 = 0.14       noise 0.10

The plain gap ‖t₁ − e‖ is 0.5 and 0.64 here, almost the same for both.

## How to fix

Mend the layers that BN404 names, usually by measuring the statistics again on training data:

    torch.optim.swa_utils.update_bn(training_loader, model)

If the training batches are small or their members alike (one video, one class), the statistics that training uses
are themselves unlike the data: mix the batches, or use GroupNorm.

## Limits

- It needs your inputs (`--inputs`): on synthetic ones it is a note.
- On fewer than 16 samples it is inconclusive when a layer looks off.
- The unbiased variance that is stored explains a part of the gap, about 0.003; it is given where it was replayed.
- Where the statistics were absorbed into weight and bias (BN103), training mode is none that the model knows.
- The figure is in the report also when nothing is found.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from bnaudit.gap_limits import Moved, moved, used_in_eval, were_absorbed
from bnaudit.measurement import Gap, Measured
from bnaudit.results import Hit, Question, Severity
from bnaudit.rules import Case, rule

_ADVICE = "mend the statistics of these layers, then compare again"
_GIVE_INPUTS = "give real inputs: --inputs"
_MORE = "give more samples: --inputs with at least 16, and --batch-size"
_ALLOWED = "measure the statistics again on training data, or allow more with --max-gap"
_NAMES_SHOWN = 3


@rule(
    id="BN403",
    severity=Severity.WARNING,
    question=Question.GAP,
    limits={"samples": 16, "flip_share": 0.05, "flip_anchors": 64, "max_gap": math.inf},
    needs=("train_eval_gap",),
)
def train_eval_gap(case: Case) -> Iterator[Hit]:
    """One hit on the artifact."""
    if case.measured is None:
        return
    judged = {} if were_absorbed(case.subject, case.measured) else _judged(case.measured)
    proved = [name for name, verdict in judged.items() if verdict.proved]
    suspect = [name for name, verdict in judged.items() if verdict.proved or verdict.open]
    for gap in case.measured.of(Gap):
        if gap.systematic > case.limits["max_gap"]:
            yield _above(case, gap, proved)
        elif not gap.systematic > gap.noise:
            continue
        elif gap.samples >= case.limits["samples"] and proved:
            yield _hit(case, gap, proved)
        elif gap.samples < case.limits["samples"] and suspect and not gap.synthetic:
            yield _too_few(gap, suspect)


def _judged(measured: Measured) -> dict[str, Moved]:
    return {found.layer: moved(found) for found in used_in_eval(measured)}


def _hit(case: Case, gap: Gap, layers: list[str]) -> Hit:
    severity = Severity.ERROR if _decides_otherwise(case, gap) else Severity.WARNING
    return Hit(
        message=_words(gap, layers) + (", on synthetic inputs" if gap.synthetic else ""),
        advice=_GIVE_INPUTS if gap.synthetic else _ADVICE,
        value=float(f"{gap.systematic:.3g}"),
        limit=float(f"{gap.noise:.3g}"),
        severity=Severity.NOTE if gap.synthetic else severity,
    )


def _above(case: Case, gap: Gap, layers: list[str]) -> Hit:
    """More than the user allows, whatever the layers' statistics are, where that is more than chance."""
    allowed = case.limits["max_gap"]
    if gap.synthetic:
        doubt, advice = "the inputs are synthetic", _GIVE_INPUTS
    elif gap.samples < case.limits["samples"]:
        doubt, advice = f"{gap.samples} samples are too few to judge the gap", _MORE
    elif not gap.systematic > gap.noise:
        doubt, advice = f"a gap above {allowed:g} that companions alone explain", _MORE
    else:
        doubt, advice = "", _ADVICE if layers else _ALLOWED
    severity = Severity.ERROR if _decides_otherwise(case, gap) else Severity.WARNING
    return Hit(
        message=f"{_words(gap, layers)}; at most {allowed:g} is allowed",
        advice=advice,
        value=float(f"{gap.systematic:.3g}"),
        limit=allowed,
        severity=Severity.NOTE if doubt else severity,
        undecided=doubt,
    )


def _decides_otherwise(case: Case, gap: Gap) -> bool:
    enough = min(gap.anchors, gap.decisions) >= case.limits["flip_anchors"]
    return enough and (gap.flips - gap.companion_flips) / gap.decisions > case.limits["flip_share"]


def _too_few(gap: Gap, layers: list[str]) -> Hit:
    return Hit(
        message=f"{_words(gap, layers)}, from {gap.samples} samples: too few to tell",
        advice=_MORE,
        value=float(f"{gap.systematic:.3g}"),
        limit=float(f"{gap.noise:.3g}"),
        severity=Severity.NOTE,
        undecided=f"{gap.samples} samples are too few to judge the gap",
    )


def _words(gap: Gap, layers: list[str]) -> str:
    flipped = ""
    if gap.flips:
        flipped = f"; {gap.flips} of {gap.decisions} decisions flip, {gap.companion_flips} between the two sets"
    bessel = f"; the unbiased variance explains {gap.bessel:.2g}" if gap.bessel is not None else ""
    names = ", ".join(name or "the model itself" for name in layers[:_NAMES_SHOWN])
    more = ", …" if layers[_NAMES_SHOWN:] else ""
    guilty = f" (the statistics of {names}{more} are off)" if layers else ""
    return (
        f"training mode differs from eval mode by {gap.systematic:.3g} of the outputs' spread, "
        f"companions explain {gap.noise:.3g}{flipped}{bessel}{guilty}"
    )
