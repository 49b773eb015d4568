from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

import bnaudit
from bnaudit.caps import Caps
from bnaudit.errors import UsageError
from bnaudit.targets import Targets, expand

SAMPLES = Path(__file__).parent.parent / "sample_models" / "healthy"


def targets(*paths: str | Path) -> Targets:
    return expand(paths, Caps())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two models at two depths, a sharded model, a text file, and what version control keeps."""
    (tmp_path / "deep" / "er").mkdir(parents=True)
    shutil.copy(SAMPLES / "state_dict.pt", tmp_path / "a.pt")
    shutil.copy(SAMPLES / "norms_kept.onnx", tmp_path / "deep" / "er" / "b.onnx")
    shutil.copytree(SAMPLES / "hf_safetensors", tmp_path / "deep" / "hf")
    (tmp_path / "readme.txt").write_text("hello", encoding="utf-8")
    (tmp_path / ".git").mkdir()
    shutil.copy(SAMPLES / "state_dict.pt", tmp_path / ".git" / "c.pt")
    return tmp_path


def test_a_folder_is_searched_and_a_model_folder_is_one_target(folder: Path) -> None:
    found = targets(folder)
    assert {str(path.relative_to(folder)) for path in found.paths} == {
        "a.pt",
        str(Path("deep", "er", "b.onnx")),
        str(Path("deep", "hf")),
    }
    assert found.other_files == 1
    assert found.missing == ()


def test_a_model_folder_given_by_name_is_one_target(folder: Path) -> None:
    assert targets(folder / "deep" / "hf").paths == (folder / "deep" / "hf",)


def test_a_path_given_twice_is_audited_once(folder: Path) -> None:
    assert len(targets(folder / "a.pt", folder / "." / "a.pt", folder).paths) == 3


def test_patterns_reach_any_depth_and_a_literal_name_wins(folder: Path) -> None:
    assert [path.name for path in targets(folder / "**" / "*.onnx").paths] == ["b.onnx"]
    literal = folder / "odd[1].pt"
    shutil.copy(SAMPLES / "state_dict.pt", literal)
    assert targets(literal).paths == (literal,)


def test_what_is_not_there_is_an_error_that_names_it(folder: Path) -> None:
    found = targets(folder / "nowhere.pt", folder / "*.pth")
    assert [entry.error for entry in found.missing] == [True, True]
    assert "does not exist" in found.missing[0].why
    assert "matches no file" in found.missing[1].why


def test_a_file_that_should_be_a_model_is_never_passed_over(folder: Path) -> None:
    (folder / "truncated.pt").write_bytes((SAMPLES / "state_dict.pt").read_bytes()[:9000])
    (folder / "net.tflite").write_bytes(b"\x1c\x00\x00\x00TFL3" + bytes(32))
    names = {path.name for path in targets(folder).paths}
    assert {"truncated.pt", "net.tflite"} <= names


def test_a_pickle_of_something_else_in_a_folder_is_counted_and_by_name_is_an_error(folder: Path) -> None:
    dataset = folder / "labels.pkl"
    dataset.write_bytes(pickle.dumps({"train": [1, 2, 3]}))
    report = bnaudit.audit(folder)
    assert (report.unaudited, report.other_files) == ((), 2)
    assert [entry.error for entry in bnaudit.audit(dataset).unaudited] == [True]
    dataset.write_bytes((SAMPLES / "detectron2_style.pkl").read_bytes()[:-300])
    assert [entry.path for entry in bnaudit.audit(folder).unaudited] == [str(dataset)]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_links_that_go_round_or_nowhere_end(folder: Path) -> None:
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "self.pt").symlink_to(folder / "self.pt")
    (folder / "gone.pt").symlink_to(folder / "gone_too.pt")
    names = sorted(path.name for path in targets(folder).paths)
    assert names == ["a.pt", "b.onnx", "gone.pt", "hf", "self.pt"]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_folders_are_searched_through_links_but_not_upwards(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = tmp_path_factory.mktemp("store")
    shutil.copy(SAMPLES / "state_dict.pt", store / "linked.pt")
    (folder / "current").symlink_to(store, target_is_directory=True)
    (folder / "deep" / "up").symlink_to(folder, target_is_directory=True)
    (store / "beside").symlink_to(folder / "deep", target_is_directory=True)
    names = sorted(path.name for path in targets(folder).paths)
    assert names == ["a.pt", "b.onnx", "hf", "linked.pt"]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_file_is_a_target_under_each_name_for_which_something_else_holds(folder: Path) -> None:
    (folder / "served.pt").symlink_to(folder / "a.pt")
    assert [path.name for path in targets(folder / "served.pt", folder / "a.pt").paths] == ["served.pt"]
    both = expand([folder / "served.pt", folder / "a.pt"], Caps(), about=lambda path: path.name)
    assert [path.name for path in both.paths] == ["served.pt", "a.pt"]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_what_is_left_out_under_one_name_is_found_under_another(folder: Path) -> None:
    (folder / "served.pt").symlink_to(folder / "a.pt")
    found = expand([folder], Caps(), lambda path: path.name in ("a.pt", "deep"))
    assert [path.name for path in found.paths] == ["served.pt"]
    assert expand([folder / "*.pt"], Caps(), lambda path: path.name == "a.pt").paths == (folder / "served.pt",)
    assert expand([folder / "a.pt"], Caps(), lambda path: True).paths == (folder / "a.pt",), "it is named"


def test_a_folder_that_cannot_be_listed_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = os.scandir

    def denied(path: str | Path) -> object:
        if Path(path).name == "er":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", denied)
    (entry,) = targets(folder).missing
    assert entry.error and "er cannot be listed, Permission denied" in entry.why


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions of POSIX")
def test_a_folder_that_may_not_be_entered_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "locked").mkdir()
    is_file = Path.is_file

    def refusing(path: Path, **options: bool) -> bool:
        if path.parent.name == "locked":
            raise PermissionError(13, "Permission denied")
        return is_file(path, **options)

    def listing(place: str | os.PathLike[str]) -> object:
        if Path(place).name == "locked":
            raise PermissionError(13, "Permission denied", str(place))
        return scandir(place)

    scandir = os.scandir
    monkeypatch.setattr(Path, "is_file", refusing)
    monkeypatch.setattr(os, "scandir", listing)
    for given in (folder / "locked", folder):
        missing = expand([given], Caps()).missing
        assert ["cannot be listed, Permission denied" in entry.why for entry in missing] == [True]


def test_files_of_a_folder_that_may_be_listed_and_not_entered_are_targets(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(folder / "a.pt", folder / "deep" / "nameless")
    path_stat, os_stat, os_open = Path.stat, os.stat, os.open

    def refuse(path: object) -> None:
        if str(path).endswith("nameless"):
            raise PermissionError(13, "Permission denied", str(path))

    def refusing(call: Any) -> Any:
        def refused(path: Any, *arguments: Any, **options: Any) -> Any:
            refuse(path)
            return call(path, *arguments, **options)

        return refused

    monkeypatch.setattr(Path, "stat", refusing(path_stat))
    monkeypatch.setattr(os, "stat", refusing(os_stat))
    monkeypatch.setattr(os, "open", refusing(os_open))
    assert folder / "deep" / "nameless" in targets(folder).paths
    (refused,) = bnaudit.audit(folder).unaudited
    assert refused.why.endswith("nameless cannot be opened (Permission denied): check its permissions")


@pytest.mark.parametrize("path", ["", "  "])
def test_an_empty_path_is_not_the_working_directory(path: str) -> None:
    with pytest.raises(UsageError, match="a path is empty"):
        targets(path)
