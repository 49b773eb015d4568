"""A norm that one of the two has folded into its convolution is not what was folded in.

## What it finds

One side has a batch norm, the other a convolution or linear layer that is said to hold both. The fold is recomputed in
float64 from the weights of the side that still has the norm and compared channel by channel. Where it differs by more
than rounding, the pattern of the difference names the cause:

- another epsilon, solved from the channels of smallest variance;
- the convolution's own bias forgotten, or it or beta in the result twice; gamma or beta ignored;
- statistics of another time; channels in another order; the norm left out altogether;
- a norm folded into the convolution *behind* it, which pads with 0: wrong at the border;
- another convolution, whose fold says nothing of the norm; a rounding to half precision on the way (a note).

Where no cause fits to rounding with every other one five times further away, none is named.

## Why it matters

Exporters, simplifiers and hand-written engines fold norms to save time. After that there is no norm left to look at:
names, shapes and the number of layers say nothing, and a wrong epsilon or a lost bias only shows in predictions.

## Worked arithmetic

A convolution of weight 0.5 and bias 1, followed by a norm of mean 3, variance 0.0001, gamma 2, beta 0.1, epsilon 1e-5:

    gain   2 / √(0.0001 + 0.00001)             = 190.69
    weight 0.5 · 190.69                        =  95.35
    bias   0.1 + (1 − 3) · 190.69              = −381.29

Folded with epsilon 1e-3 the gain is 2 / √(0.0001 + 0.001) = 60.30 and the weight 30.15. From that weight epsilon is
solved: (2 / 60.30)² − 0.0001 = 0.001. A relative error of 6e-8, float32's, moves it by 2 · 6e-8 · 0.0011 = 1.3e-10.
Without the convolution's bias the folded one is 0.1 − 3 · 190.69 = −571.98: 190.69, bias times gain, is missing.

## How to fix

Fold again from the model in eval mode, with its own epsilon, and compare before anything is thrown away:

    folded = torch.nn.utils.fusion.fuse_conv_bn_eval(conv.eval(), norm.eval())
    torch.testing.assert_close(folded(x), norm(conv(x)))

Fold nothing that stands before a padded convolution, and nothing in training mode.

## Limits

- A state dict does not say in which order its layers run: they are paired by names, by order and by their weights.
- A state dict does not state epsilon either: any single value that explains all channels counts as equal. Where that
  value is not the same in all layers, a note says which one is another.
- An epsilon that changes weights and biases by less than a thousandth is passed over; any other difference of that size
  is a note.
- Statistics of another time and another gamma and beta look alike; that the weights are equal speaks for the first.
- Weights that a tool packed, quantized to integers or computes at run time are not read.
"""

from __future__ import annotations

from collections.abc import Iterator

from bnaudit.comparison import Fold, FoldCause, Folds
from bnaudit.printable import printable
from bnaudit.results import Confidence, Hit, Severity
from bnaudit.rules import Case, rule

_AGAIN = "fold again from the model in eval mode with its own epsilon, and compare outputs before and after"
_ADVICE = {
    FoldCause.EPSILON: "fold again with the epsilon that the norm has",
    FoldCause.OLDER_STATISTICS: "fold again, after the statistics are final, from the checkpoint that is to be served",
    FoldCause.PADDING: "keep the norm, or pad with the value that it turns into 0, before the convolution",
    FoldCause.OTHER_WEIGHTS: "compare with the checkpoint that was exported; this fold was made of other weights",
    FoldCause.HALF_PRECISION: "nothing to do where half precision is meant; else fold in float32",
}
_EPSILON = "look into the model's code which epsilon this norm has; a state dict does not say"
_FEWEST = 3
"""Folds of which one can be the odd one."""
_UNFOUND = (
    "compare outputs (--inputs) to see whether these norms are missed, or leave out the branch that they stand in"
)


@rule(id="BN605", severity=Severity.ERROR, needs=("baseline",), limits={"change": 1e-3})
def folded_mismatch(case: Case) -> Iterator[Hit]:
    """One hit per norm whose fold differs, and one for all whose convolution was not found."""
    folds = case.comparison.folds if case.comparison is not None else None
    if case.comparison is None or folds is None:
        return
    part = case.comparison.subject_part.name
    for fold in folds.folds:
        if fold.cause is not FoldCause.EQUAL:
            yield from _mismatch(fold, folds, case.limits["change"], part)
    yield from _odd_epsilons(folds, part)
    if folds.unfound:
        yield _unfound(folds, part)


def _mismatch(fold: Fold, folds: Folds, limit: float, part: str) -> Iterator[Hit]:
    change = max(fold.gain_residual or 0.0, fold.shift_residual or 0.0)
    known = fold.gain_residual is not None
    if fold.cause is FoldCause.EPSILON and known and change <= limit:
        return
    small = known and change <= limit and fold.cause is not FoldCause.LEFT_OUT
    is_note = small or fold.cause is FoldCause.HALF_PRECISION
    yield Hit(
        message=f"{_place(fold, folds)}: {printable(fold.detail)}",
        advice=_ADVICE.get(fold.cause, _AGAIN),
        layer=fold.layer,
        part=part,
        value=float(f"{change:.3g}") if known else fold.cause.value,
        limit=float(f"{fold.limit:.2g}") if known and fold.limit is not None else None,
        channels=fold.channels,
        severity=Severity.NOTE if is_note else None,
        confidence=_confidence(fold),
    )


def _odd_epsilons(folds: Folds, part: str) -> Iterator[Hit]:
    """Where no norm states its epsilon: those that were folded with another one than most."""
    solved = [fold for fold in folds.folds if fold.cause is FoldCause.EQUAL and fold.eps is not None]
    if len(solved) < _FEWEST:
        return
    usual = sorted(solved, key=lambda fold: fold.eps or 0.0)[len(solved) // 2]
    for fold in solved:
        if abs((fold.eps or 0.0) - (usual.eps or 0.0)) > 3.0 * ((fold.eps_error or 0.0) + (usual.eps_error or 0.0)):
            yield Hit(
                message=f"{_place(fold, folds)} with epsilon {fold.eps:g}, others with {usual.eps:g}; none is stated",
                advice=_EPSILON,
                layer=fold.layer,
                part=part,
                value=fold.eps,
                limit=usual.eps,
                severity=Severity.NOTE,
            )


def _place(fold: Fold, folds: Folds) -> str:
    """`folded into conv1 of the subject`"""
    into = f"folded into {printable(fold.into)}" if fold.into else "folded"
    words = f"{into} of the {folds.folded}"
    return f"{words}, which stands behind it" if fold.before else words


def _confidence(fold: Fold) -> Confidence:
    """Numbers that could not be compared prove nothing."""
    return Confidence.HIGH if fold.gain_residual is not None else Confidence.MEDIUM


def _unfound(folds: Folds, part: str) -> Hit:
    count = len(folds.unfound)
    first = printable(folds.unfound[0])
    more = f" and {count - 1:,} more" if count > 1 else ""
    why = f" ({printable(folds.remarks[0])})" if folds.remarks else ""
    return Hit(
        message=f"no layer of the {folds.folded} holds the fold of {first}{more}: not compared{why}",
        advice=_UNFOUND,
        part=part,
        value=count,
        severity=Severity.NOTE,
        undecided="norms that were folded could not all be found again",
    )
