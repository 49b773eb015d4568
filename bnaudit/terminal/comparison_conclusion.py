"""What a comparison came to, in a sentence or two that all reports use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from bnaudit.arithmetic import PYTORCH_EPS
from bnaudit.comparison import Comparison, Fold, FoldCause, Move, OutputPair, RoundTrip
from bnaudit.description import NormLayer
from bnaudit.matching.absence import is_missing
from bnaudit.printable import printable
from bnaudit.terminal.amounts import plural

_FIELDS = {"eps": "epsilon", "tracks_statistics": "running statistics"}
_EQUAL = (FoldCause.EQUAL, FoldCause.HALF_PRECISION)


class Standing(NamedTuple):
    """How many pairs of layers are equal in one respect, differ, or cannot be told: one of the two does not say."""

    what: str
    equal: int
    differing: int
    untold: int


def conclusion(comparison: Comparison) -> tuple[str, ...]:
    """The result first, then what else differs as a whole."""
    if comparison.round_trip is not None:
        return (_round_trip(comparison.round_trip),)
    unpaired = _unpaired(comparison)
    foreign = len(lacking(comparison)) + len(surplus(comparison)) > len(comparison.moves)
    said = [*unpaired, _norms(comparison)] if foreign else [_norms(comparison), *unpaired]
    for more in (_folded, _reshaped, _outputs):
        said += more(comparison)
    return tuple(filter(None, said))


def is_equal(comparison: Comparison) -> bool:
    """Whether nothing that was compared differs, rounding to a narrower dtype apart."""
    trip = comparison.round_trip
    if trip is not None:
        return not trip.not_done and not trip.changed and _all_within(trip.outputs)
    folds, ran = comparison.folds, comparison.run
    unequal = (
        any(map(differs, comparison.moves))
        or bool(comparison.reshaped)
        or (folds is not None and (bool(folds.unfound) or any(fold.cause not in _EQUAL for fold in folds.folds)))
        or (ran is not None and (ran.reference_in_eval is False or not _all_within(ran.outputs)))
    )
    return comparison.compared and not (unequal or lacking(comparison) or surplus(comparison))


def standings(comparison: Comparison) -> tuple[Standing, ...]:
    """Affine parameters, statistics, configuration and mode apart."""
    moves = comparison.moves
    pairs = [(move, pair.baseline, pair.subject) for move, pair in zip(moves, comparison.matching.pairs, strict=True)]
    return (
        _standing("weight, bias", [move.affine_equal for move in moves]),
        _standing("mean, variance", [move.statistics_equal for move in moves]),
        _standing("configuration", [_configuration(*each) for each in pairs]),
        _standing("mode", [_mode(*each) for each in pairs]),
    )


def lacking(comparison: Comparison) -> tuple[NormLayer, ...]:
    """The baseline's norm layers that have no partner and were not folded either."""
    return _unfolded(comparison, "subject", comparison.matching.only_baseline)


def surplus(comparison: Comparison) -> tuple[NormLayer, ...]:
    """The subject's likewise."""
    return _unfolded(comparison, "baseline", comparison.matching.only_subject)


def by_cause(folds: tuple[Fold, ...]) -> list[tuple[FoldCause, list[Fold]]]:
    """The folds of each cause, the most frequent first, equal ones last."""
    counted = Counter(fold.cause for fold in folds)
    order = sorted(counted, key=lambda cause: (cause is FoldCause.EQUAL, -counted[cause]))
    return [(cause, [fold for fold in folds if fold.cause is cause]) for cause in order]


def _unfolded(comparison: Comparison, side: str, layers: tuple[NormLayer, ...]) -> tuple[NormLayer, ...]:
    """Those that can be said to be missing. One whose fold was not found is none that was folded."""
    folds = comparison.folds
    unfound = set(folds.unfound) if folds is not None and folds.folded == side else set()
    return tuple(layer for layer in layers if layer.name in unfound or is_missing(comparison, layer, side))


def _round_trip(trip: RoundTrip) -> str:
    if trip.not_done:
        return "nothing could be compared: the round trip was not done"
    apart = sum(not pair.within_floor for pair in trip.outputs)
    if not trip.changed and not apart:
        return f"came back as it was: what it holds, and {plural(len(trip.outputs), 'output')}"
    changed = [f"{plural(len(trip.changed), 'thing')} came back otherwise"] if trip.changed else []
    return "; ".join([*changed, *([f"{plural(apart, 'output')} differ{'s' if apart == 1 else ''}"] if apart else [])])


def _all_within(outputs: Sequence[OutputPair]) -> bool:
    return all(pair.within_floor for pair in outputs)


def _norms(comparison: Comparison) -> str:
    moves = comparison.moves
    if not moves:
        folded = comparison.folds is not None and bool(comparison.folds.folds)
        return "" if folded else _nothing(comparison)
    if not any(map(_is_held, moves)):
        return f"nothing could be compared: no values of {plural(len(moves), 'norm layer')} are in both"
    moved = [move for move in moves if _moved(move)]
    if not moved:
        return _unmoved(comparison)
    if len(moved) == len(moves):
        return _all_moved(moves, is_all=not (lacking(comparison) or surplus(comparison)))
    still = [move for move in moves if not _moved(move)]
    return f"{len(moved)} of {plural(len(moves), 'norm layer')} moved: {_kinds(moved)}; {_stand(still)}"


def _stand(still: list[Move]) -> str:
    others = f"the other {len(still)} are" if len(still) > 1 else "the other one is"
    return f"{others} equal {_how(still)}"


def _how(equal: Sequence[Move]) -> str:
    """`bit for bit`, or after a rounding to which dtypes."""
    rounded = list(dict.fromkeys(move.rounding for move in equal if move.rounding))
    return f"up to rounding to {' and '.join(rounded)}" if rounded else "bit for bit"


def _nothing(comparison: Comparison) -> str:
    if not comparison.baseline_part.layers and not comparison.subject_part.layers:
        return "nothing could be compared: neither holds a norm layer"
    if not comparison.subject_part.layers or not comparison.baseline_part.layers:
        side = "baseline" if not comparison.baseline_part.layers else "subject"
        return f"nothing could be compared: the {side} holds no norm layer, and none was found folded"
    return "nothing could be compared: no norm layer of one is found in the other"


def _unmoved(comparison: Comparison) -> str:
    moves = comparison.moves
    layers = plural(sum(map(_is_held, moves)), "norm layer")
    configured = Counter(field for move in moves for field in move.configuration)
    modes = sum(move.modes is not None for move in moves)
    apart = [f"{_FIELDS.get(field, field.replace('_', ' '))} in {count}" for field, count in configured.most_common()]
    apart += [f"mode in {modes}"] if modes else []
    if apart:
        return f"the numbers that both have are equal in {layers}, {_how(moves)}; what differs: {', '.join(apart)}"
    names = ", under other names" if comparison.matching.renames else ""
    told = [move.affine_equal is not None for move in moves], [move.statistics_equal is not None for move in moves]
    what = "" if any(told[0]) and any(told[1]) else "the weights of " if any(told[0]) else "the statistics of "
    return f"equal: {what}{layers}, {_how(moves)}{names}"


def _all_moved(moves: tuple[Move, ...], is_all: bool) -> str:
    layers = {1: "the one norm layer", 2: "both norm layers"}.get(len(moves), f"all {len(moves)} norm layers")
    layers = layers if is_all else f"{layers} that both have"
    equal = {move.affine_equal for move in moves}, {move.statistics_equal for move in moves}
    if equal == ({True}, {False}):
        return f"statistics moved and weights stood still, in {layers}"
    if equal == ({False}, {True}):
        return f"weights moved and statistics stood still, in {layers}"
    if equal == ({False}, {False}) and not is_all:
        return f"weights and statistics moved in {layers}"
    if equal == ({False}, {False}):
        return f"everything moved: weights and statistics of {layers}, nothing stood still"
    if equal == ({False}, {None}):
        return f"the weights of {layers} moved"
    if equal == ({None}, {False}):
        return f"the statistics of {layers} moved"
    return f"{layers} moved: {_kinds(moves)}"


def _kinds(moves: list[Move] | tuple[Move, ...]) -> str:
    both = sum(move.affine_equal is False and move.statistics_equal is False for move in moves)
    affine = sum(move.affine_equal is False for move in moves) - both
    statistics = sum(move.statistics_equal is False for move in moves) - both
    counted = [(both, "weights and statistics"), (affine, "weights alone"), (statistics, "statistics alone")]
    return ", ".join(f"{what} of {count}" for count, what in counted if count)


def _folded(comparison: Comparison) -> list[str]:
    folds = comparison.folds
    if folds is None or not folds.folds:
        return []
    total = len(folds.folds)
    layers = f"{plural(total, 'norm layer')} {'is' if total == 1 else 'are'} folded in the {folds.folded}"
    if all(fold.cause in _EQUAL for fold in folds.folds):
        half = any(fold.cause is FoldCause.HALF_PRECISION for fold in folds.folds)
        rightly = f"rightly to {'half precision' if half else 'rounding'}"
        return [f"equal after folding: {layers}, {rightly}{_epsilon(folds.folds)}"]
    causes = [
        f"{cause.value} in {len(found)}" for cause, found in by_cause(folds.folds) if cause is not FoldCause.EQUAL
    ]
    return [f"not equal after folding: {layers}: {', '.join(causes)}"]


def _epsilon(folds: tuple[Fold, ...]) -> str:
    """The epsilon that they were folded with, where none is stated and it is not PyTorch's default."""
    solved = [fold for fold in folds if fold.eps is not None and fold.eps_error is not None]
    usual = sorted(solved, key=lambda fold: fold.eps or 0.0)[len(solved) // 2 : len(solved) // 2 + 1]
    other = [fold for fold in usual if abs((fold.eps or 0.0) - PYTORCH_EPS) > 3.0 * (fold.eps_error or 0.0)]
    return f" with epsilon {other[0].eps:.2g}; none is stated" if other else ""


def _unpaired(comparison: Comparison) -> list[str]:
    counted = (("baseline", lacking(comparison)), ("subject", surplus(comparison)))
    named = [f"{plural(len(layers), 'norm layer')} only in the {side}" for side, layers in counted if layers]
    return [", ".join(named)] if named and comparison.compared else []


def _reshaped(comparison: Comparison) -> list[str]:
    count = len(comparison.reshaped)
    return [f"{plural(count, 'other layer')} changed shape"] if count else []


def _outputs(comparison: Comparison) -> list[str]:
    run = comparison.run
    if run is None:
        return []
    if run.reference_in_eval is False:
        return ["the outputs prove nothing: the baseline itself is not in eval mode"]
    if _all_within(run.outputs):
        exact = all(pair.shift.exact for pair in run.outputs)
        return [f"the outputs are equal {'bit for bit' if exact else 'to rounding'}"] if run.outputs else []
    flips = f", {run.flips:,} of {plural(run.decisions, 'decision')} flip" if run.flips else ""
    apart = [printable(pair.subject) for pair in run.outputs if not pair.within_floor]
    some = f" in {', '.join(apart[:4])}" if len(apart) < len(run.outputs) and all(apart) else ""
    return [f"the outputs differ{some}{flips}{f': they part at {printable(run.parts_at)}' if run.parts_at else ''}"]


def _standing(what: str, equal: list[bool | None]) -> Standing:
    return Standing(what, equal.count(True), equal.count(False), equal.count(None))


def _is_held(move: Move) -> bool:
    return move.affine_equal is not None or move.statistics_equal is not None


def _moved(move: Move) -> bool:
    return move.affine_equal is False or move.statistics_equal is False


def differs(move: Move) -> bool:
    """Whether anything that both say differs, a counter or rounding to a narrower dtype apart."""
    return _moved(move) or bool(move.configuration) or move.modes is not None


def _configuration(move: Move, baseline: NormLayer, subject: NormLayer) -> bool | None:
    if move.configuration:
        return False
    return True if baseline.eps is not None and subject.eps is not None else None


def _mode(move: Move, baseline: NormLayer, subject: NormLayer) -> bool | None:
    if move.modes is not None:
        return False
    said = [layer.graph_training if layer.training is None else layer.training for layer in (baseline, subject)]
    return None if None in said else True
