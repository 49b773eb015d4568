"""JSON from untrusted files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bnaudit.caps import Caps
from bnaudit.errors import CapExceededError, MalformedError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.json_text import as_list, as_object, list_at, object_at, parse_json, text_at


def parsed(tmp_path: Path, content: bytes, caps: Caps | None = None) -> object:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with ByteSource.open(path, caps) as source:
        return parse_json(source)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(value=_VALUES)
def test_documents_come_back(tmp_path: Path, value: object) -> None:
    assert parsed(tmp_path, json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1,]", b"\xff", b"[" * 500_000, b'{"a":' * 500_000, b"9" * 10_000 + b"x"],
    ids=["empty", "cut", "comma", "no text", "deep array", "deep object", "long number"],
)
def test_what_is_no_json_is_malformed(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(MalformedError):
        parsed(tmp_path, content)


def test_a_document_above_the_cap_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(CapExceededError):
        parsed(tmp_path, b'{"a": "' + b"x" * 100 + b'"}', Caps(header_bytes=50))


@pytest.mark.parametrize("value", [b"[],", b'{"a":1},', b"1,", b'"a",'])
def test_a_document_of_too_many_values_is_not_parsed(tmp_path: Path, value: bytes) -> None:
    assert parsed(tmp_path, b"[" + value * 9 + b"0]", Caps(json_values=30))
    with pytest.raises(CapExceededError, match="json_values"):
        parsed(tmp_path, b"[" + value * 30 + b"0]", Caps(json_values=30))


def test_the_makers_of_objects_may_refuse_them(tmp_path: Path) -> None:
    def refuse(pairs: list[tuple[str, object]]) -> object:
        raise ValueError("a name stands in it twice")

    path = tmp_path / "x.json"
    path.write_bytes(b'{"a": 1, "a": 2}')
    with ByteSource.open(path) as source, pytest.raises(MalformedError, match="stands in it twice"):
        parse_json(source, refuse)


def test_checked_values_have_the_type_that_was_asked_for() -> None:
    assert as_object({"a": 1}, "it") == {"a": 1}
    assert as_list([1], "it") == [1]
    with pytest.raises(MalformedError, match="the graph is not a JSON object"):
        as_object([1], "the graph")
    with pytest.raises(MalformedError, match="the nodes is not a JSON array"):
        as_list({}, "the nodes")


def test_optional_fields_of_another_type_count_as_absent() -> None:
    document = {"o": {"x": 1}, "l": [1], "t": "text"}
    assert (object_at(document, "o"), list_at(document, "l"), text_at(document, "t")) == ({"x": 1}, [1], "text")
    for parent in (document, [], None, "text"):
        assert (object_at(parent, "l"), list_at(parent, "t"), text_at(parent, "o")) == ({}, [], "")
