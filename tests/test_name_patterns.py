from __future__ import annotations

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from bnaudit.name_patterns import Universe, compress, listed


def resnet50() -> list[str]:
    blocks = {1: 3, 2: 4, 3: 6, 4: 3}
    return ["bn1"] + [
        f"layer{stage}.{block}.bn{number}"
        for stage, count in blocks.items()
        for block in range(count)
        for number in (1, 2, 3)
    ]


def test_all_layers_of_a_resnet_become_two_patterns() -> None:
    names = resnet50()
    patterns = compress(names, names)
    assert [pattern for pattern, _ in patterns] == ["bn1", "layer{1..4}.{0..5}.bn{1,2,3}"]
    assert sum(len(members) for _, members in patterns) == len(names) == 49


def test_one_missing_layer_is_not_swallowed_by_the_pattern() -> None:
    names = ["a.0.bn", "a.1.bn", "a.2.bn", "a.3.bn"]
    affected = ["a.0.bn", "a.2.bn", "a.3.bn"]
    assert [pattern for pattern, _ in compress(affected, names)] == ["a.{0,2,3}.bn"]


def test_a_product_that_would_select_a_healthy_layer_is_split() -> None:
    names = ["s1.b1", "s1.b2", "s2.b1", "s2.b2"]
    patterns = compress(["s1.b1", "s1.b2", "s2.b2"], names)
    assert [pattern for pattern, _ in patterns] == ["s1.b{1,2}", "s2.b2"]


def test_runs_and_gaps() -> None:
    names = [f"m.{i}.n" for i in (0, 1, 2, 3, 7, 9, 10, 11)]
    assert compress(names, names)[0][0] == "m.{0..3,7,9,10,11}.n"


def test_names_without_numbers_and_the_root() -> None:
    assert compress(["norm", ""], ["norm", "", "x"]) == [("norm", ("norm",)), ("", ("",))]


def test_a_sentence_lists_four_patterns_safely() -> None:
    assert listed(["", "a\x1b", "b1", "b2"], ()) == "the model itself, a\\x1b, b{1,2}"
    assert listed("abcd", ()) == "a, b, c, d"
    assert listed("abcde", ()) == "a, b, c, d, …"


def expand(pattern: str) -> set[str]:
    """The reading of the notation, written independently."""
    pieces = re.split(r"\{([^}]*)\}", pattern)
    choices = []
    for index, piece in enumerate(pieces):
        if index % 2 == 0:
            choices.append([piece])
            continue
        values: list[str] = []
        for entry in piece.split(","):
            low, dots, high = entry.partition("..")
            values.extend(map(str, range(int(low), int(high) + 1)) if dots else [low])
        choices.append(values)
    return {"".join(combination) for combination in itertools.product(*choices)}


rows = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans()), min_size=1, max_size=20, unique=True)


@given(rows)
def test_patterns_select_exactly_the_names(drawn: list[tuple[int, int, bool]]) -> None:
    universe = list(dict.fromkeys(f"layer{a}.{b}.bn" for a, b, _ in drawn))
    chosen = list(dict.fromkeys(f"layer{a}.{b}.bn" for a, b, inside in drawn if inside))
    selected = [expand(pattern) & set(universe) for pattern, _ in compress(chosen, universe)]
    assert sorted(name for names in selected for name in names) == sorted(chosen)


def test_one_index_serves_many_calls() -> None:
    names = resnet50()
    universe = Universe(names)
    for chosen in (names, names[::2], names[:3], ["elsewhere.7"]):
        assert compress(chosen, universe) == compress(chosen, names)
