"""BN501: frozen weights over moving statistics."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from builders import batch_norm, description, hits, part
from measured import run_hits

from bnaudit.description import CUMULATIVE, Carrier, NormKind, NormLayer
from bnaudit.measurement import Trained
from bnaudit.results import Confidence, Hit

RULE = "bn501_frozen_weights_updating_buffers"


def frozen(name: str = "backbone.bn", **fields: Any) -> NormLayer:
    settings: dict[str, Any] = {"training": True, "tracks_statistics": True, "requires_grad": False}
    return batch_norm(name, **{**settings, **fields})


def module_hits(*layers: NormLayer, **fields: Any) -> list[Hit]:
    return hits(RULE, part(layers, carrier=Carrier.MODULE, **{"trainable": 2, "frozen": 10, **fields}))


def test_a_frozen_norm_in_training_mode_in_a_model_that_trains_is_found() -> None:
    (hit,) = module_hits(frozen())
    assert (hit.layer, hit.confidence, hit.severity) == ("backbone.bn", Confidence.HIGH, None)


def test_another_norm_that_trains_is_enough() -> None:
    found = module_hits(frozen(), frozen("head.bn", requires_grad=True), trainable=0)
    assert [hit.layer for hit in found] == ["backbone.bn"]
    assert len(module_hits(frozen(), frozen("head.bn", requires_grad=True), trainable=None)) == 1


def test_when_nothing_trains_it_is_a_plain_model_in_training_mode() -> None:
    assert not module_hits(frozen(), trainable=0)


def test_when_it_is_unknown_whether_anything_trains_it_is_silent() -> None:
    assert not module_hits(frozen(), trainable=None)


@pytest.mark.parametrize("training", [False, None])
def test_norms_kept_in_eval_or_in_unknown_mode_are_silent(training: bool | None) -> None:
    assert not module_hits(frozen(training=training))


@pytest.mark.parametrize("requires_grad", [True, None])
def test_trained_and_unknown_weights_are_silent(requires_grad: bool | None) -> None:
    assert not module_hits(frozen(requires_grad=requires_grad))


@pytest.mark.parametrize("tracks", [False, None])
def test_without_tracking_or_with_unknown_tracking_it_is_silent(tracks: bool | None) -> None:
    assert not module_hits(frozen(tracks_statistics=tracks))


def test_momentum_0_moves_nothing_and_the_plain_average_does() -> None:
    assert not module_hits(frozen(momentum=0.0))
    assert len(module_hits(frozen(momentum=CUMULATIVE))) == 1


@pytest.mark.parametrize("kind", [NormKind.FROZEN_BATCH, NormKind.INSTANCE, NormKind.LAYER, NormKind.GROUP])
def test_other_kinds_are_silent(kind: NormKind) -> None:
    assert not module_hits(frozen(kind=kind))


def test_an_affine_free_norm_is_frozen_with_the_block_around_it() -> None:
    (hit,) = module_hits(frozen(gamma=None, beta=None, block_requires_grad=False))
    assert (hit.confidence, hit.severity) == (Confidence.HIGH, None)
    assert hit.message.startswith("the block around it is frozen")


@pytest.mark.parametrize("block", [True, None])
def test_an_affine_free_norm_in_a_block_that_trains_or_is_unknown_is_silent(block: bool | None) -> None:
    assert not module_hits(frozen(gamma=None, beta=None, block_requires_grad=block))


def test_an_affine_free_norm_in_eval_in_a_frozen_block_is_silent() -> None:
    assert not module_hits(frozen(gamma=None, beta=None, block_requires_grad=False, training=False))


def test_a_subclass_of_unknown_kind_is_of_medium_confidence() -> None:
    (hit,) = module_hits(frozen(kind=NormKind.UNKNOWN))
    assert hit.confidence is Confidence.MEDIUM


def test_a_class_that_pays_no_attention_to_the_mode_is_silent() -> None:
    assert not module_hits(frozen(graph_training=False))


def test_only_pickled_modules_show_it() -> None:
    assert not hits(RULE, part([frozen()], carrier=Carrier.SCRIPT, trainable=2))


@pytest.mark.parametrize(("forwards", "mean", "variance"), [(1, 0.5, 1.3), (20, 4.39, 3.64)])
def test_the_page_numbers_are_torchs(forwards: int, mean: float, variance: float) -> None:
    norm = torch.nn.BatchNorm1d(1).requires_grad_(False)
    batch = torch.tensor([[5 - 2**0.5], [5 + 2**0.5]])
    assert batch.var(correction=1).item() == pytest.approx(4.0)
    with torch.no_grad():
        for _ in range(forwards):
            norm(batch)
    assert norm.running_mean.item() == pytest.approx(mean, abs=5e-3)
    assert norm.running_var.item() == pytest.approx(variance, abs=5e-3)
    assert (norm.weight.item(), norm.bias.item()) == (1.0, 0.0)


def live_hits(saved: NormLayer, trained: NormLayer, **fields: Any) -> list[Hit]:
    settings: dict[str, Any] = {"carrier": Carrier.MODULE, "trainable": 2, **fields}
    subject = description(part([saved], name="model", carrier=Carrier.MODULE, trainable=2))
    return run_hits(RULE, Trained(part=part([trained], **settings)), subject=subject, part="model")


def test_a_model_saved_in_eval_mode_whose_train_updates_frozen_norms_is_found() -> None:
    (hit,) = live_hits(frozen(training=False), frozen())
    assert (hit.layer, hit.part) == ("backbone.bn", "model")
    assert "model.train() puts it in training mode" in hit.message


def test_a_backbone_whose_own_train_keeps_its_norms_in_eval_is_silent() -> None:
    assert not live_hits(frozen(), frozen(training=False))


def test_a_run_where_nothing_trains_is_silent() -> None:
    assert not live_hits(frozen(), frozen(), trainable=0)


def test_without_a_measured_train_the_file_decides() -> None:
    subject = description(part([frozen()], carrier=Carrier.MODULE, trainable=2))
    assert len(run_hits(RULE, subject=subject)) == 1


def test_each_source_has_its_own_words() -> None:
    (saved,) = module_hits(frozen())
    assert (
        saved.message
        == "weight and bias are frozen, but it is in training mode: every forward pass moves its statistics"
    )
    (live,) = live_hits(frozen(), frozen())
    assert "but model.train() puts it in training mode:" in live.message


def test_a_run_of_the_whole_file_names_the_part_that_it_saw() -> None:
    subject = description(part([frozen()], name="model", carrier=Carrier.MODULE, trainable=2))
    seen = Trained(part=part([frozen()], name="net", carrier=Carrier.MODULE, trainable=2))
    (hit,) = run_hits(RULE, seen, subject=subject, part="")
    assert hit.part == "net"
