"""Observed scores in JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bnaudit.diagnosis import ScoreKind
from bnaudit.errors import UnreadableError
from bnaudit.observed import read_log, read_observed

VALUES = np.round(np.random.default_rng(3).normal(size=(6, 4)), 3)


def written(folder: Path, text: str, name: str = "log.jsonl") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "log.jsonl",
            "\n".join(json.dumps({"input": i, "logits": row}) for i, row in enumerate(VALUES.tolist())),
        ),
        ("log.jsonl", "\n".join(json.dumps(row) for row in VALUES.tolist())),
        ("log.json", json.dumps(VALUES.tolist())),
        ("log.json", json.dumps({"logits": VALUES.tolist(), "input": list(range(6))}, indent=1)),
        ("log.json", json.dumps([{"input": i, "logits": row} for i, row in enumerate(VALUES.tolist())])),
        (
            "log.ndjson",
            "\n".join(json.dumps({f"logit_{c}": v for c, v in enumerate(row)}) for row in VALUES.tolist()),
        ),
    ],
)
def test_every_usual_shape_is_read_alike(tmp_path: Path, name: str, text: str) -> None:
    observed = read_observed(written(tmp_path, text, name))
    np.testing.assert_array_equal(observed.values, VALUES)
    assert observed.rows.tolist() == list(range(6))
    assert observed.step == 0.001


def test_what_was_not_logged_is_null_or_left_out(tmp_path: Path) -> None:
    text = '{"input": 1, "logit_0": 0.5, "logit_2": null}\n\n{"input": 0, "logit_2": 1.25, "batch_size": 4}\n'
    log = read_log(written(tmp_path, text))
    np.testing.assert_array_equal(log.observed.values, [[0.5, np.nan], [np.nan, 1.25]])
    assert log.observed.columns == (0, 2)
    assert log.batch_sizes is not None
    assert log.batch_sizes.tolist() == [0, 4]


def test_labels_are_read(tmp_path: Path) -> None:
    observed = read_observed(written(tmp_path, '{"id": "7", "label": 3}\n{"id": "2", "label": 0}\n'))
    assert observed.kind is ScoreKind.LABELS
    assert observed.rows.tolist() == [7, 2]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"logits": [0.5]\n', r"no JSON: .* \(log.jsonl, line 1\)"),
        ('{"logits": [0.5, 1]}\n{"logits": [0.5]}\n', r"1 numbers here and 2 in the first row \(log.jsonl, line 2\)"),
        ('{"logits": [0.5]}\n[0.5]\n', r"another kind of value than the first \(log.jsonl, line 2\)"),
        ('{"logits": {"a": 1}}\n', "is nested"),
        ('{"logits": [[1]]}\n{"logits": [[1]]}\n', "is nested"),
        ('{"logit_0": true}\n', "no column holds scores|is no number"),
        ("[" * 100_000, "nested|no JSON"),
        ("\n", "no observation"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UnreadableError, match=says) as caught:
        read_log(written(tmp_path, text))
    assert "\n" not in str(caught.value)
