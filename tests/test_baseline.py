from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from builders import batch_norm, description, part

from bnaudit.auditing import conclude
from bnaudit.baseline import baseline_text, read_baseline
from bnaudit.description import Artifact
from bnaudit.errors import UsageError
from bnaudit.records import replace
from bnaudit.results import Audit, Question, Report, Severity
from bnaudit.rules import rules
from bnaudit.settings import Settings

RULES = tuple(rules())
NAN = float("nan")


def audit_of(path: Path, *names: str, settings: Settings | None = None) -> Audit:
    """An audit of layers whose running variance is NaN (BN106, error)."""
    subject = description(part([batch_norm(name, var=(NAN, 1.0, 2.0)) for name in names]))
    artifact = Artifact(path=str(path), format="made", size=1, bytes_read=1)
    return conclude(replace(subject, artifact=artifact), settings or Settings(fail_on=Severity.WARNING), RULES)


def report(*audits: Audit) -> Report:
    return Report(version="0.1.0", audits=audits)


def test_what_was_written_accepts_what_was_found_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "base[1].json"
    model = tmp_path / "models" / "a[b].pt"
    file.write_text(baseline_text(report(audit_of(model, "bn1")), file), encoding="utf-8")
    known = Settings(fail_on=Severity.WARNING, accept=read_baseline(file))
    again = audit_of(model, "bn1", settings=known)
    assert (again.exit_code, [f.accepted for f in again.findings]) == (0, [True])
    assert [f.layer for f in audit_of(model, "bn1", "bn2", settings=known).open_findings] == ["bn2"]
    assert audit_of(tmp_path / "models" / "ab.pt", "bn1", settings=known).exit_code == 1


def test_a_baseline_moves_with_its_folder(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    text = baseline_text(report(audit_of(old / "a.pt", "bn1")), old / "base.json")
    assert "old" not in text
    new.mkdir()
    (new / "base.json").write_text(text, encoding="utf-8")
    known = Settings(accept=read_baseline(new / "base.json"))
    assert audit_of(new / "a.pt", "bn1", settings=known).open_findings == ()


def test_it_is_sorted_and_says_what_a_person_looks_for(tmp_path: Path) -> None:
    document = json.loads(
        baseline_text(
            report(audit_of(tmp_path / "b.pt", "bn2", "bn1"), audit_of(tmp_path / "a.pt", "bn1")), tmp_path / "x"
        )
    )
    assert list(document["artifacts"]) == ["a.pt", "b.pt"]
    assert [entry["layer"] for entry in document["artifacts"]["b.pt"]] == ["bn1", "bn2"]
    entry = document["artifacts"]["a.pt"][0]
    assert (entry["rule"], entry["name"], entry["reason"]) == ("BN106", "non-finite-statistics", "")


def test_only_what_fails_is_accepted(tmp_path: Path) -> None:
    lenient = audit_of(tmp_path / "a.pt", "bn1", settings=Settings(severities={"BN1": Severity.NOTE}))
    assert json.loads(baseline_text(report(lenient), tmp_path / "x"))["artifacts"] == {}


def test_reasons_and_ends_are_kept_until_they_have_passed(tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    model = audit_of(tmp_path / "a.pt", "bn1", "bn2")
    document = json.loads(baseline_text(report(model), file))
    document["artifacts"]["a.pt"][0].update(reason="retrained in May", until="2027-05-31")
    document["artifacts"]["a.pt"][1].update(reason="over", until="2026-01-01")
    file.write_text(json.dumps(document), encoding="utf-8")
    known = read_baseline(file, today=date(2026, 11, 30))
    assert [each.expired for each in known] == [False, True]
    first, second = json.loads(baseline_text(report(model), file, known=known))["artifacts"]["a.pt"]
    assert (first["reason"], first["until"]) == ("retrained in May", "2027-05-31")
    assert (second["reason"], second["until"]) == ("", "")


@pytest.mark.parametrize(("day", "expired"), [("2026-11-29", True), ("2026-11-30", False), ("2026-12-01", False)])
def test_the_last_day_still_holds(day: str, expired: bool, tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    file.write_text(json.dumps(baseline(until=day)), encoding="utf-8")
    (known,) = read_baseline(file, today=date(2026, 11, 30))
    assert known.expired is expired


def baseline(**changes: Any) -> dict[str, Any]:
    entry = {"rule": "BN106", "layer": "bn1", "fingerprint": "0123456789abcdef", **changes}
    return {"schema": "bnaudit.baseline/1", "artifacts": {"a.pt": [entry]}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "this is not bnaudit.baseline/1"),
        ('{"schema": "bnaudit.report/1"}', "this is not bnaudit.baseline/1"),
        ('{"schema": "bnaudit.baseline/1"}', "artifacts): there are none"),
        ('{"schema": "bnaudit.baseline/1", "artifacts": {"a.pt": 3}}', 'artifacts."a.pt"): this is no list'),
        (json.dumps(baseline(rule="bn")), "'bn' is no id of a rule"),
        (json.dumps(baseline(fingerprint="xyz")), 'artifacts."a.pt"[0].fingerprint'),
        (json.dumps(baseline(fingerprint=None)), "a text is missing"),
        (json.dumps(baseline(until="soon")), "'soon' is no day"),
        (json.dumps(baseline(until="20270131")), "'20270131' is no day"),
        (json.dumps(baseline(until="2027-W05-1")), "'2027-W05-1' is no day"),
        (json.dumps(baseline(layer=7)), 'artifacts."a.pt"[0].layer'),
        (json.dumps(baseline()).replace("a.pt", ""), "names no artifact"),
        (json.dumps(baseline(reason=7)), 'artifacts."a.pt"[0].reason'),
    ],
)
def test_what_is_no_baseline_is_refused_with_its_place(content: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(UsageError) as raised:
        read_baseline(file)
    assert all(piece in str(raised.value) for piece in said.split("): "))
    assert "base.json" in str(raised.value)


def test_one_that_an_editor_wrote_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    file.write_text(json.dumps(baseline(layer=None)), encoding="utf-8-sig")
    assert [each.rule for each in read_baseline(file)] == ["BN106"]


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="a device of POSIX")
def test_a_device_or_a_folder_is_no_baseline(tmp_path: Path) -> None:
    for place in (Path("/dev/zero"), tmp_path):
        with pytest.raises(UsageError, match="is no file"):
            read_baseline(place)


def test_one_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no file"):
        read_baseline(tmp_path / "none.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="is not JSON"):
        read_baseline(tmp_path / "binary.json")


def test_what_fails_only_a_required_verdict_is_accepted_too(tmp_path: Path) -> None:
    lenient = Settings(fail_on=Severity.ERROR, severities={"BN106": Severity.WARNING}, require=(Question.BUFFERS,))
    file, model = tmp_path / "base.json", tmp_path / "a.pt"
    found = audit_of(model, "bn1", settings=lenient)
    assert found.exit_code == 1
    file.write_text(baseline_text(report(found), file), encoding="utf-8")
    assert audit_of(model, "bn1", settings=replace(lenient, accept=read_baseline(file))).exit_code == 0
    free = audit_of(model, "bn1", settings=replace(lenient, require=()))
    assert json.loads(baseline_text(report(free), file))["artifacts"] == {}
