"""Which layers are paired, by what, and what is left alone."""

from __future__ import annotations

import random
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from builders import batch_norm, part
from compared import trained
from hypothesis import given
from hypothesis import strategies as st

from bnaudit.comparison import Matching, PairedBy, Rename
from bnaudit.description import Evidence, NormKind, NormLayer
from bnaudit.matching import match, renamed
from bnaudit.records import replace

NAMES = ("bn1", *(f"layer{i}.{j}.bn{k}" for i in range(1, 4) for j in range(2) for k in (1, 2)))
CHANNELS = tuple(8 + 4 * (at % 3) for at in range(len(NAMES)))
PIECES = st.text("abcxyz", min_size=2, max_size=6)


def net(rename: Callable[[str], str] = str, seed: int = 0) -> list[NormLayer]:
    """Layers of a small ResNet; another seed makes other values."""
    return [
        trained(rename(name), channels, seed=1000 * seed + at)
        for at, (name, channels) in enumerate(zip(NAMES, CHANNELS, strict=True))
    ]


def matched(subject: Sequence[NormLayer], baseline: Sequence[NormLayer]) -> Matching:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return match(part(subject), part(baseline))


def names(matching: Matching) -> list[tuple[str, str]]:
    return [(pair.subject.name, pair.baseline.name) for pair in matching.pairs]


def ways(matching: Matching) -> dict[PairedBy, int]:
    return dict(Counter(pair.by for pair in matching.pairs))


# By name


@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "model.", "module.model._orig_mod."])
def test_wrappers_are_no_part_of_a_name(prefix: str) -> None:
    found = matched(net(lambda name: prefix + name, seed=1), net())
    assert names(found) == [(prefix + name, name) for name in NAMES]
    assert (ways(found), found.renames) == ({PairedBy.NAME: len(NAMES)}, ())


@pytest.mark.parametrize("added", [0, 1])
def test_numbers_that_shifted_are_seen_by_the_values(added: int) -> None:
    baseline = [trained(f"features.{3 * at + 1}", 8 + 8 * (at // 3), seed=at) for at in range(6)]
    moved = [trained(f"features.{3 * at + 4}", 8 + 8 * (at // 3), seed=at) for at in range(6)]
    found = matched([trained("features.1", seed=99)][:added] + moved, baseline)
    assert names(found) == [(new.name, old.name) for new, old in zip(moved, baseline, strict=True)]
    assert [layer.name for layer in found.only_subject] == ["features.1"][:added]
    assert PairedBy.NAME not in ways(found)


@pytest.mark.parametrize("first", ["student.", "teacher."])
def test_of_two_copies_the_equal_one_is_taken_in_either_direction(first: str) -> None:
    both = sorted(
        net(lambda name: f"student.{name}") + net(lambda name: f"teacher.{name}", seed=1),
        key=lambda layer: not layer.name.startswith(first),
    )
    assert names(matched(both, net())) == [(f"student.{name}", name) for name in NAMES]
    assert sorted(names(matched(net(), both))) == sorted((name, f"student.{name}") for name in NAMES)


def test_strangers_that_are_the_only_ones_of_their_shape_are_not_alike() -> None:
    def one_of_each(seed: int, *channels: int) -> list[NormLayer]:
        plain = [{"mean": np.zeros(size), "var": np.ones(size), "beta": np.zeros(size)} for size in channels]
        return [
            trained(f"{seed}.{size}", size, seed=seed + size, **values)
            for size, values in zip(channels, plain, strict=True)
        ]

    assert not matched(one_of_each(100, 16, 48, 5, 7), one_of_each(900, 16, 64, 9, 11)).pairs


def test_exchanged_layers_are_seen_by_the_values_and_equal_copies_by_their_names() -> None:
    a, b = trained("a", seed=1), trained("b", seed=2)
    exchanged = [trained("a", seed=2), trained("b", seed=1)]
    assert names(matched(exchanged, [a, b])) == [("b", "a"), ("a", "b")]
    copies = [a, trained("b", seed=1)]
    assert names(matched(copies, [a, b])) == [("a", "a"), ("b", "b")]
    assert ways(matched(copies, [a, b])) == {PairedBy.NAME: 2}


def test_the_order_of_the_file_does_not_matter_and_pairs_stand_in_the_baselines() -> None:
    found = matched(net(seed=1)[::-1], net())
    assert names(found) == [(name, name) for name in NAMES]


def test_the_same_name_and_another_shape_is_a_pair() -> None:
    found = matched([trained("head", 5)], [trained("head", 8)])
    assert ways(found) == {PairedBy.NAME: 1}


def test_layers_of_one_name_are_paired_in_turn() -> None:
    found = matched([trained("bn", seed=1), trained("bn", seed=2)], [trained("bn", seed=3)])
    assert len(found.pairs) == len(found.only_subject) == 1


def test_a_layer_that_a_graph_calls_twice_is_one() -> None:
    head = trained("head", seed=1)
    again = replace(head, name="head_1")
    found = matched([trained("bn1"), head, again], [trained("bn1"), trained("head")])
    assert names(found) == [("bn1", "bn1"), ("head", "head")]
    assert not found.only_subject
    assert not matched([trained("bn1")], [trained("bn1"), head, again]).only_baseline[1:]


def test_a_graph_shares_the_names_of_its_tensors() -> None:
    def node(at: int, layer: NormLayer) -> NormLayer:
        tensors = {"gamma": layer.weight, "beta": layer.bias, "mean": layer.running_mean, "var": layer.running_var}
        return batch_norm(f"BatchNormalization_{at}", **tensors, counter=None)

    nodes = [node(at, layer) for at, layer in enumerate(net(seed=1))]
    random.Random(0).shuffle(nodes)
    found = matched(nodes, net())
    assert ways(found) == {PairedBy.NAME: len(NAMES)}
    assert all(pair.subject.weight.name.removesuffix(".weight") == pair.baseline.name for pair in found.pairs)  # type: ignore[union-attr]


def test_a_scope_of_the_exporter_is_a_path() -> None:
    subject = [trained("/layer1/layer1.0/bn1/BatchNormalization", seed=1)]
    assert ways(matched(subject, [trained("layer1.0.bn1")])) == {PairedBy.NAME: 1}


def test_names_that_were_counted_say_nothing() -> None:
    subject = [trained("BatchNormalization_0", 4), trained("BatchNormalization_1", 8)]
    baseline = [trained("BatchNormalization_0", 8, seed=3), trained("BatchNormalization_1", 4, seed=4)]
    assert not any(pair.subject.channels != pair.baseline.channels for pair in matched(subject, baseline).pairs)


def test_numbers_are_names_in_a_sequential() -> None:
    subject = [trained("1", seed=1, kind=NormKind.INSTANCE), trained("3", 5, seed=2)]
    found = matched(subject, [trained("1"), trained("3", 9)])
    assert ways(found) == {PairedBy.NAME: 2}, "another kind and another shape, to be told"
    nodes = [replace(layer, evidence=Evidence.OPERATOR) for layer in (trained("1", 4), trained("3", 8))]
    assert not any(pair.subject.channels == 4 for pair in matched(nodes, [trained("1", 8), trained("3", 6)]).pairs)


# By renaming


@pytest.mark.parametrize(
    ("rename", "rules"),
    [
        (lambda name: f"backbone.{name}", {("backbone.", "")}),
        (lambda name: f"net.encoder.{name}", {("net.encoder.", "")}),
        (lambda name: name.replace("bn", "norm"), {("norm", "bn")}),
        (lambda name: name.replace("layer", "stage"), {("stage", "layer")}),
        (lambda name: f"{name}.norm", {(".norm", "")}),
        (lambda name: name.replace(".", ".blocks.", 1), {("blocks.", "")}),
        (lambda name: "features.norm0" if name == "bn1" else name, {("features.norm0", "bn1")}),
        (
            lambda name: "features.norm0" if name == "bn1" else f"features.{name}",
            {("features.", ""), ("features.norm0", "bn1")},
        ),
        (lambda name: name.replace("bn", "norm").replace("layer", "stage"), {("norm", "bn"), ("stage", "layer")}),
        (lambda name: "m.net." + name.replace("bn", "norm"), {("m.net.", ""), ("norm", "bn")}),
    ],
)
def test_a_rule_of_renaming_is_found_and_proposed(rename: Callable[[str], str], rules: set[tuple[str, str]]) -> None:
    found = matched(net(rename, seed=1), net())
    assert names(found) == [(rename(name), name) for name in NAMES]
    assert {(rule.old, rule.new) for rule in found.renames} == rules
    assert [rule.layers for rule in found.renames] == sorted((rule.layers for rule in found.renames), reverse=True)


@given(prefix=st.lists(PIECES, min_size=1, max_size=3).map(".".join), removed=st.booleans())
def test_a_planted_prefix_is_found(prefix: str, removed: bool) -> None:
    longer, plain = net(lambda name: f"{prefix}.{name}", seed=1), net()
    found = matched(plain, longer) if removed else matched(longer, plain)
    assert ways(found) == {PairedBy.RENAME: len(NAMES)}
    (rule,) = found.renames
    assert (rule.old, rule.new) == (("", f"{prefix}.") if removed else (f"{prefix}.", ""))
    assert all(renamed(pair.subject.name, rule) == pair.baseline.name for pair in found.pairs)


def test_a_backbone_within_a_larger_model() -> None:
    head = [trained(f"rpn.{at}", 33 + at, seed=70 + at) for at in range(4)]
    found = matched([*net(lambda name: f"backbone.body.{name}", seed=1), *head], net())
    assert len(found.pairs) == len(NAMES)
    assert [layer.name for layer in found.only_subject] == [layer.name for layer in head]
    assert found.renames == (Rename(old="backbone.body.", new="", layers=len(NAMES)),)


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        ("a.net.b", "net.", "", "a.b"),
        ("resnet.net.b", "net.", "", "resnet.b"),
        ("bn1", "", "backbone.", "backbone.bn1"),
        ("layer1.norm1", "norm", "bn", "layer1.bn1"),
        ("untouched", "norm", "bn", "untouched"),
    ],
)
def test_a_rename_replaces_at_the_beginning_of_a_piece(name: str, old: str, new: str, expected: str) -> None:
    assert renamed(name, Rename(old=old, new=new, layers=1)) == expected


# By order and by values


def foreign(seed: int) -> list[NormLayer]:
    """The same network under names that have nothing in common."""
    words = random.Random(seed)
    return net(lambda _: "".join(words.choices("abcdefghij", k=12)), seed)


def test_foreign_names_are_paired_by_order_and_shape() -> None:
    found = matched(foreign(1), net())
    assert ways(found) == {PairedBy.ORDER: len(NAMES)}
    assert [pair.baseline.name for pair in found.pairs] == list(NAMES)
    assert [pair.subject.name for pair in found.pairs] == [layer.name for layer in foreign(1)]


def test_a_layer_in_between_is_left_over() -> None:
    subject = foreign(1)
    subject.insert(4, trained("extra", 99, seed=5))
    found = matched(subject, net())
    assert len(found.pairs) == len(NAMES)
    assert [layer.name for layer in found.only_subject] == ["extra"]


def test_which_of_two_like_layers_it_is_stays_open() -> None:
    two = [trained("a", 8, seed=1), trained("b", 8, seed=2)]
    found = matched(two, [trained("c", 8, seed=3)])
    assert not found.pairs and len(found.only_subject) == 2


def test_layers_between_known_ones_are_known_by_their_place() -> None:
    def around(middle: NormLayer, seed: int) -> list[NormLayer]:
        return [trained("first", 8, seed=seed), middle, trained("last", 8, seed=seed + 1), trained(f"t{seed}", 8)]

    found = matched(around(trained("new", 8, seed=7), 1), around(trained("old", 8, seed=8), 3))
    assert ("new", "old") in names(found)


def disguised(moved: float = 0.0) -> list[NormLayer]:
    """The network's values, moved by a share of theirs, under single letters in no order."""
    layers = []
    for letter, layer in zip("qbzafxmwcyklp", net(), strict=True):
        four = {"mean": layer.mean, "var": layer.var, "gamma": layer.gamma, "beta": layer.beta}
        changed = {name: np.array(value) * (1.0 + moved) for name, value in four.items()}
        layers.append(batch_norm(letter, **changed))
    return layers


@given(order=st.permutations(range(len(NAMES))), moved=st.sampled_from((0.0, 0.01)))
def test_a_shuffled_order_is_found_by_equal_and_by_near_values(order: list[int], moved: float) -> None:
    layers = disguised(moved)
    expected = dict(zip(NAMES, (layer.name for layer in layers), strict=True))
    found = matched([layers[at] for at in order], net())
    assert {pair.baseline.name: pair.subject.name for pair in found.pairs} == expected


@given(st.lists(st.sampled_from((4, 8, 16)), max_size=8), st.lists(st.sampled_from((4, 8, 16)), max_size=8))
def test_order_and_values_never_pair_other_channels(ours: list[int], theirs: list[int]) -> None:
    subject = [trained(f"s{'abcdefgh'[at]}", channels, seed=at) for at, channels in enumerate(ours)]
    baseline = [trained(f"{'ijklmnop'[at]}t", channels, seed=50 + at) for at, channels in enumerate(theirs)]
    found = matched(subject, baseline)
    assert all(pair.subject.channels == pair.baseline.channels for pair in found.pairs)
    assert len(found.pairs) + len(found.only_subject) == len(ours)
    assert len(found.pairs) + len(found.only_baseline) == len(theirs)


@given(st.permutations(range(len(NAMES))), st.permutations(range(len(NAMES))))
def test_pairs_by_name_do_not_depend_on_the_order(ours: list[int], theirs: list[int]) -> None:
    subject, baseline = net(lambda name: f"backbone.{name}", seed=1), net()
    found = matched([subject[at] for at in ours], [baseline[at] for at in theirs])
    assert {(one.removeprefix("backbone."), other) for one, other in names(found)} == {(n, n) for n in NAMES}


def test_swapped_sides_give_the_same_pairs() -> None:
    for rename in (str, lambda name: f"backbone.{name}", lambda name: name.replace("layer", "stage")):
        one, other = net(rename, seed=1), net()
        there = {(pair.subject.name, pair.baseline.name) for pair in matched(one, other).pairs}
        back = {(pair.baseline.name, pair.subject.name) for pair in matched(other, one).pairs}
        assert there == back and len(there) == len(NAMES)


def test_other_kinds_are_not_paired_by_order() -> None:
    found = matched([trained("a", kind=NormKind.GROUP, mean=None, var=None)], [trained("b", seed=1)])
    assert not found.pairs


def test_networks_of_different_kinds_have_nothing_in_common() -> None:
    one = [trained(f"conv{'abcdefghijkl'[at]}", (16, 32, 64)[at % 3], seed=at) for at in range(12)]
    other = [trained(f"{'mnopqrstuvwx'[at]}block", (64, 16, 128)[at % 3], seed=90 + at) for at in range(12)]
    assert not matched(one, other).pairs


@pytest.mark.parametrize("empty", [0, 1, 2])
def test_nothing_is_paired_with_nothing(empty: int) -> None:
    found = matched([] if empty != 1 else net(), [] if empty != 2 else net())
    assert not found.pairs and not found.renames


def test_ten_thousand_layers_take_seconds() -> None:
    baseline = [batch_norm(f"m.{at // 100}.{at % 100}.bn", mean=(at, 1, 2)) for at in range(10_000)]
    subject = [batch_norm(f"x.m.{at // 100}.{at % 100}.bn", mean=(at + 0.5, 1, 2)) for at in range(10_000)]
    begin = time.perf_counter()
    assert ways(matched(subject, baseline)) == {PairedBy.RENAME: 10_000}
    assert time.perf_counter() - begin < 30
