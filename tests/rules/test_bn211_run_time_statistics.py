"""BN211: a graph that computes its statistics from its input."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from builders import batch_norm, description, hits, part
from measured import mixing, run_hits, swap

from bnaudit.description import Carrier, GraphInput, NormKind, NormLayer
from bnaudit.results import Confidence, Hit

RULE = "bn211_run_time_statistics"
FREE = GraphInput(name="x", dtype="float32", shape=("batch", 3, 8, 8))
UNNAMED = GraphInput(name="x", dtype="float32", shape=(None, 3, 8, 8))
ONE = GraphInput(name="x", dtype="float32", shape=(1, 3, 8, 8))
FOUR = GraphInput(name="x", dtype="float32", shape=(4, 3, 8, 8))
NO_RANK = GraphInput(name="x", dtype="float32", shape=None)


def run_time(**fields: Any) -> NormLayer:
    settings: dict[str, Any] = {"mean": None, "var": None, "counter": None, "statistics_from_input": True}
    return batch_norm("bn", **{**settings, "graph_training": False, **fields})


def graph_hits(layer: NormLayer, *inputs: GraphInput) -> list[Hit]:
    return hits(RULE, part([layer], carrier=Carrier.GRAPH, inputs=inputs))


@pytest.mark.parametrize("given", [FREE, UNNAMED, FOUR, NO_RANK])
def test_an_operator_fed_with_computed_statistics_is_found(given: GraphInput) -> None:
    (hit,) = graph_hits(run_time(), given)
    assert (hit.layer, hit.confidence, hit.severity, hit.settles) == ("bn", Confidence.HIGH, None, None)


def test_a_batch_of_one_has_no_neighbours() -> None:
    (hit,) = graph_hits(run_time(), ONE)
    assert hit.settles is False


@pytest.mark.parametrize("given", [FREE, UNNAMED])
def test_a_norm_spelled_out_over_a_free_batch_axis_is_of_medium_confidence(given: GraphInput) -> None:
    (hit,) = graph_hits(run_time(spelled_out=True, graph_training=None), given)
    assert hit.confidence is Confidence.MEDIUM


def test_a_run_that_shows_samples_meeting_in_it_makes_it_sure() -> None:
    subject = description(part([run_time(spelled_out=True)], carrier=Carrier.GRAPH, inputs=(FREE,)))
    leak = mixing("/bn/Sub", "Sub", "Sub")
    (hit,) = run_hits(RULE, swap(leak), subject=subject)
    assert hit.confidence is Confidence.HIGH
    for other in (swap(mixing("/head/Sub", "Sub", "Sub")), swap(leak, leaks=False)):
        (hit,) = run_hits(RULE, other, subject=subject)
        assert hit.confidence is Confidence.MEDIUM


LENGTHS = "t T time timesteps frame frames num_frames len seq_len length seq sequence steps tokens points"


@pytest.mark.parametrize("shape", [*((name, 80) for name in LENGTHS.split()), ("N",), (None,)])
def test_a_norm_spelled_out_over_the_length_of_one_sample_is_silent(shape: tuple[int | str | None, ...]) -> None:
    given = GraphInput(name="x", dtype="float32", shape=shape)
    assert not graph_hits(run_time(spelled_out=True), given)
    assert graph_hits(run_time(spelled_out=True), given, FREE)


@pytest.mark.parametrize("given", [ONE, FOUR, NO_RANK])
def test_a_norm_spelled_out_over_another_first_axis_is_silent(given: GraphInput) -> None:
    assert not graph_hits(run_time(spelled_out=True), given)


@pytest.mark.parametrize("kind", [NormKind.LAYER, NormKind.INSTANCE, NormKind.GROUP, NormKind.RMS, NormKind.UNKNOWN])
@pytest.mark.parametrize("spelled_out", [True, False])
def test_norms_within_one_sample_are_silent(kind: NormKind, spelled_out: bool) -> None:
    assert not graph_hits(run_time(kind=kind, spelled_out=spelled_out), FREE)


@pytest.mark.parametrize("known", [False, None])
def test_stored_and_unknown_statistics_are_silent(known: bool | None) -> None:
    assert not graph_hits(batch_norm(statistics_from_input=known, graph_training=False), FREE)


def test_training_form_is_bn202s() -> None:
    assert not graph_hits(run_time(graph_training=True), FREE)


def test_only_what_holds_a_graph_is_looked_at() -> None:
    assert not hits(RULE, part([run_time()], carrier=Carrier.MODULE, inputs=(FREE,)))


def test_the_page_numbers_are_torchs() -> None:
    def normalized(*batch: float) -> float:
        given = torch.tensor(batch)[:, None]
        mean, variance = given.mean(0), given.var(0, correction=0)
        return torch.nn.functional.batch_norm(given, mean, variance, training=False)[0].item()

    assert normalized(6.0, 8.0) == pytest.approx(-1.0, abs=1e-4)
    assert normalized(6.0, 4.0) == pytest.approx(1.0, abs=1e-4)
    assert normalized(6.0) == 0.0
    stored = torch.nn.functional.batch_norm(
        torch.tensor([[6.0]]), torch.tensor([0.97]), torch.tensor([1.19]), training=False
    )
    assert stored.item() == pytest.approx(4.61, abs=5e-3)


def test_two_dimensions_are_enough_for_a_batch() -> None:
    given = GraphInput(name="x", dtype="float32", shape=("batch", 8))
    (hit,) = graph_hits(run_time(spelled_out=True), given)
    assert hit.message.startswith("a norm spelled out with reductions over the batch axis takes its statistics from")
    (hit,) = graph_hits(run_time(), given)
    assert hit.message.startswith("its mean and variance are computed from the graph's input at run time")


@pytest.mark.parametrize("inputs", [(), (ONE, FREE), (FREE, ONE), (ONE, NO_RANK)])
def test_neighbours_are_possible_unless_all_inputs_are_of_one(inputs: tuple[GraphInput, ...]) -> None:
    (hit,) = graph_hits(run_time(kind=NormKind.SYNC_BATCH), *inputs)
    assert hit.settles is None
