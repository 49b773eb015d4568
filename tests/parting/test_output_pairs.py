"""Which outputs of two models are the same one, and which of them are decisions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from builders import part

from bnaudit.description import Carrier
from bnaudit.parting.decisions import flipped, is_decision
from bnaudit.parting.output_pairs import Together, compared, paired, row_differences
from bnaudit.parting.side import Ran
from bnaudit.session import Output

ROWS = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


def ran(*outputs: tuple[str, Any], dtype: str = "float32") -> Ran:
    return Ran(
        runner="NumPy",
        carrier=Carrier.MODULE,
        part=part([]),
        outputs=tuple(Output(name=name, values=np.asarray(v), dtype=str(np.asarray(v).dtype)) for name, v in outputs),
        with_rows=(True,) * len(outputs),
        norms=(),
        random=(),
        changes=(),
        unsteady="",
        dtype=dtype,
        samples=6,
        batch=6,
    )


def test_names_pair_outputs_however_the_two_write_them() -> None:
    one = ran(("['boxes']", ROWS), ("['scores']", ROWS + 1))
    pairs, said = paired(one, ran(("scores", ROWS + 1), ("boxes", ROWS)))
    assert pairs == (Together(0, 1), Together(1, 0))
    assert said == ("the outputs of the two stand in another order and were paired by name or by values",)


def test_order_pairs_outputs_without_common_names() -> None:
    pairs, said = paired(ran(("[0]", ROWS), ("[1]", ROWS * 2)), ran(("a", ROWS * 1.5), ("b", ROWS * 2.5)))
    assert pairs == (Together(0, 0), Together(1, 1)) and said == ()


def test_shapes_and_then_values_go_before_order() -> None:
    wide = np.ones((6, 9), np.float32)
    pairs, _ = paired(ran(("[0]", ROWS), ("[1]", wide)), ran(("a", wide), ("b", ROWS)))
    assert pairs == (Together(0, 1), Together(1, 0))
    pairs, said = paired(ran(("[0]", ROWS), ("[1]", ROWS * 2)), ran(("a", ROWS * 2), ("b", ROWS)))
    assert pairs == (Together(0, 1), Together(1, 0)) and len(said) == 1


def test_an_output_of_one_side_alone_is_said() -> None:
    pairs, said = paired(ran(("[0]", ROWS), ("[1]", np.ones((6, 9), np.float32))), ran(("logits", ROWS)))
    assert pairs == (Together(0, 0),)
    assert said == ("the output [1] ([9]) is in the baseline alone",)


def test_the_floor_is_64_steps_of_the_coarser_precision() -> None:
    pair = compared(ran(("", ROWS)), ran(("", ROWS), dtype="float16"), Together(0, 0))
    assert pair.shift.exact
    moved = ROWS.copy()
    moved[4, 1] += 0.5
    moved[2, 0] -= 0.25
    pair = compared(ran(("", ROWS)), ran(("", moved)), Together(0, 0))
    assert pair.shift.difference == pytest.approx(0.5)
    assert pair.floor == pytest.approx(64 * 2.0**-23 * max(np.abs(ROWS).max(), np.abs(moved).max()))
    assert pair.rows == (4, 2)
    coarse = compared(ran(("", ROWS)), ran(("", moved), dtype="float16"), Together(0, 0))
    assert coarse.floor == pytest.approx(2.0**13 * pair.floor)


def test_fewer_rows_on_one_side_are_compared_as_far_as_they_go() -> None:
    pair = compared(ran(("", ROWS)), ran(("", ROWS[:3])), Together(0, 0))
    assert pair.shift.exact and pair.shift.decisions == 3


def test_labels_have_no_floor() -> None:
    labels = np.array([0, 1, 2, 3, 4, 5])
    pair = compared(ran(("", labels)), ran(("", labels[::-1].copy())), Together(0, 0))
    assert (pair.floor, pair.shift.flips, pair.shift.decisions) == (0.0, 6, 6)


def test_differences_of_rows_are_those_of_their_worst_value() -> None:
    other = ROWS.copy()
    other[3, 2] = np.nan
    other[5, 0] += 2
    found = row_differences(ROWS, other)
    assert found is not None and found.tolist() == [0, 0, 0, np.inf, 0, pytest.approx(2)]
    both = row_differences(other, other)
    assert both is not None and not both.any()
    assert row_differences(ROWS, ROWS[:, :3]) is None


def test_a_tie_that_rounding_breaks_is_no_flip() -> None:
    one, other = np.array([[1.0, 1.0 + 1e-6], [0.0, 3.0]]), np.array([[1.0 + 1e-6, 1.0], [3.0, 0.0]])
    apart = row_differences(one, other)
    assert flipped("logits", "", one, other, apart, 1e-5) == (1, 2)
    assert flipped("logits", "", one, other, apart, 1e-7) == (2, 2)


@pytest.mark.parametrize(
    ("name", "rows", "decides"),
    [
        ("", ROWS, True),
        ("logits", ROWS[:, :1], True),
        ("", ROWS[:, :1], False),
        ("", ROWS[:, 0], False),
        ("score", ROWS[:, 0], True),
        ("", np.arange(6), True),
        ("embedding", ROWS, False),
        ("boxes", ROWS, False),
        ("", ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True), False),
        ("", ROWS[:, :, None], False),
        ("probabilities", np.exp(ROWS) / np.exp(ROWS).sum(1, keepdims=True), True),
    ],
)
def test_what_a_decision_is(name: str, rows: Any, decides: bool) -> None:
    assert is_decision(name, rows) is decides
