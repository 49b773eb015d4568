"""Whatever a settings file holds, it is a policy or one sentence."""

from __future__ import annotations

from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bnaudit.errors import UsageError
from bnaudit.policy import load
from bnaudit.policy.document import Document
from bnaudit.policy.keys import KEYS
from bnaudit.policy.policy import Policy
from bnaudit.policy.sections import sections_of, typed_section

WORDS = st.sampled_from(
    ["BN105", "BN4", "bn", "all", "none", "buffers", "error", "off", "net.py:build", "models/*.pt", "mean_shift",
     "*", "[", "height", "value_bytes", "..", "/", "60s", "2027-01-31", "rule", "reason", "x" * 5000]
)  # fmt: skip
TEXTS = WORDS | st.text(max_size=8)
SCALARS = (
    TEXTS | st.integers() | st.floats() | st.booleans() | st.dates() | st.datetimes() | st.times() | st.just(10**400)
)
NAMES = st.sampled_from([*KEYS, "rule", "reason", "until", "file", "layer"]) | TEXTS
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))
TABLES = st.dictionaries(NAMES, VALUES, max_size=4)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("root")
    (folder / "net.py").write_text("def build(): ...", encoding="utf-8")
    return folder


def asked_everything(policy: Policy) -> None:
    for artifact in (None, Path("a.pt"), policy.root / "models" / "a.pt"):
        assert policy.settings(artifact).run.anchors >= 1
    assert policy.shown([policy.root / "a.pt"]).endswith("\n")
    assert policy.excludes(Path("a.pt")) in (True, False)


@given(settings=TABLES, files=TABLES, typed=TABLES)
def test_any_values_are_a_policy_or_a_sentence(root: Path, settings: Any, files: Any, typed: Any) -> None:
    try:
        sections = sections_of(Document("bnaudit.toml", root, {**settings, "files": files}))
        asked_everything(Policy(Document("bnaudit.toml", root, settings), sections, typed_section(typed), date.today()))
    except UsageError as error:
        assert "\n" not in str(error)
        assert error.remedy


@pytest.mark.parametrize("name", KEYS)
@given(value=VALUES)
def test_any_value_of_a_key_is_taken_or_refused_at_its_place(root: Path, name: str, value: Any) -> None:
    for place, make in (
        (f"bnaudit.toml: {name}", lambda: sections_of(Document("bnaudit.toml", root, {name: value}))),
        (KEYS[name].option, lambda: typed_section({name: value})),
    ):
        try:
            make()
        except UsageError as error:
            assert error.where.startswith(place[:60])


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_any_bytes_are_a_policy_or_a_sentence(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    (folder / "bnaudit.toml").write_bytes(content)
    try:
        asked_everything(load(None, folder, {}))
    except UsageError as error:
        assert "bnaudit.toml" in str(error)


def test_dates_and_times_have_a_name() -> None:
    from bnaudit.policy.checks import kind

    assert {kind(each) for each in (date.today(), datetime.now(), time())} == {"a date or time"}
