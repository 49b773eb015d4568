from __future__ import annotations

from pathlib import Path

import pytest

from bnaudit.errors import UsageError
from bnaudit.policy import artifact_paths
from bnaudit.policy.artifact_paths import check_pattern, exists, fits, start_of
from bnaudit.policy.place import Place


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("models/a.pt", "models/deep/b.onnx", ".hidden/c.pt", "top.pt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "fitting"),
    [
        ("models/a.pt", {"models/a.pt"}),
        ("./models/a.pt", {"models/a.pt"}),
        ("models", {"models/a.pt", "models/deep/b.onnx"}),
        ("models/", {"models/a.pt", "models/deep/b.onnx"}),
        ("*.pt", {"models/a.pt", "top.pt"}),
        ("models/*", {"models/a.pt", "models/deep/b.onnx"}),
        ("*/b.*", {"models/deep/b.onnx"}),
        ("models/?.pt", {"models/a.pt"}),
        ("*.safetensors", set()),
    ],
)
def test_a_pattern_fits_paths_below_the_root(pattern: str, fitting: set[str], root: Path) -> None:
    names = ("models/a.pt", "models/deep/b.onnx", "top.pt")
    assert {name for name in names if fits(root / name, pattern, root)} == fitting
    assert exists(pattern, root) is bool(fitting)


def test_an_empty_pattern_is_refused(root: Path) -> None:
    for pattern in ("", " "):
        with pytest.raises(UsageError, match="this pattern is empty"):
            check_pattern(pattern, root, Place("here", root))


def test_hidden_folders_are_reached_by_name_only(root: Path) -> None:
    assert exists(".hidden/*.pt", root)
    assert not exists("*/c.pt", root)


def test_the_search_begins_below_the_fixed_part(root: Path) -> None:
    assert start_of("models/deep/*.onnx", root) == root / "models" / "deep"
    assert start_of("*.pt", root) == root
    assert start_of("models", root) == root / "models"


def test_a_pattern_that_fits_nothing_is_told_with_the_nearest_file(root: Path) -> None:
    with pytest.raises(UsageError, match=r"no file fits this pattern \(here\): did you mean models/a\.pt\?"):
        check_pattern("models/aa.pt", root, Place("here", root))
    with pytest.raises(UsageError, match="check the path"):
        check_pattern("zzzzzzzz", root, Place("here", root))


def test_in_a_huge_folder_a_pattern_is_taken_to_fit(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact_paths, "_MOST_ENTRIES", 2)
    check_pattern("*.safetensors", root, Place("here", root))
