"""BN204: batch norm with nothing but the batch to normalize with."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from builders import batch_norm, description, hits, part
from measured import eval_norm, run_hits

from bnaudit.description import Carrier, NormKind, NormLayer
from bnaudit.results import Confidence, Hit, Severity

RULE = "bn204_batch_statistics_in_eval"


def without_statistics(name: str = "bn", **fields: Any) -> NormLayer:
    return batch_norm(name, mean=None, var=None, **{"counter": None, "tracks_statistics": False, **fields})


def module_hits(*layers: NormLayer) -> list[Hit]:
    return hits(RULE, part(layers, carrier=Carrier.MODULE))


@pytest.mark.parametrize("kind", [NormKind.BATCH, NormKind.SYNC_BATCH])
@pytest.mark.parametrize("training", [True, False, None])
def test_a_batch_norm_without_tracking_and_buffers_is_found_in_any_mode(kind: NormKind, training: bool | None) -> None:
    (hit,) = module_hits(without_statistics(kind=kind, training=training))
    assert hit.confidence is Confidence.HIGH
    assert "a batch of one may fail" in hit.message


@pytest.mark.parametrize("carrier", [Carrier.SCRIPT, Carrier.PROGRAM])
def test_scripts_and_programs_show_it_too(carrier: Carrier) -> None:
    assert len(hits(RULE, part([without_statistics(graph_training=True)], carrier=carrier))) == 1


def test_a_counter_that_was_left_behind_does_not_hide_it() -> None:
    assert len(module_hits(without_statistics(counter=1000))) == 1


def test_tracking_off_with_buffers_is_another_rule() -> None:
    assert not module_hits(batch_norm(tracks_statistics=False))


@pytest.mark.parametrize("tracks", [True, None])
def test_tracking_on_or_unknown_is_silent(tracks: bool | None) -> None:
    assert not module_hits(without_statistics(tracks_statistics=tracks))


@pytest.mark.parametrize("gamma", [(1.0, 1.0, 1.0), None])
def test_instance_norm_is_healthy_without_tracking(gamma: tuple[float, ...] | None) -> None:
    assert not module_hits(without_statistics(kind=NormKind.INSTANCE, gamma=gamma, beta=gamma))


@pytest.mark.parametrize("kind", [NormKind.LAYER, NormKind.GROUP, NormKind.RMS, NormKind.FROZEN_BATCH])
def test_other_kinds_are_silent(kind: NormKind) -> None:
    assert not module_hits(without_statistics(kind=kind))


def test_a_subclass_that_does_not_say_which_is_a_note_and_leaves_the_verdict_open() -> None:
    (hit,) = module_hits(without_statistics(kind=NormKind.UNKNOWN))
    assert (hit.severity, hit.confidence) == (Severity.NOTE, Confidence.LOW)
    assert hit.undecided


def test_the_page_is_what_torch_does() -> None:
    norm = torch.nn.BatchNorm1d(1, affine=False, track_running_stats=False).eval()
    assert norm(torch.tensor([[6.0], [8.0]]))[0].item() == pytest.approx(-1.0, abs=1e-4)
    assert norm(torch.tensor([[6.0], [4.0]]))[0].item() == pytest.approx(1.0, abs=1e-4)
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        norm(torch.tensor([[6.0]]))


@pytest.mark.parametrize(("mixes", "count"), [(False, 0), (None, 1)])
def test_a_run_may_settle_what_the_class_does_not_say(mixes: bool | None, count: int) -> None:
    subject = description(part([without_statistics(kind=NormKind.UNKNOWN)], carrier=Carrier.MODULE))
    assert len(run_hits(RULE, eval_norm("bn", "bn", mixes=mixes), subject=subject)) == count
