"""What places in a model are called."""

from __future__ import annotations

import pytest
from builders import batch_norm, description, part
from measured import change, place

from bnaudit.description import Carrier, HiddenModule, ModeDependent
from bnaudit.places import by_place, described, fixed_by_code, holder_of, layer_at, trains_hidden

MODULE, GRAPH = (description(part([], carrier=carrier)) for carrier in (Carrier.MODULE, Carrier.GRAPH))


def test_a_norm_layer_goes_before_its_module() -> None:
    assert layer_at(MODULE, place("blocks.0"), "blocks.0.bn") == "blocks.0.bn"
    assert layer_at(MODULE, place("blocks.0")) == "blocks.0"


def test_the_root_has_the_empty_name_and_the_unknown_none() -> None:
    assert layer_at(MODULE, place("", "Net")) == ""
    assert layer_at(MODULE, place("", "")) is None
    assert layer_at(GRAPH, place("", "Softmax")) is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"class_name": "Net", "operator": "aten.mm", "source": "net.py:7"}, "aten.mm in Net, net.py:7"),
        ({"class_name": "Softmax", "operator": "Softmax"}, "Softmax"),
        ({"class_name": "Net"}, "Net"),
        ({"class_name": ""}, ""),
    ],
)
def test_a_place_in_words(fields: dict[str, str], words: str) -> None:
    assert described(place(**fields)) == words


@pytest.mark.parametrize(("name", "holder"), [("a.b.running_mean", "a.b"), ("u", ""), ("norms[0].u", "norms[0]")])
def test_state_belongs_to_the_module_that_holds_it(name: str, holder: str) -> None:
    assert holder_of(change(name)) == holder


@pytest.mark.parametrize(
    ("name", "inside"), [("n", True), ("n.bn", True), ("n[0]", True), ("n2", False), ("", False), (None, False)]
)
def test_what_stands_in_a_hidden_module(name: str | None, inside: bool) -> None:
    hidden = HiddenModule(path="n", class_name="B", training=True, mode_dependent=(), in_training=True)
    assert trains_hidden(description(part([], carrier=Carrier.MODULE, hidden=(hidden,))), name) is inside


def test_entries_are_gathered_by_name_in_order() -> None:
    assert by_place([("b", 1), (None, 2), ("b", 3)]) == {"b": [1, 3], None: [2]}


def test_a_node_of_a_spelled_out_norm_has_the_norm_s_name() -> None:
    layers = [batch_norm("neck.norm", spelled_out=True), batch_norm("neck.other")]
    graph = description(part(layers, carrier=Carrier.GRAPH))
    assert layer_at(graph, place("/neck/norm/Sub", "Sub")) == "neck.norm"
    assert layer_at(graph, place("/neck/other/Sub", "Sub")) == "/neck/other/Sub"
    assert layer_at(graph, place("Sub", "Sub")) == "Sub"


def test_a_functional_call_of_an_exported_program_has_the_name_of_its_node() -> None:
    drop = ModeDependent(name="head.dropout_1", kind="dropout", class_name="", probability=0.5, graph_training=True)
    norms = [batch_norm("neck.batch_norm", graph_training=True), batch_norm("bn", graph_training=False)]
    program = description(part(norms, carrier=Carrier.PROGRAM, mode_dependent=(drop,)))
    names = ("head", "neck", "neck.batch_norm", "body", "", None)
    expected = ["head.dropout_1", "neck.batch_norm", "neck.batch_norm", "body", "", None]
    assert [fixed_by_code(program, name) for name in names] == expected
    assert fixed_by_code(description(part(norms, carrier=Carrier.MODULE)), "neck") == "neck"
