from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bnaudit.errors import UsageError
from bnaudit.policy.place import Place, basic_string, is_file, quoted, written

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@given(st.text())
def test_keys_and_strings_are_read_back_by_toml(text: str) -> None:
    assert tomllib.loads(f"{quoted(text)} = {basic_string(text)}") == {text: text}
    assert basic_string(text).isprintable()


def test_bytes_of_a_path_that_are_no_text_stand_as_a_pattern_that_fits() -> None:
    assert basic_string("a\udcff") == '"a?"'


def test_an_error_of_a_check_names_the_place() -> None:
    place = Place("bnaudit.toml: budget", Path(), example='budget = "60s"')
    with pytest.raises(UsageError, match=r"^too short \(bnaudit\.toml: budget\): write budget"), place.named():
        raise UsageError("too short", where="--budget 0")
    with pytest.raises(UsageError, match=r"no such path.*bnaudit\.toml"), place.named():
        raise OSError(36, "File name too long")


def test_paths_are_written_relative_where_the_two_have_a_folder_in_common(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert written(tmp_path / "models" / "a.pt") == str(Path("models", "a.pt"))
    assert written(tmp_path.parent / "a.pt") == str(Path("..", "a.pt"))
    assert written(Path(tmp_path.anchor, "nowhere", "a.pt")) == str(Path(tmp_path.anchor, "nowhere", "a.pt"))


@pytest.mark.parametrize("path", ["a" * 5000, "a\0b", ""])
def test_a_path_that_no_file_system_takes_is_no_file(path: str) -> None:
    assert not is_file(path)
