"""A path, or a path and a part: which # divides them is decided by what is there."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from builders import description, part
from hypothesis import given
from hypothesis import strategies as st

from bnaudit.comparing.paths import Located, located, named_part
from bnaudit.errors import UsageError

NAMES = st.text("ab#.1", min_size=1, max_size=8).filter(lambda name: name.strip("."))


@given(name=NAMES, part_name=st.text("ab#._1", max_size=6))
def test_the_longest_path_that_is_there_is_the_file(name: str, part_name: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(b"")
        assert located(path) == Located(path)
        written = f"{path}#{part_name}"
        if not os.path.lexists(written):
            assert located(written) == Located(path, part_name)


def test_what_is_not_there_keeps_its_name(tmp_path: Path) -> None:
    assert located(tmp_path / "gone.pt#ema") == Located(tmp_path / "gone.pt#ema")
    with pytest.raises(UsageError, match="a path is empty"):
        located("  ")


def test_a_part_is_found_by_its_name_or_the_nearest_is_named() -> None:
    both = description(part([], name="model"), part([], name="model_ema"))
    assert named_part(both, "model_ema") is both.parts[1]
    with pytest.raises(
        UsageError, match=r"has no part 'model_em': did you mean model_ema\? there are model, model_ema"
    ):
        named_part(both, "model_em")
    with pytest.raises(UsageError, match=r"has no parts with names \(#x\): give model.pt without #"):
        named_part(description(part([])), "x")
    assert named_part(description(part([])), "").name == ""
