"""What of two layers' configuration differs; what one side does not say never does."""

from __future__ import annotations

import math

from bnaudit.description import CUMULATIVE, Cumulative, Evidence, NormKind, NormLayer
from bnaudit.matching.signatures import family
from bnaudit.modes import norm_depends_on_mode

_TELLING = frozenset({Evidence.CLASS, Evidence.OPERATOR})
_SAME = 1e-5
"""Relative; a float32 1e-5 in a graph, 9.9999997e-06, is 1e-5."""


def differing_fields(subject: NormLayer, baseline: NormLayer) -> tuple[str, ...]:
    """Of kind, eps, tracks_statistics, affine, momentum, channels."""
    differs = {
        "kind": _kind_differs(subject, baseline),
        "eps": subject.eps is not None and baseline.eps is not None and not _same_number(subject.eps, baseline.eps),
        "tracks_statistics": _unlike(subject.tracks_statistics, baseline.tracks_statistics)
        or _unlike(holds_statistics(subject), holds_statistics(baseline)),
        "affine": _affine_differs(subject, baseline),
        "momentum": _momentum_differs(subject, baseline),
        "channels": _unlike(subject.channels, baseline.channels),
    }
    return tuple(name for name, is_different in differs.items() if is_different)


def holds_statistics(layer: NormLayer) -> bool | None:
    """Whether both running statistics are stored; None: no tensor of it is, the artifact does not say.

    A state dict that lost its buffers, and still has the counter, tracks statistics and has none.
    """
    if layer.running_mean is not None and layer.running_var is not None:
        return True
    return False if layer.tensors else None


def has_identity_affine(layer: NormLayer) -> bool:
    """Weight 1 and bias 0 throughout, as PyTorch builds them, or absent: the affine step changes nothing."""
    gamma, beta = layer.gamma, layer.beta
    return (gamma is None or bool((gamma == 1.0).all())) and (beta is None or not beta.any())


def _same_number(one: float, other: float) -> bool:
    """Equal but for a rounding to float32."""
    return one == other or math.isclose(one, other, rel_tol=_SAME) or (math.isnan(one) and math.isnan(other))


def modes(subject: NormLayer, baseline: NormLayer) -> tuple[str, str] | None:
    """The modes, the baseline's first, where both say and they differ; of norms that have modes."""
    ours, theirs = _training(subject), _training(baseline)
    if not (norm_depends_on_mode(subject) and norm_depends_on_mode(baseline)):
        return None
    if ours is None or theirs is None or ours == theirs:
        return None
    return ("training", "eval") if theirs else ("eval", "training")


def counters(subject: NormLayer, baseline: NormLayer) -> tuple[float, float] | None:
    """num_batches_tracked, the baseline's first, where both have one."""
    ours, theirs = subject.counter, baseline.counter
    return None if ours is None or theirs is None else (theirs, ours)


def _training(layer: NormLayer) -> bool | None:
    return layer.training if layer.graph_training is None else layer.graph_training


def _unlike(one: object, other: object) -> bool:
    return one is not None and other is not None and one != other


def _kind_differs(subject: NormLayer, baseline: NormLayer) -> bool:
    """Within batch norm only where both name their class: a graph does not tell SyncBatchNorm.

    From tensors alone InstanceNorm with tracking looks like batch norm: such a kind is a guess, and never differs.
    """
    if NormKind.UNKNOWN in (subject.kind, baseline.kind) or not {subject.evidence, baseline.evidence} <= _TELLING:
        return False
    by_class = subject.evidence is Evidence.CLASS and baseline.evidence is Evidence.CLASS
    return family(subject.kind) != family(baseline.kind) or (by_class and subject.kind is not baseline.kind)


def _affine_differs(subject: NormLayer, baseline: NormLayer) -> bool:
    """A norm with gamma 1 and beta 0 throughout, as graphs write one without affine, is like one without."""
    if not _unlike(subject.affine, baseline.affine):
        return False
    holder = subject if subject.affine else baseline
    return holder.gamma is None or not has_identity_affine(holder)


def _momentum_differs(subject: NormLayer, baseline: NormLayer) -> bool:
    """In a graph or code momentum has no effect any more, and producers write anything."""
    one, other = subject.momentum, baseline.momentum
    if one is None or other is None or Evidence.OPERATOR in (subject.evidence, baseline.evidence):
        return False
    if isinstance(one, Cumulative) or isinstance(other, Cumulative):
        return not (one is CUMULATIVE and other is CUMULATIVE)
    return not _same_number(one, other) and abs(one - other) > _SAME
