from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bnaudit
from bnaudit import errors
from bnaudit.errors import BnauditError, CapExceededError, MalformedError

CLASSES = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, BnauditError)]


def test_the_sentence_says_what_where_and_what_to_do() -> None:
    error = BnauditError("it is truncated", where="a.pt, byte 7", remedy="copy it again")
    assert str(error) == "it is truncated (a.pt, byte 7): copy it again"
    assert str(BnauditError("it is truncated")) == "it is truncated"
    assert str(MalformedError("it is truncated")).endswith(": copy or save the file again")
    assert "--cap value_bytes=" in str(CapExceededError("a norm tensor of 9 bytes", cap="value_bytes"))
    error.add("it also calls os.system")
    assert str(error).endswith("copy it again; it also calls os.system")


@given(text=st.text(max_size=50), times=st.integers(0, 1000))
@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_any_names_make_one_short_line(kind: type[BnauditError], text: str, times: int) -> None:
    more = {"cap": "value_bytes"} if kind is CapExceededError else {"remedy": text * times}
    error = kind(f"x{text * times}", where=text * times, **more)
    error.add(text * times)
    assert len(str(error).splitlines()) == 1
    assert len(str(error)) < 2000


def test_an_ordinary_path_is_not_shortened() -> None:
    path = "/data/" + "experiments/run-2024-01-01/checkpoints/" * 8 + "model.pt"
    assert path in str(MalformedError(f"{path} is truncated"))


def test_names_of_many_lines_in_a_file_stay_on_one(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a\nb\x85c/data.pkl", b"\x80\x02cos\nsystem\n")
        archive.writestr("a\nb\x85c/" + "long" * 10_000, b"")
    (unaudited,) = bnaudit.audit(path).unaudited
    assert len(unaudited.why.splitlines()) == 1 and len(unaudited.why) < 1000
