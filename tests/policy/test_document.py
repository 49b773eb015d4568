from __future__ import annotations

from pathlib import Path

import pytest

from bnaudit.errors import UsageError
from bnaudit.policy.document import named, nearest_above, parsed


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_nearest_settings_above_are_found(tmp_path: Path) -> None:
    write(tmp_path / "bnaudit.toml", "seed = 1")
    write(tmp_path / "a" / "pyproject.toml", "[tool.bnaudit]\nseed = 2")
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    for start, folder, seed in (("a/b/c", "a", 2), ("a", "a", 2), (".", ".", 1)):
        found = nearest_above(tmp_path / start)
        assert found.settings == {"seed": seed}
        assert found.root == tmp_path / folder


def test_a_pyproject_without_a_table_of_ours_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "bnaudit.toml", "seed = 1")
    write(tmp_path / "a" / "pyproject.toml", '[project]\ndependencies = ["bnaudit"]')
    write(tmp_path / "b" / "pyproject.toml", "this is [not TOML")
    assert nearest_above(tmp_path / "a").root == tmp_path
    assert nearest_above(tmp_path / "b").root == tmp_path


def test_without_settings_the_root_is_where_the_search_began(tmp_path: Path) -> None:
    found = nearest_above(tmp_path)
    assert (found.source, found.settings) == ("", {})
    assert found.root == tmp_path


@pytest.mark.parametrize("kind", ["folder", "link to nowhere", "links in a circle"])
def test_settings_that_are_no_file_are_not_passed_over(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "bnaudit.toml"
    if kind == "folder":
        place.mkdir()
    else:
        place.symlink_to(tmp_path / ("nowhere" if kind == "link to nowhere" else "bnaudit.toml"))
    (tmp_path / "a").mkdir()
    for start in (tmp_path, tmp_path / "a"):
        with pytest.raises(UsageError, match=r"bnaudit\.toml is no file that can be read: make it one"):
            nearest_above(start)


def test_settings_in_both_files_of_one_folder_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "bnaudit.toml", "seed = 1")
    write(tmp_path / "pyproject.toml", "[tool.bnaudit]\nseed = 2")
    with pytest.raises(UsageError, match=r"both .*bnaudit\.toml and .*pyproject\.toml have settings.*take \[tool"):
        nearest_above(tmp_path)


def test_the_source_is_written_as_seen_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "bnaudit.toml", "seed = 1")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert nearest_above(inner).source == str(Path("..", "..", "bnaudit.toml"))
    monkeypatch.chdir(tmp_path)
    assert nearest_above(tmp_path).source == "bnaudit.toml"


def test_a_named_file_is_read_whatever_its_name(tmp_path: Path) -> None:
    path = write(tmp_path / "strict.toml", "seed = 3")
    assert named(str(path)).settings == {"seed": 3}
    shared = write(tmp_path / "pyproject.toml", "[tool.bnaudit]\nseed = 4")
    assert named(str(shared)).settings == {"seed": 4}


def test_a_named_file_that_is_not_there_or_has_no_settings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no such settings file \(--config .*gone\.toml\)"):
        named(str(tmp_path / "gone.toml"))
    with pytest.raises(UsageError, match="no such settings file"):
        named(str(tmp_path))
    empty = write(tmp_path / "pyproject.toml", "[tool.ruff]")
    with pytest.raises(UsageError, match=r"no settings of bnaudit.*add a table \[tool\.bnaudit\]"):
        named(str(empty))
    with pytest.raises(UsageError, match=r"pyproject\.toml: tool\.bnaudit"):
        named(str(write(empty, "[tool]\nbnaudit = 1")))


def test_a_syntax_error_is_told_with_line_and_column(tmp_path: Path) -> None:
    path = write(tmp_path / "bnaudit.toml", 'seed = 1\nmodel "x"\n')
    with pytest.raises(UsageError, match=r"not TOML, .*line 2, column 7.*\(.*bnaudit\.toml\)"):
        nearest_above(path.parent)


@pytest.mark.parametrize("text", ["a = " + "[" * 20_000, "a = " + "9" * 10_000, "a = 1\na = 2", "\x00", "a=1e"])
def test_hostile_documents_are_one_sentence(text: str) -> None:
    with pytest.raises(UsageError, match=r"here\.toml"):
        parsed(text, "here.toml")


def test_other_encodings_are_refused_and_a_byte_order_mark_is_not(tmp_path: Path) -> None:
    path = tmp_path / "bnaudit.toml"
    path.write_bytes("# mod\xe8le\n".encode("latin-1"))
    with pytest.raises(UsageError, match=r"not UTF-8 at byte 5.*save the file as UTF-8"):
        nearest_above(tmp_path)
    path.write_bytes(b"\xef\xbb\xbfseed = 1\r\n")
    assert nearest_above(tmp_path).settings == {"seed": 1}


@pytest.mark.parametrize(
    "header", ["[tool.bnaduit]", "[tools.bnaudit]", "[tool.Bnaudit]", "[ tool . 'bn-audit'.files ]"]
)
def test_a_mistyped_table_is_not_passed_over(header: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "x"\n{header}\nseed = 1\n', encoding="utf-8")
    with pytest.raises(UsageError, match=r"did you mean \[tool\.bnaudit\]"):
        nearest_above(tmp_path)


@pytest.mark.parametrize("header", ["[tool.bandit]", "[tool.pip-audit]", "[tool.audit]", "[tool.bn]", "[tool.unit]"])
def test_tables_of_other_tools_are(header: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f"{header}\nseed = 1\n", encoding="utf-8")
    assert nearest_above(tmp_path).settings == {}
