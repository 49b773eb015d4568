"""Random, history-dependent, or neither; and equal rows."""

from __future__ import annotations

import pytest
from fake_runs import FakeFeed, Net, measured

from bnaudit.measurement import IdenticalRows, Repeat
from bnaudit.shifts import Band, band


def repeat(net: Net) -> Repeat:
    (found,) = [entry for entry in measured("repeats", net) if isinstance(entry, Repeat)]
    return found


def test_a_model_that_repeats_itself_is_not_run_a_third_time() -> None:
    found = repeat(Net())
    assert found.in_a_row.exact and found.restored is None


def test_history_is_gone_when_the_state_is_restored() -> None:
    found = repeat(Net(history=True))
    assert band(found.in_a_row) is Band.LEAK and found.restored is not None and found.restored.exact


def test_randomness_stays_when_the_state_is_restored() -> None:
    found = repeat(Net(random=True))
    assert found.restored is not None and band(found.restored) is Band.LEAK
    assert [call.place.module for call in found.random] == ["drop"]


def test_a_draw_that_happens_not_to_matter_is_not_taken_for_history() -> None:
    found = repeat(Net(random=True, seldom=True))
    assert found.changes == () and found.restored == found.in_a_row and band(found.in_a_row) is Band.LEAK


def test_a_model_that_draws_and_keeps_something_is_repeated_once_more() -> None:
    found = repeat(Net(random=True, seldom=True, history=True, state="average"))
    assert found.changes and found.restored is not None and found.restored.exact


def test_an_answer_that_is_kept_shows_after_other_companions() -> None:
    found = repeat(Net(state="answer"))
    assert found.in_a_row.exact and found.after_others is not None and band(found.after_others) is Band.LEAK


@pytest.mark.parametrize(("net", "tried"), [(Net(), False), (Net(state="cache"), False), (Net(state="average"), True)])
def test_other_companions_go_first_only_where_they_leave_something_else_behind(net: Net, tried: bool) -> None:
    found = repeat(net)
    assert (found.after_others is not None) == tried
    assert found.after_others is None or found.after_others.exact


def test_a_model_that_draws_may_differ_after_others_by_chance() -> None:
    found = repeat(Net(random=True, seldom=True, state="answer"))
    assert found.in_a_row.exact and found.after_others is None


def test_a_model_that_draws_is_tried_after_others_with_its_seeds_reset() -> None:
    found = repeat(Net(random=True, history=True, state="average"))
    assert found.after_others is not None and band(found.after_others) is Band.LEAK
    for harmless in (Net(random=True), Net(random=True, state="average")):
        found = repeat(harmless)
        assert found.after_others is not None and found.after_others.exact
    assert repeat(Net(random=True, history=True, seedless=True)).after_others is None


def test_statistics_of_a_norm_that_uses_the_batch_are_read_by_nobody() -> None:
    assert repeat(Net(leaky=frozenset({"one"}), state="average")).after_others is None


def test_equal_rows_are_compared_but_not_in_a_model_that_draws() -> None:
    (rows,) = [entry for entry in measured("repeats") if isinstance(entry, IdenticalRows)]
    assert rows.shift.exact and rows.double is None
    assert not any(isinstance(entry, IdenticalRows) for entry in measured("repeats", Net(random=True)))


def test_rows_that_differ_by_position_are_tried_in_float64() -> None:
    (rows,) = [entry for entry in measured("repeats", Net(by_position=0.1)) if isinstance(entry, IdenticalRows)]
    assert band(rows.shift) is Band.LEAK and rows.double is not None and rows.double.dtype == "float64"


def test_without_a_copy_no_rows_are_equal() -> None:
    assert not any(isinstance(entry, IdenticalRows) for entry in measured("repeats", feed=FakeFeed(4)))
