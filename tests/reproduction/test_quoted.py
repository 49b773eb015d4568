"""What a script takes of the user's names stays a literal."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bnaudit.errors import UsageError
from bnaudit.feeds.axes import Axes
from bnaudit.feeds.pools import Pool
from bnaudit.reproduction.quoted import Call, literal, place, prose

texts = st.text(st.characters(), max_size=30)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(plain)
def test_a_literal_is_read_back_and_is_ascii(value: object) -> None:
    written = literal(value)
    assert written.isascii() and "\n" not in written
    assert ast.literal_eval(written) == value


def test_numbers_that_are_none_and_other_objects() -> None:
    assert literal(float("inf")) == "float('inf')"
    with pytest.raises(UsageError, match="class object cannot be written"):
        literal(object())


@given(texts)
def test_prose_cannot_end_a_docstring_or_begin_a_line(text: str) -> None:
    source = f'"""{prose(text)} end"""'
    assert "\n" not in source
    (only,) = ast.parse(source).body
    assert isinstance(only, ast.Expr) and isinstance(only.value, ast.Constant)


def test_a_path_is_written_from_the_script_where_both_share_a_folder(tmp_path: Path) -> None:
    assert place(tmp_path / "a" / "model.pt", tmp_path / "repro") == 'HERE / "../a/model.pt"'


def test_a_call_is_put_together_from_arrays_by_short_names() -> None:
    tree = (
        (np.zeros((4, 2)), [np.zeros((3, 4)), 7]),
        {"mask": np.ones(4), 'we"ird\n), (': np.zeros((4, 1)), "scale": None},
    )
    call = Call(Pool(tree, Axes((0, 1, None, 0, 0, None), 4)), "tensor")
    assert list(call.arrays) == ["input", "input_2", "mask", "input_3"]
    body = "def run(data, rows, tensor):\n" + call.lines + "\n    return args, kwargs\n"
    names: dict[str, object] = {}
    exec(compile(body, "call", "exec"), names)
    args, kwargs = names["run"](call.arrays, [1, 1, 2], lambda array: array.shape)  # type: ignore[operator]
    assert args == ((3, 2), [(3, 3), 7])
    assert kwargs == {"mask": (3,), 'we"ird\n), (': (3, 1), "scale": None}
