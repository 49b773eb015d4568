"""BN202: training mode written into a graph."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from builders import batch_norm, description, hits, part
from measured import eval_norm, run_hits

from bnaudit.description import Carrier, ModeDependent, NormKind
from bnaudit.results import Confidence, Severity

RULE = "bn202_exported_in_training_mode"
GRAPHS = (Carrier.GRAPH, Carrier.PROGRAM, Carrier.SCRIPT)
WITHOUT_STATISTICS = {"mean": None, "var": None, "counter": None}


def dropout(**fields: Any) -> ModeDependent:
    settings = {"name": "drop", "kind": "dropout", "class_name": "Dropout", "probability": 0.5, "graph_training": True}
    return ModeDependent(**{**settings, **fields})


@pytest.mark.parametrize("carrier", GRAPHS)
def test_a_batch_norm_in_training_form_is_found_in_every_graph(carrier: Carrier) -> None:
    (hit,) = hits(RULE, part([batch_norm("bn", graph_training=True)], carrier=carrier))
    assert hit.layer == "bn"
    assert hit.confidence is Confidence.HIGH
    assert hit.severity is None, "the rule's own severity, error"


@pytest.mark.parametrize("carrier", GRAPHS)
def test_dropout_in_training_form_is_found_in_every_graph(carrier: Carrier) -> None:
    (hit,) = hits(RULE, part([], carrier=carrier, mode_dependent=(dropout(),)))
    assert "at random" in hit.message


def test_norm_and_dropout_of_one_graph_share_the_advice() -> None:
    found = hits(RULE, part([batch_norm(graph_training=True)], carrier=Carrier.GRAPH, mode_dependent=(dropout(),)))
    assert len({hit.advice for hit in found}) == 1


def test_inference_form_and_unknown_are_silent() -> None:
    layers = [batch_norm("a", graph_training=False), batch_norm("b", graph_training=None, training=True)]
    entries = (dropout(graph_training=False), dropout(name="d2", graph_training=None))
    for carrier in GRAPHS:
        assert not hits(RULE, part(layers, carrier=carrier, mode_dependent=entries))


def test_healthy_scripted_code_with_a_flag_is_silent() -> None:
    assert not hits(RULE, part([batch_norm(training=False)], carrier=Carrier.SCRIPT, traced=False))


@pytest.mark.parametrize("tracks", [True, False, None])
def test_instance_norm_runs_the_same_operator_and_is_silent(tracks: bool | None) -> None:
    statistics = {} if tracks else WITHOUT_STATISTICS
    layer = batch_norm(kind=NormKind.INSTANCE, graph_training=True, tracks_statistics=tracks, **statistics)
    for carrier in GRAPHS:
        assert not hits(RULE, part([layer], carrier=carrier))


def test_an_operator_whose_batch_axis_is_not_settled_is_only_a_note() -> None:
    (hit,) = hits(RULE, part([batch_norm(kind=NormKind.UNKNOWN, graph_training=True)], carrier=Carrier.PROGRAM))
    assert (hit.severity, hit.confidence) == (Severity.NOTE, Confidence.LOW)
    assert hit.undecided


def test_a_norm_without_statistics_is_left_to_bn204() -> None:
    layer = batch_norm(graph_training=True, tracks_statistics=False, **WITHOUT_STATISTICS)
    assert not hits(RULE, part([layer], carrier=Carrier.PROGRAM))


def test_a_script_whose_statistics_are_gone_is_left_to_bn101() -> None:
    """torch.jit.script writes the mode of a norm that lost its buffers as a constant, whatever mode it was in."""
    layer = batch_norm(graph_training=True, tracks_statistics=True, **WITHOUT_STATISTICS)
    given = part([layer], carrier=Carrier.SCRIPT)
    assert hits(RULE, given) == []
    assert [hit.layer for hit in hits("bn101_missing_running_buffers", given)] == [layer.name]


def test_dropout_with_p_0_is_silent_and_with_unknown_p_of_medium_confidence() -> None:
    assert not hits(RULE, part([], carrier=Carrier.GRAPH, mode_dependent=(dropout(probability=0.0),)))
    (hit,) = hits(RULE, part([], carrier=Carrier.GRAPH, mode_dependent=(dropout(probability=None),)))
    assert hit.confidence is Confidence.MEDIUM
    assert "probability" in hit.message


@pytest.mark.parametrize("carrier", [Carrier.STATE_DICT, Carrier.MODULE])
def test_what_holds_no_graph_is_silent(carrier: Carrier) -> None:
    assert not hits(RULE, part([batch_norm(graph_training=True, training=True)], carrier=carrier))


def test_the_page_numbers_are_torchs() -> None:
    exported = torch.export.export(torch.nn.BatchNorm1d(1, affine=False), (torch.zeros(2, 1),)).module()
    assert exported(torch.tensor([[6.0], [8.0]]))[0].item() == pytest.approx(-1.0, abs=1e-4)
    assert exported(torch.tensor([[6.0], [4.0]]))[0].item() == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("mixes", [True, False])
def test_a_run_settles_what_the_graph_does_not(mixes: bool) -> None:
    """What mixes is then told as measured, by BN401."""
    subject = description(
        part([batch_norm("bn1", kind=NormKind.UNKNOWN, graph_training=True)], carrier=Carrier.PROGRAM)
    )
    assert not run_hits(RULE, eval_norm("bn1", mixes=mixes), subject=subject)
    assert len(run_hits(RULE, eval_norm("bn1", mixes=None), subject=subject)) == 1


@pytest.mark.parametrize("kind", [NormKind.BATCH, NormKind.SYNC_BATCH])
@pytest.mark.parametrize("tracks", [True, False, None])
def test_what_keeps_statistics_is_found_whatever_its_flag(kind: NormKind, tracks: bool | None) -> None:
    layer = batch_norm(kind=kind, graph_training=True, tracks_statistics=tracks)
    assert len(hits(RULE, part([layer], carrier=Carrier.PROGRAM))) == 1


def test_a_norm_without_statistics_of_which_no_flag_says_why_is_found() -> None:
    layer = batch_norm(graph_training=True, tracks_statistics=None, **WITHOUT_STATISTICS)
    assert len(hits(RULE, part([layer], carrier=Carrier.GRAPH))) == 1


@pytest.mark.parametrize(
    ("entry", "confidence"),
    [
        (dropout(probability=0.5), Confidence.HIGH),
        (dropout(kind="rrelu", probability=None), Confidence.HIGH),
        (dropout(kind="recurrent", probability=None), Confidence.MEDIUM),
    ],
)
def test_what_drops_for_certain_is_told_for_certain(entry: ModeDependent, confidence: Confidence) -> None:
    (hit,) = hits(RULE, part([], carrier=Carrier.GRAPH, mode_dependent=(entry,)))
    assert hit.confidence is confidence
    assert ("its probability is not in the file" in hit.message) is (confidence is Confidence.MEDIUM)
