"""From the residual of a recomputed fold to its cause.

Every cause is a prediction of the folded weights and biases. One is named when it fits to rounding and no other does
within five times that; what no prediction fits is not named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bnaudit.comparison import FoldCause
from bnaudit.folding.gains import RIVAL, GainModel, gain_models, misfit, stray_misfit
from bnaudit.folding.halves import half_norms, through_half
from bnaudit.folding.measuring import SAME_DIRECTION, Weighed
from bnaudit.folding.norm_state import NormState
from bnaudit.folding.other_statistics import other_statistics
from bnaudit.folding.reordered import reordered_gains, reordered_rows
from bnaudit.folding.rounding import Rounding
from bnaudit.folding.shifts import ShiftModel, Terms, shift_misfit, shift_models, terms
from bnaudit.folding.verdict import Verdict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_MOST_CHANNELS = 16


def judge(weighed: Weighed, norm: NormState) -> Verdict:
    """What the folded layer is made of. Raises UnreadableError when weights have to be read again and cannot be."""
    import numpy as np

    if not norm.finite or not _finite(weighed):
        return Verdict(FoldCause.UNKNOWN, "numbers that are not finite, or a negative variance: not compared")
    weighed = _coarsest(weighed, norm)
    with np.errstate(all="ignore"):
        parallel = float(stray_misfit(weighed).max()) <= 1.0
        return _judge_affine(weighed, norm) if parallel else _judge_directions(weighed, norm)


def is_equal(weighed: Weighed, norm: NormState) -> bool:
    """Whether the layer is this norm's fold to rounding, by its vectors alone."""
    import numpy as np

    if not norm.finite or not _finite(weighed):
        return False
    weighed = _coarsest(weighed, norm)
    with np.errstate(all="ignore"):
        if stray_misfit(weighed).max() > 1.0:
            return False
        models = gain_models(weighed, norm)
        return bool(models) and models[0].cause is FoldCause.EQUAL and _fits_exactly(weighed, norm, models[0])


def _coarsest(weighed: Weighed, norm: NormState) -> Weighed:
    return weighed._replace(rounding=max(weighed.rounding, norm.rounding, key=lambda each: each.unit))


def _fits_exactly(weighed: Weighed, norm: NormState, model: GainModel) -> bool:
    found = terms(weighed, norm, model.gain)
    return bool(shift_misfit(weighed, found.exact, found.size).max() <= 1.0)


def _judge_affine(weighed: Weighed, norm: NormState) -> Verdict:
    """The channels are multiples of what they were: which gain, which shift?"""
    models = gain_models(weighed, norm)
    if not models:
        return _without_gain(weighed, norm)
    model = models[0]
    if len(models) > 1 and model.cause is not FoldCause.EQUAL:
        return _measured(weighed, norm, model, FoldCause.UNKNOWN, "another epsilon or gamma left out: cannot tell")
    shift, words = _shift(weighed, terms(weighed, norm, model.gain))
    if model.cause is not FoldCause.EQUAL:
        rest = "; the biases fit nothing known" if shift is None else f"; {words}" if words else ""
        return _measured(weighed, norm, model, model.cause, _gain_words(model, norm) + rest)
    if shift is None:
        return _without_shift(weighed, norm, model)
    detail = words or f"equal to rounding{_gain_words(model, norm)}"
    return _measured(weighed, norm, model, shift.cause, detail)


def _shift(weighed: Weighed, found: Terms) -> tuple[ShiftModel | None, str]:
    """The one explanation of the biases; None when none fits, or several that are different causes."""
    models = shift_models(weighed, found)
    distances = [float(shift_misfit(weighed, model.expected, found.size).max()) for model in models]
    if distances[0] <= 1.0:
        return models[0], ""
    fitting = [model for model, distance in zip(models, distances, strict=True) if distance <= 1.0]
    near = {model.cause for model, distance in zip(models, distances, strict=True) if distance <= RIVAL}
    if not fitting or len(near) > 1:
        return None, ""
    return fitting[0], " or ".join(dict.fromkeys(model.words for model in fitting))


def _without_shift(weighed: Weighed, norm: NormState, model: GainModel) -> Verdict:
    apart = float(abs(weighed.folded_bias - terms(weighed, norm, model.gain).exact).max())
    detail = f"the weights are equal to rounding, the biases differ by up to {apart:.3g} and fit no known cause"
    cause = FoldCause.UNKNOWN
    half = next(
        (half for half, rounded, _ in half_norms(norm, model.eps) if _fits_exactly(weighed, rounded, model)), None
    )
    if half is not None:
        cause, detail = FoldCause.HALF_PRECISION, f"the norm's mean and beta were rounded to {half.dtype} on the way"
    return _measured(weighed, norm, model, cause, detail)


def _without_gain(weighed: Weighed, norm: NormState) -> Verdict:
    """No gain of the norm fits: is it left out, in another order, rounded, or of another time?"""
    stated = _stated(norm)
    if weighed.unchanged:
        return _measured(weighed, norm, stated, FoldCause.LEFT_OUT, "weights and bias are as before, without the norm")
    half = _rounded_norm(weighed, norm, stated)
    if half is not None:
        detail = f"the norm's tensors were rounded to {half.dtype} before folding"
        return _measured(weighed, norm, stated, FoldCause.HALF_PRECISION, detail)
    found = reordered_gains(weighed, norm, stated.gain)
    if found:
        return _measured(weighed, norm, stated, FoldCause.PERMUTED, found)
    coarse = through_half(weighed)
    verdict = _rounded(weighed, norm, coarse) if coarse is not None else None
    return verdict or _measured(weighed, norm, stated, *other_statistics(weighed, norm, stated.eps))


def _rounded_norm(weighed: Weighed, norm: NormState, stated: GainModel) -> Rounding | None:
    """The half precision that the norm's own tensors were rounded to before folding; None: none."""
    for half, rounded, gain in half_norms(norm, stated.eps):
        if misfit(weighed, gain).max() <= 1.0 and _fits_exactly(weighed, rounded, stated._replace(gain=gain)):
            return half
    return None


def _judge_directions(weighed: Weighed, norm: NormState) -> Verdict:
    """The channels are no multiples of what they were: reordered, rounded, or another convolution."""
    stated = _stated(norm)
    if weighed.turned > SAME_DIRECTION:
        found = reordered_rows(weighed, norm, stated.gain)
        if found:
            return _measured(weighed, norm, stated, FoldCause.PERMUTED, found)
    else:
        half = through_half(weighed)
        verdict = _rounded(weighed, norm, half) if half is not None else None
        if verdict is not None:
            return verdict
    return _measured(weighed, norm, stated, *_turned(weighed))


def _turned(weighed: Weighed) -> tuple[FoldCause, str]:
    """Most channels point elsewhere: another convolution; a few: something that is not known."""
    off = stray_misfit(weighed) > 1.0
    share = f"{int(off.sum())} of {len(off)} channels"
    if off.sum() * 2 < len(off):
        return FoldCause.UNKNOWN, f"{share} are no multiples of what they were, the others are"
    apart = f"their directions are {weighed.turned:.1g} apart (median)"
    return FoldCause.OTHER_WEIGHTS, f"{share} are no multiples of what they were: {apart}"


def _rounded(weighed: Weighed, norm: NormState, half: Rounding) -> Verdict | None:
    """The verdict at half precision's level; None when the weights differ by more than that."""
    coarse = weighed._replace(rounding=half)
    if stray_misfit(coarse).max() > 1.0:
        return None
    models = gain_models(coarse, norm)
    if not models:
        return None
    verdict = _judge_affine(coarse, norm)
    if verdict.cause is FoldCause.EQUAL:
        detail = f"equal to a rounding to {half.dtype} on the way, though {weighed.rounding.dtype} is stored"
        return verdict._replace(cause=FoldCause.HALF_PRECISION, detail=detail)
    return verdict._replace(detail=f"{verdict.detail}; rounded to {half.dtype} on the way")


def _stated(norm: NormState) -> GainModel:
    """What the norm itself says."""
    return GainModel(FoldCause.EQUAL, norm.affine(norm.usual_eps).gain, norm.usual_eps)


def _gain_words(model: GainModel, norm: NormState) -> str:
    solved = model.solved
    if model.cause is FoldCause.EQUAL:
        return f" with epsilon {solved.words}, which is not stated" if solved is not None else ""
    if model.cause is FoldCause.EPSILON and solved is not None:
        return f"epsilon {solved.words} instead of {norm.eps:g}"
    epsilon = f", with epsilon {solved.words}" if solved is not None and norm.eps is not None else ""
    return f"the gain is 1 ÷ √(variance + epsilon), without gamma{epsilon}"


def _measured(weighed: Weighed, norm: NormState, model: GainModel, cause: FoldCause, detail: str) -> Verdict:
    """The verdict with the residuals against the norm's own fold, or, where it states no epsilon, the solved one's."""
    import numpy as np

    equal_eps = model if model.cause is FoldCause.EQUAL else _stated(norm)
    gain = equal_eps.gain
    found = terms(weighed, norm, gain)
    expected = np.sqrt(((gain * weighed.size) ** 2).sum())
    off = np.sqrt((((weighed.gain - gain) * weighed.size) ** 2 + weighed.stray**2).sum())
    apart = abs(weighed.folded_bias - found.exact)
    worst = np.maximum(misfit(weighed, gain), stray_misfit(weighed))
    if weighed.mixing is None:
        worst = np.maximum(worst, shift_misfit(weighed, found.exact, found.size))
    return Verdict(
        cause=cause,
        detail=detail,
        gain_residual=float(off / expected) if expected else float(off),
        shift_residual=float(apart.max() / (1.0 + abs(found.exact).max())),
        limit=weighed.rounding.limit,
        eps=model.solved.eps if model.solved is not None else None,
        eps_error=model.solved.error if model.solved is not None else None,
        channels=_worst(worst) if cause is not FoldCause.EQUAL else (),
    )


def _worst(distances: Array) -> tuple[int, ...]:
    """The channels beyond rounding, worst first."""
    order = (-distances).argsort(kind="stable")[:_MOST_CHANNELS]
    return tuple(int(channel) for channel in order if distances[channel] > 1.0)


def _finite(weighed: Weighed) -> bool:
    import numpy as np

    vectors = (weighed.gain, weighed.stray, weighed.size, weighed.folded_size, weighed.bias, weighed.folded_bias)
    return all(bool(np.isfinite(values).all()) for values in vectors)
