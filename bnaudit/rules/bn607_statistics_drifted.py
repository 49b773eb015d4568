"""Weights and statistics both moved: how far, layer by layer.

## What it finds

Pairs of layers in which gamma or beta *and* mean or variance differ from the baseline's: what training does. One note
per layer with the size of the move: the shift of the mean in standard deviations of the baseline, the ratio of the
variances, how far weight and bias moved. The same for a norm without weight and bias whose statistics moved.

## Why it matters

This is the expected result of fine-tuning, and no defect, unless the values are those of a layer as it is built:
statistics 0 and 1, weight and bias untrained. Then it is a warning: they were never loaded. It is told because the
*absence* of it is one (BN601, BN602), and because a layer that moved much further than its neighbours shows where the
new data differs.

## Worked arithmetic

Two channels, baseline means 1 and 2, variances 4 and 9; now means 2 and 5, variances 8 and 9:

    shifts    (2 − 1) / √4 = 0.5 and (5 − 2) / √9 = 1
    in all    √((0.5² + 1²) / 2) = 0.79 sd
    ratios    8 / 4 = 2 and 9 / 9 = 1, median 1.5

## How to fix

Nothing has to be fixed. Where no training was meant between the two, find out which file is which:

    bnaudit inspect one.pt other.pt     # counters, steps and producers of both

## Limits

- The effect on outputs is not computed: a shift of the mean may be undone by weights that moved along.
- Channels whose variance is below 1e-5 on either side do not count for the ratio, and values that are NaN or infinite
  for no size: they are counted, and a warning.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.comparison import Move
from bnaudit.description import NormLayer
from bnaudit.initial_state import has_initial_affine, is_virgin
from bnaudit.matching.wording import moved_affine, moved_statistics, not_finite_any_more, rounded
from bnaudit.results import Hit, Severity
from bnaudit.rules import Case, rule

_BUILT = "; they are the initial ones: nothing was loaded"
_LOAD = "load the weights with strict=True before saving; a layer that is new on purpose: --intended BN607"
_BROKEN = "take a checkpoint from before the values broke; `bnaudit inspect` shows the channels"
_TRAINED = "nothing to do where it was trained in between; otherwise find out which file is which"


@rule(id="BN607", severity=Severity.NOTE, needs=("baseline",), yields_to=("BN608",))
def statistics_drifted(case: Case) -> Iterator[Hit]:
    """One hit per layer."""
    if case.comparison is None:
        return
    for pair, move in zip(case.comparison.matching.pairs, case.comparison.moves, strict=True):
        if move.statistics_equal is False and not move.affine_equal:
            lost = _is_as_built(pair.subject)
            broken = not_finite_any_more(pair)
            gone = f"; {broken}" if broken else ""
            yield Hit(
                message=f"statistics moved: {moved_statistics(move)}{_weights(move)}{_BUILT if lost else gone}",
                advice=_LOAD if lost else _BROKEN if broken else _TRAINED,
                severity=Severity.WARNING if lost or broken else None,
                layer=move.layer,
                part=case.comparison.subject_part.name,
                value=rounded(move.mean_shift),
                channels=move.channels,
            )


def _is_as_built(layer: NormLayer) -> bool:
    return is_virgin(layer) and has_initial_affine(layer)


def _weights(move: Move) -> str:
    return "" if move.affine_equal is None else f"; weight and bias {moved_affine(move)}"
