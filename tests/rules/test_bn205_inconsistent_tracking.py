"""BN205: the flag and the buffers disagree."""

from __future__ import annotations

import pytest
import torch
from builders import batch_norm, hits, part

from bnaudit.description import Carrier, NormKind, NormLayer
from bnaudit.results import Confidence, Hit
from bnaudit.rules import load_rule

RULE = "bn205_inconsistent_tracking"
WITHOUT_STATISTICS = {"mean": None, "var": None, "counter": None}


def module_hits(*layers: NormLayer) -> list[Hit]:
    return hits(RULE, part(layers, carrier=Carrier.MODULE))


def test_tracking_off_with_buffers_is_found() -> None:
    (hit,) = module_hits(batch_norm("bn", tracks_statistics=False))
    assert hit.layer == "bn"
    assert hit.confidence is Confidence.HIGH
    assert hit.settles is None, "a warning, so that it fails its question"


def test_one_buffer_left_is_enough() -> None:
    assert len(module_hits(batch_norm(tracks_statistics=False, mean=None))) == 1


def test_tracking_on_without_buffers_is_found_and_does_not_speak_about_freezing() -> None:
    (hit,) = module_hits(batch_norm(tracks_statistics=True, **WITHOUT_STATISTICS))
    assert hit.settles is False


def test_what_the_class_promises_and_lacks_is_bn101s() -> None:
    assert "BN101" in load_rule(RULE).yields_to


def test_consistent_layers_are_silent() -> None:
    assert not module_hits(
        batch_norm("a", tracks_statistics=True),
        batch_norm("b", tracks_statistics=False, **WITHOUT_STATISTICS),
    )


def test_a_counter_alone_is_no_buffer() -> None:
    assert not module_hits(batch_norm(tracks_statistics=False, mean=None, var=None, counter=100))


def test_an_unknown_flag_is_silent() -> None:
    assert not module_hits(batch_norm(tracks_statistics=None), batch_norm("b", **WITHOUT_STATISTICS))


@pytest.mark.parametrize("kind", [NormKind.INSTANCE, NormKind.FROZEN_BATCH, NormKind.GROUP, NormKind.LAYER])
def test_other_kinds_are_silent(kind: NormKind) -> None:
    assert not module_hits(batch_norm(kind=kind, tracks_statistics=False))


def test_a_subclass_of_unknown_kind_is_of_medium_confidence_and_claims_less() -> None:
    (hit,) = module_hits(batch_norm(kind=NormKind.UNKNOWN, tracks_statistics=False))
    assert hit.confidence is Confidence.MEDIUM
    assert "batch" not in hit.message


def test_the_page_is_what_torch_does() -> None:
    norm = torch.nn.BatchNorm1d(1, affine=False)
    for batch in ((2.0, 4.0), (6.0, 8.0)):
        norm(torch.tensor(batch)[:, None])
    norm.track_running_stats = False
    given = torch.tensor([[6.0], [8.0]])
    assert norm(given)[0].item() == pytest.approx(-1.0, abs=1e-4)
    assert (norm.running_mean.item(), norm.running_var.item()) == (pytest.approx(0.97), pytest.approx(1.19))
    assert norm.eval()(given)[0].item() == pytest.approx(4.61, abs=5e-3)


@pytest.mark.parametrize(
    ("kind", "confidence"),
    [
        (NormKind.BATCH, Confidence.HIGH),
        (NormKind.SYNC_BATCH, Confidence.HIGH),
        (NormKind.UNKNOWN, Confidence.MEDIUM),
    ],
)
def test_both_ways_are_as_sure_as_the_kind_is(kind: NormKind, confidence: Confidence) -> None:
    layers = (
        batch_norm("a", kind=kind, tracks_statistics=False),
        batch_norm("b", kind=kind, tracks_statistics=True, **WITHOUT_STATISTICS),
    )
    assert [(hit.layer, hit.confidence) for hit in module_hits(*layers)] == [("a", confidence), ("b", confidence)]
