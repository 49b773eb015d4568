from __future__ import annotations

from pathlib import Path

import pytest

from bnaudit.run_options import RunOptions


@pytest.mark.parametrize(
    ("options", "plain"),
    [
        ({}, True),
        ({"model": "net.py:build", "inputs": Path("x.npz"), "model_args": {"widths": [8, 16], "name": "a"}}, True),
        ({"model": lambda: None}, False),
        ({"inputs": [1.0]}, False),
        ({"inputs": iter(())}, False),
        ({"model_args": {"net": object()}}, False),
        ({"model_args": {"nets": {"a": (1, object())}}}, False),
    ],
)
def test_what_is_live_is_told_from_texts_and_numbers(options: dict[str, object], plain: bool) -> None:
    assert RunOptions(**options).is_plain is plain
