from __future__ import annotations

from pathlib import Path

from zoo.record_file import RecordFile

KEY = {"seed": 0}


def test_what_was_added_is_there_in_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "bench" / "records.jsonl"
    RecordFile(path, KEY).add("timm/a", "onnx", {"took": 1})
    again = RecordFile(path, KEY)
    assert again.records["timm/a", "onnx"]["took"] == 1
    again.add("timm/a", "onnx", {"took": 2})
    assert RecordFile(path, KEY).records["timm/a", "onnx"]["took"] == 2


def test_a_line_that_was_cut_off_is_dropped_and_what_follows_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    file = RecordFile(path, KEY)
    file.add("a", "live", {})
    with path.open("a", encoding="utf-8") as stream:
        stream.write('{"name": "b", "ta')
    file = RecordFile(path, KEY)
    assert set(file.records) == {("a", "live")}
    file.add("c", "live", {})
    assert set(RecordFile(path, KEY).records) == {("a", "live"), ("c", "live")}


def test_records_of_another_seed_are_not_used_and_fresh_forgets_all(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    RecordFile(path, {"seed": 1}).add("a", "live", {})
    assert RecordFile(path, KEY).records == {}
    assert RecordFile(path, {"seed": 1}, fresh=True).records == {}
    assert not path.exists()


def test_what_is_forgotten_is_to_be_done_again(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "records.jsonl", KEY)
    file.add("a", "live", {"bad": True})
    file.add("b", "live", {"bad": False})
    file.forget(lambda record: bool(record["bad"]))
    assert set(file.records) == {("b", "live")}
