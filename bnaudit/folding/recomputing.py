"""Reads the layers of both sides, pairs them, and judges every norm that may be folded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bnaudit.comparison import Fold, FoldCause, Folds, LinearLayer, Rename
from bnaudit.description import NormKind, NormLayer
from bnaudit.errors import UnreadableError
from bnaudit.folding.causes import is_equal, judge
from bnaudit.folding.chains import second_norm
from bnaudit.folding.counterparts import Counterparts
from bnaudit.folding.measuring import Weighed
from bnaudit.folding.norm_state import NormState, norm_state
from bnaudit.folding.pairing import Finder, Place
from bnaudit.folding.question import Suspected
from bnaudit.folding.rows import operator
from bnaudit.folding.verdict import Verdict
from bnaudit.linear_layers import linear_layers
from bnaudit.matching import renamed
from bnaudit.matching.naming import plain_name

Norms = Sequence[tuple[NormLayer, NormState]]
Judged = tuple[NormLayer, Place, Verdict]

_NO_EVIDENCE = (FoldCause.OTHER_WEIGHTS, FoldCause.LEFT_OUT, FoldCause.UNKNOWN)
_UNEXPLAINED = (FoldCause.UNKNOWN, FoldCause.OLDER_STATISTICS)
"""Causes that leave room for another explanation."""
_MOST_REMARKS = 8
_FROZEN = "frozen, and in code a product and a sum, which was not looked for"
_SCALED = 1e-3
"""Of a channel's direction: above the rounding of half precision, and below what training turns."""


def recomputed(suspected: Suspected, renames: Sequence[Rename]) -> Folds | None:
    """The folds; None when nothing but missing norms speaks for one."""
    holder, other = suspected.holder, suspected.other
    if holder.path is None or other.path is None:
        return _unread(suspected, "the weights of a live model are in no file: folds were not recomputed")
    try:
        with (
            linear_layers(holder.path, holder.part, holder.caps) as own,
            linear_layers(other.path, other.part, other.caps) as others,
        ):
            return _folds(suspected, own, others, renames) if own and others else None
    except UnreadableError as error:
        return _unread(suspected, f"folds were not recomputed: {error}")


def _folds(
    suspected: Suspected, own: Sequence[LinearLayer], others: Sequence[LinearLayer], renames: Sequence[Rename]
) -> Folds | None:
    known = [(layer, state) for layer in suspected.norms if (state := norm_state(layer)) is not None]
    finder = Finder(known, own, _counterparts(own, others, renames, backwards=suspected.folded == "subject"))
    places = finder.places()
    folded = _judged(known, places)
    shown = any(fold.cause not in _NO_EVIDENCE for fold in folded) or _are_scaled(list(places.values()), len(known))
    if not suspected.other.part.folded and not shown:
        return None
    arithmetic = _arithmetic(suspected, folded)
    kept = [fold for fold in folded if fold.layer not in arithmetic]
    there = {*(fold.layer for fold in kept), *arithmetic}
    return Folds(
        folded=suspected.folded,
        folds=tuple(kept),
        unfound=tuple(layer.name for layer in suspected.norms if layer.name not in there),
        remarks=(*_of_frozen(arithmetic), *_remarks(finder)),
    )


def _arithmetic(suspected: Suspected, folded: Sequence[Fold]) -> list[str]:
    """Frozen norms that may stand in the other side's code as their forward() writes them, behind a layer as it was."""
    if not suspected.other.part.carrier.has_code:
        return []
    within = {fold.layer for fold in folded if fold.cause is not FoldCause.LEFT_OUT}
    frozen = [layer.name for layer in suspected.norms if layer.kind is NormKind.FROZEN_BATCH]
    return [name for name in frozen if name not in within]


def _are_scaled(places: Sequence[Place], norms: int) -> bool:
    """Whether most norms have a layer whose channels are multiples of what they were, and not what they were."""
    scaled = [
        place
        for place in places
        if place.named and not place.weighed.unchanged and place.weighed.entries > 1 and place.weighed.turned < _SCALED
    ]
    return 2 * len(scaled) > norms


def _judged(known: Norms, places: Mapping[str, Place]) -> list[Fold]:
    """The folds of the norms whose layers are there."""
    judged = [
        (layer, place, _judge(layer, state, place, known))
        for layer, state in known
        if (place := places.get(layer.name)) is not None
    ]
    related = [place.related or verdict.cause is FoldCause.PERMUTED for _, place, verdict in judged]
    # In a net whose other norms were found, a layer at the right place is the one; among strangers it is any.
    usual = 2 * sum(related) > len(known)
    kept = [each for each, is_related in zip(judged, related, strict=True) if usual or is_related]
    return [_fold(*each) for each in _with_seconds(kept, known)]


def _with_seconds(judged: list[Judged], known: Norms) -> Iterator[Judged]:
    """The same, with norms that were folded behind another one into the same layer."""
    there = {layer.name for layer, _, _ in judged}
    states = {layer.name: state for layer, state in known}
    alone = [each for each in known if each[0].name not in there]
    for layer, place, verdict in judged:
        second = None
        if verdict.cause in _UNEXPLAINED and alone:
            second = second_norm(place.weighed, states[layer.name], alone)
        if second is None:
            yield layer, place, verdict
            continue
        alone = [each for each in alone if each[0] is not second]
        for one, other in ((layer, second), (second, layer)):
            yield one, place, Verdict(FoldCause.EQUAL, f"equal to rounding, folded together with {other.name}")


def _counterparts(
    own: Sequence[LinearLayer], others: Sequence[LinearLayer], renames: Sequence[Rename], *, backwards: bool
) -> Counterparts:
    names = [(layer, tuple(_names(layer.name, renames, backwards=backwards))) for layer in own]
    return Counterparts(names, others, [plain_name(layer.name) for layer in others])


def _names(name: str, renames: Sequence[Rename], *, backwards: bool) -> Iterator[str]:
    """What the layer may be called on the other side. Renames lead from the subject's names to the baseline's."""
    plain = plain_name(name)
    yield plain
    together = plain
    for rename in renames:
        turned = Rename(old=rename.new, new=rename.old, layers=rename.layers) if backwards else rename
        yield renamed(plain, turned)
        together = renamed(together, turned)
    yield together


def _judge(layer: NormLayer, state: NormState, place: Place, known: Norms) -> Verdict:
    """The verdict; what no cause explains is tried as the fold of every other norm of that size."""
    try:
        verdict = judge(place.weighed, state)
    except UnreadableError as error:
        return Verdict(FoldCause.UNKNOWN, f"the weights could not be read again: {error}")
    if verdict.cause not in _UNEXPLAINED:
        return verdict
    for other, another in known:
        if other is not layer and another.mean.shape == state.mean.shape and is_equal(place.weighed, another):
            return verdict._replace(cause=FoldCause.UNKNOWN, detail=f"it is the fold of another norm, {other.name}")
    return verdict


def _fold(layer: NormLayer, place: Place, verdict: Verdict) -> Fold:
    weighed = place.weighed
    cause, detail = verdict.cause, verdict.detail
    before = weighed.mixing is not None
    if before and cause in (FoldCause.EQUAL, FoldCause.UNKNOWN) and _inexact(weighed) and _shifts(layer):
        cause, detail = FoldCause.PADDING, _inexact(weighed)
    return Fold(
        layer=layer.name,
        linear=weighed.own.name,
        into=weighed.other.name,
        operator=operator(weighed.own, weighed.other, weighed.form),
        before=before,
        cause=cause,
        detail=detail,
        gain_residual=verdict.gain_residual,
        shift_residual=verdict.shift_residual,
        limit=verdict.limit,
        eps=verdict.eps,
        eps_error=verdict.eps_error,
        channels=verdict.channels,
    )


def _inexact(weighed: Weighed) -> str:
    """Why a norm in front of this layer is no multiplication of weights and one bias; "" when it is."""
    if weighed.form.transposed:
        return "a transposed convolution adds as many taps as overlap, so that no single bias holds the norm's shift"
    if weighed.own.padded or weighed.other.padded:
        return "the convolution pads with 0, which the norm would have shifted: at the border the fold is not exact"
    return ""


def _shifts(layer: NormLayer) -> bool:
    """Whether the norm turns a 0 into something else in any channel."""
    state = norm_state(layer)
    return state is not None and bool(state.affine(state.usual_eps).shift.any())


def _of_frozen(names: Sequence[str]) -> Iterator[str]:
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"{names[0]}{more} not compared: {_FROZEN}"


def _remarks(finder: Finder) -> Iterator[str]:
    unread = list(finder.unread.items())
    for name, why in unread[:_MOST_REMARKS]:
        yield f"{name} was not compared: {why}"
    if len(unread) > _MOST_REMARKS:
        yield f"{len(unread) - _MOST_REMARKS} more layers were not compared"


def _unread(suspected: Suspected, why: str) -> Folds | None:
    """What is said when weights cannot be read: nothing, unless the other side shows by itself that it folded."""
    if not suspected.other.part.folded:
        return None
    return Folds(
        folded=suspected.folded, folds=(), unfound=tuple(layer.name for layer in suspected.norms), remarks=(why,)
    )
