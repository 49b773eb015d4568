from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from policy_folders import TODAY, folder_with, policy_of

from bnaudit.policy import load
from bnaudit.policy.keys import KEYS
from bnaudit.policy.showing import toml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SETTINGS = """
fail-on = "error"
ignore = ["BN112"]
seed = 1
max-gap = 0.25
[severity]
BN105 = "error"
[limits.BN404]
mean_shift = 0.4
[intended]
BN302 = ["prenet.*"]
[[accept]]
rule = "BN105"
reason = "known"
until = 2026-01-01
[files."models/*.pt"]
model = "net.py:build"
budget = "2m"
[files."models/a.pt"]
seed = 2
intended = {BN302 = "head.*"}
"""


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    policy = policy_of(tmp_path, SETTINGS, {"fail-on": "note", "dim": ["height=3"]})
    return policy.shown([Path("models", "a.pt"), Path("models", "b.pt"), Path("net.py")])


def source_of(text: str, line: str) -> str:
    (found,) = [each for each in text.splitlines() if each.startswith(line)]
    return found.rpartition("  # ")[2]


def test_every_key_is_shown_with_where_its_value_comes_from(shown: str) -> None:
    whole = shown.partition("\n\n")[0]
    for name in KEYS:
        if name not in ("files", "accept"):
            assert any(line.removeprefix("# ").startswith(name) for line in whole.splitlines()), name
    assert source_of(whole, 'fail-on = "note"') == "command line"
    assert source_of(whole, 'ignore = ["BN112"]') == "bnaudit.toml"
    assert source_of(whole, "limits.BN404.mean_shift = 0.4") == "bnaudit.toml"
    assert source_of(whole, "dim.height = 3") == "command line"
    assert source_of(whole, 'device = "cpu"') == "default"
    assert source_of(whole, 'require = ["buffers", "train-eval-gap"]') == "default; max-gap"
    assert source_of(whole, "# accept: {") == "bnaudit.toml: accept[0], expired on 2026-01-01"


def test_what_sections_change_is_shown_for_each_group_of_artifacts(shown: str) -> None:
    _, first, second = shown.split("\n\n")
    assert first.startswith('# models/a.pt\n[files."models/a.pt"]')
    assert source_of(first, "seed = 2") == 'bnaudit.toml: files."models/a.pt"'
    assert source_of(first, "budget = 120.0") == 'bnaudit.toml: files."models/*.pt"'
    both = 'bnaudit.toml, bnaudit.toml: files."models/a.pt"'
    assert source_of(first, 'intended.BN302 = ["prenet.*", "head.*"]') == both
    assert second.startswith('# models/b.pt\n[files."models/*.pt"]')
    assert "seed" not in second
    assert "fail-on" not in second


def test_what_is_shown_is_toml_that_means_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = policy_of(tmp_path, SETTINGS.partition("[[accept]]")[0])
    text = before.shown([])
    folder_with(tmp_path, text)
    after = load(None, tmp_path, {}, today=TODAY)
    for field in before.settings(None)._fields:
        old, new = getattr(before.settings(None), field), getattr(after.settings(None), field)
        assert plain(old) == plain(new), field


def plain(value: Any) -> Any:
    return {name: getattr(value, name) for name in value._fields} if hasattr(value, "_fields") else value


def test_hostile_names_do_not_reach_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = policy_of(tmp_path, 'layers = ["\\u001b[31m\\n"]\n[intended]\nBN302 = "\\u202e"').shown([])
    assert all(line.isprintable() for line in text.splitlines())
    assert tomllib.loads(text)["layers"] == ["\x1b[31m\n"]


@pytest.mark.parametrize("value", [True, 3, 0.1, 1e300, 'a"b\\\n', ["x", 1], {"a b": {"c": [True]}}])
def test_values_are_written_as_toml_reads_them(value: object) -> None:
    assert tomllib.loads(f"x = {toml(value)}") == {"x": value}
