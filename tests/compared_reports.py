"""Comparisons made by hand, one for each way in which they can come out, as reports show them."""

from __future__ import annotations

from typing import Any

from builders import description, part
from compared import comparison, trained

from bnaudit.comparing.shown import Shown
from bnaudit.comparing.use_case import concluded, rules_on_two
from bnaudit.comparison import (
    ComparedRun,
    Fold,
    FoldCause,
    Folds,
    Matching,
    OutputPair,
    Parting,
    Reshaped,
    RoundTrip,
)
from bnaudit.description import Carrier, Gap, Part
from bnaudit.measurement import Shift
from bnaudit.records import replace
from bnaudit.results import Audit
from bnaudit.settings import Settings

LAYERS = [trained(f"layer{n}.bn", seed=n) for n in range(12)]
MOVED = [trained(f"layer{n}.bn", seed=n + 50) for n in range(12)]
FOLDED = part([], carrier=Carrier.GRAPH, folded="12 of 12 convolutions carry a bias")
APART = Shift(exact=False, difference=1.5, scale=4.0, epsilons=1e6, output="logits", dtype="float32", flips=3)


def compared_audit(subject: Part, baseline: Part, path: str = "model.pt", **fields: Any) -> Audit:
    """The subject, of this path, against the baseline, `trained.pt`; `fields` are the Comparison's."""
    settings = Settings()
    found = comparison(
        subject, baseline, **{"not_run": "no inputs were given", "run_needs": "--inputs x.npz", **fields}
    )
    trusted = replace(found.baseline, artifact=replace(found.baseline.artifact, path="trained.pt"))
    own = description(subject, gaps=(Gap(where="data/7", why="sparse tensor", hides_norms=False),))
    own = replace(own, artifact=replace(own.artifact, path=path))
    shown = Shown(own, replace(found, baseline=trusted), own.gaps)
    return concluded(shown, settings, rules_on_two(settings, roundtrip=False))


def fold(layer: str, cause: FoldCause = FoldCause.EQUAL, **fields: Any) -> Fold:
    """A norm folded into the convolution before it."""
    settings = {"linear": f"{layer}.conv", "into": f"{layer}.conv", "operator": "conv", "before": False, "detail": ""}
    return Fold(layer=layer, cause=cause, gain_residual=6e-8, **{**settings, **fields})


def run(**fields: Any) -> ComparedRun:
    """A run in which the outputs differ from one layer on."""
    settings: dict[str, Any] = {
        "runners": ("PyTorch 2.13.0", "onnxruntime 1.22.0"),
        "inputs": "digits.npz, 16 of 360 samples",
        "synthetic": False,
        "samples": 16,
        "outputs": (OutputPair(subject="logits", baseline="output", shift=APART, floor=1e-5, rows=(4, 7)),),
        "partings": (parting("layer3.bn", originates=True), parting("layer4.bn", originates=False)),
        "parts_at": "layer3.bn (its own statistics)",
        "flips": 3,
        "decisions": 16,
        "reference_in_eval": True,
        "subject_in_eval": True,
    }
    return ComparedRun(**{**settings, **fields})


def parting(layer: str, originates: bool) -> Parting:
    """A layer that both ran."""
    reason = "its own statistics" if originates else ""
    return Parting(layer=layer, baseline_layer=layer, entered=0.0, floor=1e-5, originates=originates, reason=reason)


def equal() -> Audit:
    """Twelve layers, bit for bit the same."""
    return compared_audit(part(LAYERS), part(LAYERS))


def everything_moved() -> Audit:
    """Twelve layers that all moved, and another that changed shape."""
    reshaped = (Reshaped(layer="head", baseline_layer="head", shapes=((10, 16), (7, 16))),)
    return compared_audit(part(MOVED), part(LAYERS), reshaped=reshaped, remarks=("two parts were there",))


def folded(*causes: FoldCause) -> Audit:
    """Twelve layers folded, the first ones with these causes."""
    every = [*causes, *[FoldCause.EQUAL] * (len(LAYERS) - len(causes))]
    folds = [fold(layer.name, cause, detail=f"{cause.value} seen") for layer, cause in zip(LAYERS, every, strict=True)]
    return compared_audit(FOLDED, part(LAYERS), folds=Folds(folded="subject", folds=tuple(folds)))


def nothing() -> Audit:
    """Nothing of one is in the other."""
    return compared_audit(part([]), part([]))


def ran(**fields: Any) -> Audit:
    """Equal states, outputs that differ."""
    return compared_audit(part(LAYERS), part(LAYERS), run=run(**fields), not_run="", run_needs="")


def came_back(**fields: Any) -> Audit:
    """A round trip."""
    settings: dict[str, Any] = {
        "changed": (),
        "outputs": (OutputPair(subject="", baseline="", shift=APART, floor=2.0),),
    }
    trip = RoundTrip(**{**settings, **fields})
    whole = compared_audit(part(LAYERS), part(LAYERS), "trained.pt", not_run=trip.not_done, run_needs="")
    assert whole.comparison is not None
    empty = replace(whole.comparison, matching=Matching(pairs=()), moves=(), round_trip=trip)
    shown = Shown(whole.description, empty, failed=bool(trip.not_done))
    return concluded(shown, Settings(), rules_on_two(Settings(), roundtrip=True))


def all_of_them() -> dict[str, Audit]:
    """Each with its name."""
    other = Parting(layer="x", baseline_layer="x", entered=1.0, floor=1e-5, originates=False)
    return {
        "equal": equal(),
        "everything moved": everything_moved(),
        "folded": folded(),
        "folded wrongly": folded(FoldCause.EPSILON, FoldCause.EPSILON, FoldCause.PERMUTED),
        "nothing": nothing(),
        "outputs differ": ran(),
        "no reference": ran(reference_in_eval=False, reference_why="layer1.bn is in training mode", partings=(other,)),
        "came back": came_back(),
        "came back otherwise": came_back(changed=("bn1.running_mean",)),
        "not done": came_back(not_done="the fresh process could not import net.py", outputs=()),
    }
