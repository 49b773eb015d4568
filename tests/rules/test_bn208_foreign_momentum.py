"""BN208: another framework's momentum."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from builders import batch_norm, hits, part

from bnaudit.description import CUMULATIVE, Carrier, NormKind, NormLayer
from bnaudit.results import Hit, Severity

RULE = "bn208_foreign_momentum"


def module_hits(layer: NormLayer, **fields: Any) -> list[Hit]:
    return hits(RULE, part([layer], carrier=Carrier.MODULE), **fields)


@pytest.mark.parametrize("momentum", [0.5, 0.9, 0.99, 1, 1.0])
def test_a_large_momentum_in_a_layer_that_trains_is_a_warning(momentum: float) -> None:
    (hit,) = module_hits(batch_norm(training=True, tracks_statistics=True, momentum=momentum))
    assert hit.severity is None
    assert (hit.value, hit.limit) == (momentum, 0.5)


def test_momentum_1_is_another_cause() -> None:
    (one,) = module_hits(batch_norm(training=True, momentum=1.0))
    (large,) = module_hits(batch_norm(training=True, momentum=0.99))
    assert "last batch's" in one.message
    assert one.advice != large.advice


@pytest.mark.parametrize("momentum", [0.1, 0.01, 0.03, 0.4999, CUMULATIVE, None])
def test_usual_cumulative_and_unknown_momenta_are_silent(momentum: Any) -> None:
    assert not module_hits(batch_norm(training=True, momentum=momentum))


def test_an_inference_layer_is_silent_because_momentum_has_no_effect() -> None:
    assert not module_hits(batch_norm(training=False, momentum=0.99))
    assert not hits(RULE, part([batch_norm(graph_training=False, momentum=0.9)], carrier=Carrier.GRAPH))
    assert not hits(RULE, part([batch_norm(graph_training=False, momentum=0.0)], carrier=Carrier.GRAPH))


def test_an_unknown_mode_is_silent() -> None:
    assert not module_hits(batch_norm(training=None, momentum=0.99))
    assert not hits(RULE, part([batch_norm(momentum=0.99)], carrier=Carrier.GRAPH))


def test_a_training_form_graph_is_a_layer_that_trains() -> None:
    assert len(hits(RULE, part([batch_norm(graph_training=True, momentum=0.9)], carrier=Carrier.GRAPH))) == 1


def test_a_module_beside_optimizer_state_will_train_whatever_its_mode() -> None:
    layer = batch_norm(training=False, momentum=0.99)
    assert len(module_hits(layer, has_optimizer=True)) == 1
    assert not module_hits(layer, has_optimizer=None)


def test_weights_ported_from_keras_are_a_note_at_most() -> None:
    ported = batch_norm(training=False, momentum=0.0, eps=1e-3, counter=0)
    (hit,) = module_hits(ported)
    assert hit.severity is Severity.NOTE


def test_momentum_0_on_initial_statistics_in_eval_is_silent() -> None:
    assert not module_hits(batch_norm(training=False, momentum=0.0, mean=(0, 0, 0), var=(1, 1, 1)))


def test_momentum_0_in_a_layer_that_trains_is_a_warning() -> None:
    (hit,) = module_hits(batch_norm(training=True, momentum=0.0))
    assert hit.severity is Severity.WARNING


@pytest.mark.parametrize("kind", [NormKind.INSTANCE, NormKind.BATCH])
def test_a_norm_without_tracking_has_no_use_for_momentum(kind: NormKind) -> None:
    layer = batch_norm(
        kind=kind, tracks_statistics=False, training=True, momentum=0.99, mean=None, var=None, counter=None
    )
    assert not module_hits(layer)


def test_the_limit_is_a_setting() -> None:
    layer = batch_norm(training=True, momentum=0.6)
    assert not hits(RULE, part([layer], carrier=Carrier.MODULE), limits={"momentum": 0.7})


@pytest.mark.parametrize(("momentum", "first", "second"), [(0.1, 0.3, 0.97), (0.9, 2.7, 6.57), (1.0, 3.0, 7.0)])
def test_the_page_numbers_are_torchs(momentum: float, first: float, second: float) -> None:
    norm = torch.nn.BatchNorm1d(1, momentum=momentum)
    norm(torch.tensor([[2.0], [4.0]]))
    assert norm.running_mean.item() == pytest.approx(first)
    norm(torch.tensor([[6.0], [8.0]]))
    assert norm.running_mean.item() == pytest.approx(second)


@pytest.mark.parametrize(("momentum", "batches"), [(0.1, 19), (0.9, 1.2)])
def test_the_pages_window_is_the_effective_number_of_averaged_batches(momentum: float, batches: float) -> None:
    shares = [momentum * (1 - momentum) ** age for age in range(1000)]
    assert 1 / sum(share**2 for share in shares) == pytest.approx(batches, rel=0.02)


@pytest.mark.parametrize("kind", [NormKind.FROZEN_BATCH, NormKind.LAYER])
def test_what_no_training_changes_is_silent_beside_optimizer_state_too(kind: NormKind) -> None:
    assert not module_hits(batch_norm(kind=kind, momentum=0.99), has_optimizer=True)
    assert not module_hits(batch_norm(kind=kind, momentum=0.0), has_optimizer=True)


def test_optimizer_state_says_nothing_of_a_script() -> None:
    layer = batch_norm(training=False, momentum=0.99)
    assert not hits(RULE, part([layer], carrier=Carrier.SCRIPT), has_optimizer=True)


def test_momentum_0_in_training_needs_no_real_statistics() -> None:
    (hit,) = module_hits(batch_norm(training=True, momentum=0.0, mean=(0, 0, 0), var=(1, 1, 1)))
    assert (hit.severity, hit.value) == (Severity.WARNING, 0.0)
    assert "never updates" in hit.message


@pytest.mark.parametrize(
    ("mean", "var", "found"),
    [
        ((0, 0, 0.1), (1, 1, 1), 1),
        ((0, 0, 0), (1, 1, 1.1), 1),
        (None, (2, 2, 2), 0),
        ((2, 2, 2), None, 0),
    ],
)
def test_one_channel_that_moved_makes_statistics_real(mean: Any, var: Any, found: int) -> None:
    noted = module_hits(batch_norm(training=False, momentum=0.0, mean=mean, var=var))
    assert [(hit.severity, "ported weights" in hit.message) for hit in noted] == [(Severity.NOTE, True)] * found
