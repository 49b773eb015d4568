from __future__ import annotations

from functools import partial

from builders import batch_norm, hits, part

from bnaudit.description import Gap
from bnaudit.results import Severity
from bnaudit.rules import load_rule

RULE = "bn118_unread_part"
run = partial(hits, RULE)


def test_every_gap_is_a_note_with_place_and_reason() -> None:
    gaps = (Gap(where="a.weight", why="a sparse tensor"), Gap(where="", why="an operator of an unknown domain"))
    found = run(part([batch_norm()]), gaps=gaps)
    assert [hit.message for hit in found] == ["a.weight: a sparse tensor", "an operator of an unknown domain"]
    assert {hit.layer for hit in found} == {None}
    assert load_rule(RULE).severity is Severity.NOTE


def test_only_a_gap_that_may_hide_norms_leaves_the_verdict_open() -> None:
    gaps = (Gap(where="a", why="b"), Gap(where="c", why="d", hides_norms=False))
    assert [bool(hit.undecided) for hit in run(part([]), gaps=gaps)] == [True, False]


def test_a_file_read_whole_is_silent() -> None:
    assert run(part([batch_norm()])) == []
