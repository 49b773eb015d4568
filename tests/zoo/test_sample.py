from __future__ import annotations

from collections import Counter
from typing import Any

from zoo.sample import LARGEST, choose


def record(family: str, number: int, tracking: int, parameters: int = 1000) -> dict[str, Any]:
    return {"name": f"{family}_{number}", "family": family, "tracking": tracking, "parameters": parameters}


RECORDS = [record(f"bn{f}", n, 5) for f in range(10) for n in range(4)]
RECORDS += [record(f"ln{f}", n, 0) for f in range(20) for n in range(2)]


def test_half_has_batch_norm_and_families_give_one_before_any_gives_two() -> None:
    chosen = choose(RECORDS, 40, 0)
    assert len(set(chosen)) == 40
    families = Counter(name.split("_")[0] for name in chosen)
    assert {families[f"bn{f}"] for f in range(10)} == {2}
    assert {families[f"ln{f}"] for f in range(20)} == {1}


def test_the_same_seed_chooses_the_same_whatever_the_order_of_the_records() -> None:
    assert choose(RECORDS, 12, 3) == choose(reversed(RECORDS), 12, 3)
    assert choose(RECORDS, 12, 3) != choose(RECORDS, 12, 4)


def test_where_one_half_is_short_the_other_fills_up() -> None:
    few = [record("bn", 0, 1), *(record("ln", n, 0) for n in range(9))]
    assert len(choose(few, 6, 0)) == 6
    assert len(choose(few, 60, 0)) == 10
    assert choose([], 60, 0) == []


def test_large_nets_are_left_out() -> None:
    assert choose([record("bn", 0, 1, LARGEST + 1), record("bn", 1, 1, LARGEST)], 2, 0) == ["bn_1"]


def test_one_more_family_takes_one_place_and_leaves_the_others() -> None:
    before = set(choose(RECORDS, 12, 0))
    after = set(choose([*RECORDS, record("bnX", 0, 5)], 12, 0))
    assert len(before - after) <= 1
