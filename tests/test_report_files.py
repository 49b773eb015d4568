from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest
from builders import batch_norm, description, part

from bnaudit.auditing import conclude
from bnaudit.errors import UsageError
from bnaudit.report_files import check_not_models, check_not_read, destinations, write_reports, write_whole
from bnaudit.reports import View
from bnaudit.results import Report
from bnaudit.settings import Settings

SAMPLES = Path(__file__).parent.parent / "sample_models"
posix = pytest.mark.skipif(sys.platform == "win32", reason="permissions and links of POSIX")


@pytest.fixture
def report() -> Report:
    audit = conclude(description(part([batch_norm()])), Settings(), [])
    return Report(version="0", audits=(audit,))


def test_without_one_for_stdout_the_terminals_report_goes_there(tmp_path: Path) -> None:
    (only,) = destinations(())
    assert (only.renderer.name, only.path) == ("terminal", None)
    first, second = destinations([f"json={tmp_path / 'a=b.json'}"])
    assert (first.renderer.name, first.path) == ("json", tmp_path / "a=b.json")
    assert (second.renderer.name, second.path) == ("terminal", None)
    for text in ("json", "json=-"):
        (alone,) = destinations([text])
        assert (alone.renderer.name, alone.path) == ("json", None)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["jsn=a"], "did you mean json"),
        (["pdf"], "there are "),
        (["json", "terminal"], "two reports would go to stdout"),
        (["json", "json=-"], "two reports would go to stdout"),
        (["json={0}/a", "terminal={0}/./a"], "two reports would go to one file"),
        (["json={0}"], "is a folder"),
        (["json={0}/none/a.json"], "there is no folder"),
        (["json="], "names no file.*write json=PATH"),
        (["json={0}/" + "a" * 300], "there can be no such file"),
        (["json=" + "a/" * 3000], "there can be no such file"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_audited(
    texts: list[str], said: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=said):
        destinations([text.format(tmp_path) for text in texts])


def test_a_report_never_overwrites_a_model(tmp_path: Path) -> None:
    model = tmp_path / "a.pt"
    model.write_bytes(b"weights")
    with pytest.raises(UsageError, match="would overwrite a model"):
        check_not_models(destinations([f"json={tmp_path}/../{tmp_path.name}/a.pt"]), [model])
    check_not_models(destinations([f"json={tmp_path / 'b.json'}"]), [model])


def test_a_report_never_overwrites_a_model_that_is_not_audited_either(tmp_path: Path) -> None:
    model, archive = tmp_path / "other.json", tmp_path / "shard.json"
    model.write_bytes((SAMPLES / "healthy" / "state_dict.pt").read_bytes())
    archive.write_bytes((SAMPLES / "digits.npz").read_bytes())
    for path in (model, archive):
        with pytest.raises(UsageError, match=r"would overwrite a model \(--output json="):
            check_not_models(destinations([f"json={path}"]), [])


def test_a_report_overwrites_the_one_before(report: Report, tmp_path: Path) -> None:
    places = destinations([f"{kind}={tmp_path / f'r.{kind}'}" for kind in ("json", "sarif", "junit", "html", "jsonl")])
    for _ in range(2):
        check_not_models(places, [tmp_path / "a.pt"])
        write_reports(report, places)
    (tmp_path / "empty.json").touch()
    check_not_models(destinations([f"json={tmp_path / 'empty.json'}"]), [])


def test_a_report_never_overwrites_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "bnaudit.toml").touch()
    (tmp_path / "link.toml").symlink_to(tmp_path / "bnaudit.toml")
    for name in ("bnaudit.toml", "link.toml"):
        with pytest.raises(UsageError, match=r"would overwrite the settings \(--output json=.*another path"):
            check_not_read(destinations([f"json={tmp_path / name}"]), [("the settings", tmp_path / "bnaudit.toml")])
    check_not_read(destinations([f"json={tmp_path / 'b.json'}"]), [("the settings", tmp_path / "bnaudit.toml")])


def test_every_report_is_written_and_only_the_one_for_stdout_has_the_users_look(
    report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = destinations([f"terminal={tmp_path / 'a.txt'}", f"json={tmp_path / 'a.json'}", "terminal"])
    write_reports(report, places, View(color=True))
    assert "\x1b[" in capsys.readouterr().out
    assert "\x1b[" not in (tmp_path / "a.txt").read_text(encoding="utf-8")
    assert (tmp_path / "a.json").read_text(encoding="utf-8").startswith("{")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "a.txt"]


def test_a_file_that_cannot_be_written_is_told_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.txt"
    file.write_text("before", encoding="utf-8")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(UsageError, match=r"cannot be written \(No space left on device\)"):
        write_whole(file, "after")
    assert file.read_text(encoding="utf-8") == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@posix
def test_links_that_go_round_are_no_place_for_a_report(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for place in (tmp_path / "a", tmp_path / "a" / "x.json"):
        with pytest.raises(UsageError, match=r"--output json=.*(a|x\.json)\): "):
            destinations([f"json={place}"])


def test_a_report_that_cannot_be_written_costs_no_other(
    report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("a.json", "b.sarif", "c.junit")
    places = destinations([f"{name[2:]}={tmp_path / name}" for name in names])
    for name in names[:2]:
        (tmp_path / name).mkdir()  # since the outputs were looked at
    with pytest.raises(UsageError) as raised:
        write_reports(report, places)
    assert all(name in str(raised.value) for name in names[:2]) and names[2] not in str(raised.value)
    assert (tmp_path / names[2]).read_text(encoding="utf-8").startswith("<?xml")
    assert "exit 0" in capsys.readouterr().out


def test_text_that_utf_8_lacks_is_escaped(tmp_path: Path) -> None:
    write_whole(tmp_path / "a.txt", "bn\udc9b")
    assert (tmp_path / "a.txt").read_bytes() == b"bn\\udc9b"


def test_a_file_that_may_not_be_written_is_not_replaced_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.txt"
    file.write_text("before", encoding="utf-8")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with pytest.raises(UsageError, match=r"cannot be written \(Permission denied\)"):
        write_whole(file, "after")
    assert [path.read_text(encoding="utf-8") for path in tmp_path.iterdir()] == ["before"]


@pytest.mark.parametrize("name", ["jinja2", "matplotlib"])
def test_a_library_that_a_report_lacks_is_told_before_anything_is_audited(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=rf"the html report needs {name}.*pip install 'bnaudit\[html\]'"):
        destinations([f"html={tmp_path / 'a.html'}"])


@posix
def test_permissions_and_links_stay(tmp_path: Path) -> None:
    file, link = tmp_path / "a.txt", tmp_path / "link.txt"
    mask = os.umask(0o027)
    try:
        write_whole(file, "one")
        assert stat.S_IMODE(file.stat().st_mode) == 0o640
        file.chmod(0o600)
        link.symlink_to(file)
        write_whole(link, "two")
    finally:
        os.umask(mask)
    assert link.is_symlink() and file.read_text(encoding="utf-8") == "two"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@posix
def test_a_device_is_written_to() -> None:
    write_whole(Path(os.devnull), "gone")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
