"""How observed scores come from what a model returns."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bnaudit.diagnosis import Observed, ScoreKind
from bnaudit.errors import UnreadableError
from bnaudit.session import Batch, Output, Trace
from bnaudit.triage.scoring import Scoring, scoring

LOGITS = np.random.default_rng(0).normal(size=(6, 4)) * 3
FEATURES = np.random.default_rng(1).normal(size=(6, 2, 3))
BATCH = Batch(args=(np.zeros((6, 1)),), size=6, anchors=(0,))
TRACE = Trace(
    outputs=(
        Output(name="logits", values=LOGITS, dtype="float32"),
        Output(name="features", values=FEATURES, dtype="float32"),
    )
)


def found(values: np.ndarray, kind: ScoreKind | None = None, columns: tuple[int, ...] | None = None) -> Scoring:
    observed = Observed(values=values, kind=kind, rows=np.arange(len(values)), columns=columns)
    return scoring(TRACE, BATCH, observed, np.arange(6))


def test_the_output_with_as_many_columns_is_taken() -> None:
    assert found(FEATURES.reshape(6, 6)).output == 1
    assert found(LOGITS, ScoreKind.LOGITS).said == "output logits"


def test_probabilities_are_the_softmax_of_the_output() -> None:
    expected = torch.softmax(torch.from_numpy(LOGITS), 1).numpy()
    np.testing.assert_allclose(found(np.round(expected, 3)).of(TRACE), expected)


def test_probabilities_whose_rows_do_not_sum_to_one_are_its_sigmoid() -> None:
    expected = torch.sigmoid(torch.from_numpy(LOGITS)).numpy()
    np.testing.assert_allclose(found(np.round(expected, 2)).of(TRACE), expected)


def test_labels_are_the_highest_entry_and_ties_are_left_out() -> None:
    tied = LOGITS.copy()
    tied[2] = [1.0, 1.0, 0.0, 0.0]
    trace = Trace(outputs=(Output(name="", values=tied, dtype="float32"),))
    observed = Observed(values=tied.argmax(1), kind=ScoreKind.LABELS, rows=np.arange(6))
    made = scoring(trace, BATCH, observed, np.arange(6)).of(trace)[:, 0]
    assert np.isnan(made[2])
    np.testing.assert_array_equal(np.delete(made, 2), np.delete(tied.argmax(1), 2))


@pytest.mark.parametrize(("values", "limit"), [(LOGITS[:, :1], 0.0), (1 / (1 + np.exp(-LOGITS[:, :1])), 0.5)])
def test_the_limit_of_a_single_entry_is_the_same_in_every_batch(values: np.ndarray, limit: float) -> None:
    trace = Trace(outputs=(Output(name="", values=values, dtype="float32"),))
    labels = (values[:, 0] > limit).astype(int)
    made = scoring(trace, BATCH, Observed(values=labels, kind=ScoreKind.LABELS, rows=np.arange(6)), np.arange(6))
    np.testing.assert_array_equal(made.of(trace)[:, 0], labels)
    alone = Trace(outputs=(Output(name="", values=np.array([[0.3]]), dtype="float32"),))
    assert made.of(alone) == (limit < 0.3)


def test_columns_that_were_not_named_are_found_and_said() -> None:
    chosen = found(LOGITS[:, [3, 1]], ScoreKind.LOGITS)
    assert chosen.columns == (3, 1)
    assert any("which columns" in remark for remark in chosen.remarks)
    assert found(LOGITS[:, [2, 0]], ScoreKind.LOGITS, (2, 0)).columns == (2, 0)


def test_no_output_is_wide_enough() -> None:
    with pytest.raises(UnreadableError, match="no output of the model can give 9 scores"):
        found(np.zeros((6, 9)))
