"""What places in a model are called."""

from __future__ import annotations

import pytest
from builders import description, part
from measured import change, place

from bnaudit.description import Carrier, HiddenModule
from bnaudit.places import by_place, described, holder_of, layer_at, trains_hidden

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
