from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pool_tasks
import pytest
import torch
from state_dicts import batch_norm

from bnaudit import streaming
from bnaudit.auditing import audit_targets
from bnaudit.caps import Caps
from bnaudit.errors import UsageError
from bnaudit.progress import Silent
from bnaudit.records import replace
from bnaudit.reports import View
from bnaudit.reports.json import RENDERER as JSON
from bnaudit.reports.jsonl import RENDERER
from bnaudit.results import Question, Report, Severity
from bnaudit.run_options import RunOptions
from bnaudit.settings import Settings
from bnaudit.streaming import stream
from bnaudit.tallies import Tally
from bnaudit.targets import Targets, expand

STATIC = Settings(run=RunOptions(static=True))
HERE = Path(__file__).parent


def targets(*paths: Path) -> Targets:
    return expand(paths, Caps())


def streamed(given: Targets, out: Path, settings: Settings = STATIC, **options: Any) -> Tally:
    return stream(given, lambda path: settings, out, Silent(), **options)


def report(given: Targets, settings: Settings = STATIC, jobs: int = 1) -> Report:
    return audit_targets(given, lambda path: settings, Silent(), jobs)


def lines(out: Path) -> dict[str, dict[str, Any]]:
    """The lines by their paths; no path may come twice, and no line may be cut off."""
    text = out.read_text(encoding="utf-8")
    assert text == "" or text.endswith("\n")
    found = [json.loads(line) for line in text.splitlines()]
    by_path = {line["path"]: line for line in found}
    assert len(by_path) == len(found)
    return by_path


@pytest.fixture(scope="session")
def bytes_of() -> Callable[[str], bytes]:
    """Files of each kind that a folder of models may hold."""
    made: dict[str, bytes] = {}

    def content(kind: str) -> bytes:
        if kind not in made:
            tensors = batch_norm("bn", 4, torch.float32, 1000)
            if kind == "defect":
                tensors["bn.running_var"] = torch.tensor([1.0, float("nan"), 1.0, 1.0])
            import io

            file = io.BytesIO()
            torch.save(tensors, file)
            made[kind] = file.getvalue()[:300] if kind == "broken" else file.getvalue()
        return made[kind]

    return content


@pytest.fixture
def folder(tmp_path: Path, bytes_of: Callable[[str], bytes]) -> Path:
    """Ten files: seven healthy, two defects, one broken."""
    models = tmp_path / "models"
    models.mkdir()
    kinds = ["healthy"] * 4 + ["defect", "broken", "defect"] + ["healthy"] * 3
    for number, kind in enumerate(kinds):
        (models / f"{number}.pt").write_bytes(bytes_of(kind))
    return models


def test_each_artifact_is_a_line_and_is_counted(folder: Path, tmp_path: Path) -> None:
    given, out = targets(folder, tmp_path / "gone.pt"), tmp_path / "out.jsonl"
    tally = streamed(given, out)
    found = lines(out)
    assert set(found) == {*map(str, given.paths), str(tmp_path / "gone.pt")}
    assert (tally.audited, tally.errors, tally.unread, tally.total) == (9, 2, 0, 11)
    assert (tally.codes[0], tally.codes[1], tally.codes[2]) == (7, 2, 2)
    assert [Path(entry.path).name for entry in tally.worst] == ["gone.pt", "5.pt", "4.pt", "6.pt"]
    nan = next(found for found in tally.findings if found.rule == "BN106")
    assert (nan.severity, tally.findings[nan], tally.artifacts_with[nan]) == (Severity.ERROR, 2, 2)
    assert tally.exit_code() == 2


def test_the_lines_are_those_of_an_ordinary_report(folder: Path, tmp_path: Path) -> None:
    streamed(targets(folder), tmp_path / "out.jsonl")
    rendered = RENDERER.render(report(targets(folder)), View())
    expected = {line["path"]: line for line in map(json.loads, rendered.splitlines())}
    found = lines(tmp_path / "out.jsonl")
    assert {path: {**line, "holds_for": None} for path, line in found.items()} == expected


def test_two_jobs_give_what_one_gives(folder: Path, tmp_path: Path) -> None:
    given = targets(folder)
    one, two = report(given, jobs=1), report(given, jobs=2)
    assert JSON.render(one, View()) == JSON.render(two, View())
    values = [layer.running_var.values for audit in two.audits for _, layer in audit.description.layers]
    assert len(values) == 9 and not any(each.flags.writeable for each in values)
    streamed(given, tmp_path / "one.jsonl")
    streamed(given, tmp_path / "two.jsonl", jobs=2)
    assert lines(tmp_path / "one.jsonl") == lines(tmp_path / "two.jsonl")


@pytest.mark.parametrize("exit_zero", [True, False])
@pytest.mark.parametrize(
    ("names", "settings"),
    [
        (["0.pt"], STATIC),
        (["0.pt", "4.pt"], STATIC),
        (["4.pt", "5.pt"], STATIC),
        (["net.tflite"], STATIC),
        (["0.pt", "net.tflite"], STATIC),
        (["4.pt", "net.tflite"], STATIC),
        ([], STATIC),
        (["0.pt"], replace(STATIC, require=(Question.EVAL_MODE,))),
        (["0.pt", "4.pt"], replace(STATIC, require=(Question.EVAL_MODE,))),
        (["4.pt"], replace(STATIC, severities={"BN1": Severity.NOTE})),
        (["4.pt"], replace(STATIC, severities={"BN1": Severity.NOTE}, require=(Question.BUFFERS,))),
    ],
)
def test_exit_codes_are_those_of_an_ordinary_report(
    folder: Path, tmp_path: Path, names: list[str], settings: Settings, exit_zero: bool
) -> None:
    (folder / "net.tflite").write_bytes(b"\x1c\x00\x00\x00TFL3" + bytes(40))
    given = targets(*(folder / name for name in names))
    tally = streamed(given, tmp_path / "out.jsonl", settings, exit_zero=exit_zero)
    assert tally.exit_code() == replace(report(given, settings), gate=True, exit_zero=exit_zero).exit_code()


def test_a_file_that_kills_its_process_costs_one_line(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "_examined", pool_tasks.dying_at_3)
    out = tmp_path / "out.jsonl"
    tally = streamed(targets(folder), out, jobs=2)
    dead = lines(out)[str(folder / "3.pt")]
    assert "3.pt could not be audited: its process" in dead["reason"]
    assert (dead["error"], dead["exit_code"], dead["holds_for"]) == (True, 2, None)
    assert (len(lines(out)), tally.audited, tally.errors) == (10, 8, 2)
    monkeypatch.undo()
    tally = streamed(targets(folder), out, jobs=2, resume=True)
    assert (len(lines(out)), tally.audited, tally.errors, tally.kept) == (10, 9, 1, 8)


def test_resuming_what_is_complete_makes_only_errors_again(folder: Path, tmp_path: Path) -> None:
    out, given = tmp_path / "out.jsonl", targets(folder)
    first = streamed(given, out)
    before = lines(out)
    again = streamed(given, out, resume=True)
    assert lines(out) == before
    assert (again.kept, again.dropped) == (9, 1)
    same = ("codes", "audited", "errors", "findings", "artifacts_with", "accepted", "not_passing", "worst", "fail_on")
    assert [getattr(again, field) for field in same] == [getattr(first, field) for field in same]
    assert again.exit_code() == first.exit_code() == 2


def test_resuming_without_a_file_begins_one(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert streamed(targets(folder), out, resume=True).kept == 0
    assert len(lines(out)) == 10


@pytest.mark.parametrize("cut", [1, 40, -1])
def test_a_line_that_was_cut_off_is_made_again(folder: Path, tmp_path: Path, cut: int) -> None:
    out = tmp_path / "out.jsonl"
    streamed(targets(folder), out)
    whole = out.read_bytes().splitlines(keepends=True)
    out.write_bytes(b"".join(whole[:3]) + whole[3][:cut])
    tally = streamed(targets(folder), out, resume=True)
    assert tally.kept == 3
    assert out.read_bytes().splitlines(keepends=True)[:3] == whole[:3]
    assert sorted(out.read_bytes().splitlines()) == sorted(line.rstrip(b"\n") for line in whole)


@pytest.mark.parametrize("cut", [0, 1, 15, 60])
def test_a_first_line_that_was_cut_off_is_no_other_file(folder: Path, tmp_path: Path, cut: int) -> None:
    out = tmp_path / "out.jsonl"
    streamed(targets(folder), out)
    out.write_bytes(out.read_bytes()[:cut])
    assert streamed(targets(folder), out, resume=True).kept == 0
    assert len(lines(out)) == 10


def test_a_changed_file_is_audited_again(folder: Path, tmp_path: Path, bytes_of: Callable[[str], bytes]) -> None:
    out = tmp_path / "out.jsonl"
    streamed(targets(folder), out)
    (folder / "0.pt").write_bytes(bytes_of("defect"))
    os.utime(folder / "1.pt", ns=(1, 1))
    (folder / "4.pt").unlink()
    tally = streamed(targets(folder), out, resume=True)
    found = lines(out)
    assert (tally.kept, tally.dropped, tally.total) == (6, 4, 9)
    assert (found[str(folder / "0.pt")]["exit_code"], str(folder / "4.pt") in found) == (1, False)


@pytest.mark.parametrize(
    "changed",
    [
        {"select": ("BN1",)},
        {"fail_on": Severity.NOTE},
        {"limits": {"BN105": {"share": 0.5}}},
        {"caps": Caps(norm_layers=9)},
    ],
)
def test_changed_settings_are_audited_with_again(folder: Path, tmp_path: Path, changed: dict[str, Any]) -> None:
    out = tmp_path / "out.jsonl"
    streamed(targets(folder), out)
    settings = replace(STATIC, **changed)
    assert streamed(targets(folder), out, settings, resume=True).kept == 0
    assert streamed(targets(folder), out, settings, resume=True).kept == 9
    assert len(lines(out)) == 10


def test_files_that_the_settings_name_are_part_of_them(folder: Path, tmp_path: Path) -> None:
    out, code = tmp_path / "out.jsonl", tmp_path / "net.py"
    code.write_text("def build(): ...")
    settings = Settings(run=RunOptions(static=True, model=f"{code}:build"))
    streamed(targets(folder), out, settings)
    assert streamed(targets(folder), out, settings, resume=True).kept == 9
    code.write_text("def build(): return None")
    assert streamed(targets(folder), out, settings, resume=True).kept == 0


def test_another_version_makes_everything_again(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    streamed(targets(folder), out)
    out.write_text(out.read_text().replace('"version": "', '"version": "0.0.'))
    assert streamed(targets(folder), out, resume=True).kept == 0
    assert len(lines(out)) == 10


def test_model_folders_hold_while_nothing_in_them_changes(tmp_path: Path, bytes_of: Callable[[str], bytes]) -> None:
    from safetensors.torch import save_file

    model, out = tmp_path / "model", tmp_path / "out.jsonl"
    model.mkdir()
    save_file(batch_norm("bn", 4, torch.float32, 5), model / "model-00001-of-00001.safetensors")
    index = {"metadata": {}, "weight_map": {f"bn.{leaf}": "model-00001-of-00001.safetensors" for leaf in ("weight",)}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    for given in (model, model / "model.safetensors.index.json"):
        streamed(targets(given), out)
        assert streamed(targets(given), out, resume=True).kept == 1
        save_file(batch_norm("bn", 4, torch.float64, 5), model / "model-00001-of-00001.safetensors")
        assert streamed(targets(given), out, resume=True).kept == 0
        out.unlink()


@pytest.mark.parametrize(
    "content",
    ["{}\n", "[]\n", "text\n", '{"schema": "bnaudit.report/1"}\n', '{"schema": "bnaudit.artifact/2", "path": "x"}\n'],
)
@pytest.mark.parametrize("second", [True, False])
def test_what_holds_anything_else_is_not_touched(folder: Path, tmp_path: Path, content: str, second: bool) -> None:
    out = tmp_path / "out.jsonl"
    if second:
        streamed(targets(folder), out)
    with out.open("a") as file:
        file.write(content)
    before = out.read_bytes()
    with pytest.raises(UsageError, match=f"line {11 if second else 1} of .*out.jsonl is no result"):
        streamed(targets(folder), out, resume=True)
    with pytest.raises(UsageError, match=r"out.jsonl holds (results|something) already"):
        streamed(targets(folder), out)
    assert out.read_bytes() == before
    assert list(tmp_path.glob(".out*")) == []


@pytest.mark.parametrize("content", [b"x", b"{", b'{"schema": "bnaudit.report/1"', b"\x00" * 50])
def test_an_unfinished_line_of_anything_else_is_not_touched(folder: Path, tmp_path: Path, content: bytes) -> None:
    out = tmp_path / "out.jsonl"
    out.write_bytes(content)
    if content != b"{":  # which a result that was cut off after a byte may be
        with pytest.raises(UsageError, match="is no result"):
            streamed(targets(folder), out, resume=True)
        assert out.read_bytes() == content


def test_results_that_hold_are_not_lost_when_other_paths_are_given(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    streamed(targets(folder), out)
    before = out.read_bytes()
    with pytest.raises(UsageError, match=r"has results of .*models.1\.pt, which is not asked for"):
        streamed(targets(folder / "0.pt"), out, resume=True)
    out.write_text(out.read_text().replace("models", "elsewhere"))
    with pytest.raises(UsageError, match="none of its results is about a file that is asked for"):
        streamed(targets(folder), out, resume=True)
    out.write_bytes(before)
    assert streamed(targets(folder), out, resume=True).kept == 9


def test_an_existing_file_is_not_overwritten_and_an_empty_one_is_used(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.touch()
    streamed(targets(folder), out)
    before = out.read_bytes()
    with pytest.raises(UsageError, match=r"out\.jsonl holds results already: give --resume to go on with them"):
        streamed(targets(folder), out)
    assert out.read_bytes() == before


def test_wrong_rules_are_told_before_the_file_is_touched(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with pytest.raises(UsageError, match="no rule has an id"):
        streamed(targets(folder), out, replace(STATIC, select=("XX9",)))
    assert not out.exists()


def test_a_place_that_cannot_be_written_is_told_in_one_sentence(folder: Path, tmp_path: Path) -> None:
    for resume in (False, True):
        with pytest.raises(UsageError, match=r"out\.jsonl cannot be written"):
            streamed(targets(folder), tmp_path / "nowhere" / "out.jsonl", resume=resume)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told_in_one_sentence(folder: Path) -> None:
    with pytest.raises(UsageError, match="/dev/full cannot be written"):
        streamed(targets(folder), Path("/dev/full"))
    with pytest.raises(UsageError, match="nothing can be resumed"):
        streamed(targets(folder), Path("/dev/null"), resume=True)


def test_other_files_of_folders_are_counted_and_get_no_line(folder: Path, tmp_path: Path) -> None:
    (folder / "notes.txt").write_text("text")
    (folder / "numbers").write_bytes(b"\x80\x04]\x94(K\x01K\x02e.")  # a pickle of [1, 2]
    out = tmp_path / "out.jsonl"
    tally = streamed(targets(folder), out)
    expected = report(targets(folder)).other_files
    assert (tally.other_files, len(lines(out))) == (expected, 10)
    assert expected == 2


def interrupted(child: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """What it printed after Ctrl-C, pressed again where Python lost it, as it does in a finalizer."""
    for _ in range(10):
        os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to the workers too
        try:
            return child.communicate(timeout=1.5)
        except subprocess.TimeoutExpired:
            continue
    child.kill()
    return child.communicate()


@pytest.mark.skipif(os.name == "nt", reason="Windows sends Ctrl-C to whole consoles only")
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_and_a_restart_give_what_one_run_gives(
    tmp_path: Path, bytes_of: Callable[[str], bytes], jobs: int
) -> None:
    folder, out = tmp_path / "models", tmp_path / "out.jsonl"
    folder.mkdir()
    for number in range(120):
        (folder / f"{number:03}.pt").write_bytes(bytes_of("defect" if number % 7 == 0 else "healthy"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE)])}
    command = [sys.executable, str(HERE / "stream_run.py"), str(folder), str(out), str(jobs), "slow"]
    child = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
    )
    until = time.monotonic() + 30
    while not (out.exists() and out.read_bytes().count(b"\n") >= 20) and time.monotonic() < until:
        time.sleep(0.01)
    stdout, stderr = interrupted(child)
    assert (child.returncode, stdout) == (130, b"")
    assert stderr == b"" or stderr.startswith(b"Exception ignored")
    done = lines(out)
    assert 20 <= len(done) < 120
    tally = streamed(targets(folder), out, jobs=jobs, resume=True)
    assert (tally.kept, tally.audited, tally.exit_code()) == (len(done), 120, 1)
    streamed(targets(folder), tmp_path / "whole.jsonl", jobs=jobs)
    assert lines(out) == lines(tmp_path / "whole.jsonl")


def test_memory_stays_flat_however_many_files_there_are(tmp_path: Path, bytes_of: Callable[[str], bytes]) -> None:
    one = tmp_path / "one.pt"
    one.write_bytes(bytes_of("defect"))

    def peak(number: int) -> int:
        for position in range(number):
            if not (link := tmp_path / f"{position}.pt").exists():
                os.link(one, link)
        given = Targets(tuple(tmp_path / f"{position}.pt" for position in range(number)), (), 0)
        tracemalloc.start()
        tally = streamed(given, tmp_path / f"{number}.jsonl")
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (tally.audited, len(tally.worst)) == (number, 10)
        return used

    peak(10)
    few, many = peak(30), peak(230)
    line = len((tmp_path / "30.jsonl").read_bytes()) / 30
    assert (many - few) / 200 < line / 2, "not even half a line is kept of each file, and of its audit nothing"
