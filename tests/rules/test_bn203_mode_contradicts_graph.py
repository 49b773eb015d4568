"""BN203: traced in training mode, then eval()."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from builders import batch_norm, hits, part

from bnaudit.description import Carrier, ModeDependent, NormKind, NormLayer
from bnaudit.results import Hit

RULE = "bn203_mode_contradicts_graph"


def traced_hits(*layers: NormLayer, **fields: Any) -> list[Hit]:
    return hits(RULE, part(layers, carrier=Carrier.SCRIPT, **{"traced": True, **fields}))


def test_a_flag_that_says_eval_over_a_graph_that_trains_is_found() -> None:
    (hit,) = traced_hits(batch_norm("bn", training=False, graph_training=True))
    assert hit.layer == "bn"
    assert "before torch.jit.trace" in hit.advice


def test_dropout_contradicts_too() -> None:
    entry = ModeDependent(
        name="drop", kind="dropout", class_name="Dropout", probability=0.5, training=False, graph_training=True
    )
    (hit,) = traced_hits(mode_dependent=(entry,))
    assert hit.layer == "drop"


def test_agreeing_flags_and_graphs_are_silent() -> None:
    assert not traced_hits(
        batch_norm("a", training=False, graph_training=False), batch_norm("b", training=True, graph_training=True)
    )


@pytest.mark.parametrize(("training", "graph"), [(None, True), (False, None)])
def test_unknown_is_silent(training: bool | None, graph: bool | None) -> None:
    assert not traced_hits(batch_norm(training=training, graph_training=graph))


@pytest.mark.parametrize("traced", [False, None])
def test_scripted_modules_obey_eval_and_are_silent(traced: bool | None) -> None:
    assert not traced_hits(batch_norm(training=False, graph_training=True), traced=traced)


@pytest.mark.parametrize("tracks", [True, False])
def test_instance_norm_always_runs_on_its_input_and_is_silent(tracks: bool) -> None:
    assert not traced_hits(
        batch_norm(kind=NormKind.INSTANCE, tracks_statistics=tracks, training=False, graph_training=True)
    )


def test_a_batch_norm_that_has_no_statistics_is_left_to_bn204() -> None:
    layer = batch_norm(tracks_statistics=False, training=False, graph_training=True, mean=None, var=None, counter=None)
    assert not traced_hits(layer)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_the_page_is_what_torch_does() -> None:
    net = torch.nn.Sequential(torch.nn.BatchNorm1d(1))
    beside_8, beside_4 = torch.tensor([[6.0], [8.0]]), torch.tensor([[6.0], [4.0]])
    traced = torch.jit.trace(net, beside_8, check_trace=False).eval()
    assert traced.training is False
    assert traced(beside_8)[0].item() == pytest.approx(-1.0, abs=1e-4)
    assert traced(beside_4)[0].item() == pytest.approx(1.0, abs=1e-4)
    scripted = torch.jit.script(net).eval()
    assert scripted(beside_8)[0].item() == scripted(beside_4)[0].item()


def test_a_batch_norm_whose_statistics_are_gone_is_left_to_bn101() -> None:
    layer = batch_norm(tracks_statistics=True, training=False, graph_training=True, mean=None, var=None, counter=None)
    assert not traced_hits(layer)
