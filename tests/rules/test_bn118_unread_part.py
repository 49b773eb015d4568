from __future__ import annotations

from functools import partial

from builders import batch_norm, hits, part, tensor

from bnaudit.description import Gap, NormLayer
from bnaudit.records import replace
from bnaudit.results import Severity
from bnaudit.rules import load_rule

RULE = "bn118_unread_part"
run = partial(hits, RULE)
_FIELDS = {"running_mean": "mean", "running_var": "var", "weight": "gamma"}


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


def test_statistics_that_were_not_read_leave_the_verdict_open() -> None:
    def layer(role: str) -> NormLayer:
        name = f"bn1.{role}"
        return batch_norm(**{_FIELDS[role]: replace(tensor(name, None, absence="sparse"), unread=True)})

    for role, is_open in (("running_mean", True), ("running_var", True), ("weight", False)):
        gap = Gap(where=f"bn1.{role}", why="a sparse tensor", hides_norms=False)
        (hit,) = run(part([layer(role)]), gaps=(gap,))
        assert bool(hit.undecided) is is_open


def test_a_gap_at_statistics_that_were_read_leaves_nothing_open() -> None:
    gap = Gap(where="bn1.running_mean", why="a second copy was not read", hides_norms=False)
    (hit,) = run(part([batch_norm("bn1"), batch_norm("bn2", mean=None, var=None)]), gaps=(gap,))
    assert hit.undecided == ""
