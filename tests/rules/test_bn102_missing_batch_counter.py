from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from builders import batch_norm, description, hits, part, tensor
from measured import run_hits

from bnaudit import arithmetic
from bnaudit.description import CUMULATIVE, Carrier, Evidence, NormKind, NormLayer
from bnaudit.measurement import Loaded
from bnaudit.results import Severity

run = partial(hits, "bn102_missing_batch_counter")


def test_a_counter_missing_and_nothing_else_is_a_note() -> None:
    (hit,) = run(part([batch_norm("bn1", counter=None), batch_norm("bn2")]))
    assert (hit.layer, hit.severity) == ("bn1", Severity.NOTE)


def test_version_two_makes_it_a_warning() -> None:
    (hit,) = run(part([batch_norm(counter=None, metadata_version=2)]))
    assert hit.severity is Severity.WARNING
    assert "a strict load fails" in hit.message


def test_pytorch_refuses_exactly_what_the_warning_says() -> None:
    norm = torch.nn.BatchNorm2d(3)
    state = norm.state_dict()
    del state["num_batches_tracked"]
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        norm.load_state_dict(state)
    norm.load_state_dict(dict(state))


def test_a_cumulative_average_makes_it_an_error() -> None:
    (hit,) = run(part([batch_norm(counter=None, momentum=CUMULATIVE)], carrier=Carrier.MODULE))
    assert hit.severity is Severity.ERROR


def test_known_momentum_alone_stays_a_note() -> None:
    (hit,) = run(part([batch_norm(counter=None, momentum=0.1)], carrier=Carrier.MODULE))
    assert hit.severity is Severity.NOTE


@pytest.mark.parametrize(
    "layer",
    [
        batch_norm(counter=None, kind=NormKind.FROZEN_BATCH),
        batch_norm(counter=None, metadata_version=1),
        batch_norm(counter=None, metadata_version=3),
        batch_norm(counter=None, kind=NormKind.INSTANCE),
        batch_norm(counter=None, kind=NormKind.UNKNOWN),
        batch_norm(counter=None, mean=None),
        batch_norm(counter=None, var=None),
        batch_norm(counter=None, tracks_statistics=False),
        batch_norm(counter=None, mean=None, var=None),
        batch_norm(counter=None, evidence=Evidence.OPERATOR),
        batch_norm(counter=None, mean=tensor("bn/moving_mean", (0.1, 0.2, 0.3))),
        batch_norm(counter=0),
    ],
)
def test_layers_that_need_no_counter_are_silent(layer: NormLayer) -> None:
    assert run(part([layer])) == []


@pytest.mark.parametrize("carrier", [Carrier.GRAPH, Carrier.PROGRAM])
def test_graphs_have_no_place_for_one(carrier: Carrier) -> None:
    assert run(part([batch_norm(counter=None)], carrier=carrier)) == []


def test_the_pages_arithmetic() -> None:
    batch = np.array([[7.0], [9.0]])
    kept = arithmetic.update(arithmetic.Running(np.array([5.0]), np.ones(1), 999), batch, CUMULATIVE)
    lost = arithmetic.update(arithmetic.Running(np.array([5.0]), np.ones(1), 0), batch, CUMULATIVE)
    plain = arithmetic.update(arithmetic.Running(np.array([5.0]), np.ones(1), 0), batch, 0.1)
    assert [round(running.mean[0], 12) for running in (kept, lost, plain)] == [5.003, 8.0, 5.3]


def test_a_load_that_filled_it_is_told() -> None:
    layers = [batch_norm(name, counter=None, evidence=Evidence.CLASS) for name in ("module.bn1", "module.bn2")]
    filled = ("bn1.num_batches_tracked",)
    loaded = Loaded(model="net.py:build", matched=("bn1",), missing=filled, unexpected=(), filled_counters=filled)
    subject = description(part(layers, carrier=Carrier.MODULE))
    first, second = run_hits("bn102_missing_batch_counter", loaded, subject=subject)
    assert "filled it in silently" in first.message
    assert "silently" not in second.message
    assert first.severity is second.severity is Severity.NOTE


@pytest.mark.parametrize("carrier", [Carrier.STATE_DICT, Carrier.MODULE, Carrier.SCRIPT])
@pytest.mark.parametrize("tracks", [True, None])
def test_everything_that_pytorch_saves_has_a_place_for_one(carrier: Carrier, tracks: bool | None) -> None:
    (hit,) = run(part([batch_norm(counter=None, tracks_statistics=tracks)], carrier=carrier))
    assert hit.message == "num_batches_tracked is missing; predictions do not use it"


def test_what_was_loaded_into_another_part_says_nothing() -> None:
    subject = description(part([batch_norm("bn1", counter=None)], carrier=Carrier.MODULE))
    filled = ("bn1.num_batches_tracked",)
    loaded = Loaded(model="net.py:build", matched=("bn1",), missing=filled, unexpected=(), filled_counters=filled)
    for measured in ({"part": "ema"}, {}):
        (hit,) = run_hits("bn102_missing_batch_counter", *[loaded][: len(measured)], subject=subject, **measured)
        assert "silently" not in hit.message
