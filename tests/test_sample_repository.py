"""A repository with a policy and three models, gated as its owners and their CI do it, through every output."""

from __future__ import annotations

import html as markup
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import jsonschema
import pytest
import sample_repositories
import xmlschema

from bnaudit import plugins
from bnaudit.__main__ import main

ROOT = Path(__file__).parent.parent
SCHEMAS = Path(__file__).parent / "schemas"


class Gated(NamedTuple):
    """What a gate answered."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """The output without line breaks of the layout."""
        return " ".join(self.out.split())


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_repositories.make(tmp_path_factory.mktemp("repository"))


@pytest.fixture
def repository(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the sample repository, which is the working directory."""
    folder = tmp_path / "repository"
    shutil.copytree(template, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def bnaudit_run(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Gated]:
    """Runs a command line in this process."""

    def run(*arguments: str) -> Gated:
        monkeypatch.setattr(sys, "argv", ["bnaudit", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Gated(int(ended.value.code or 0), out, err)

    return run


@pytest.fixture
def gate(bnaudit_run: Callable[..., Gated]) -> Callable[..., Gated]:
    return lambda *arguments: bnaudit_run("gate", *arguments)


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after), encoding="utf-8")


def findings(document: Any) -> dict[str, set[tuple[str, str, bool]]]:
    """Model → (rule, layer, accepted) of what is at or above a warning."""
    return {
        Path(artifact["path"]).name: {
            (f["rule"], f["layer"], f["accepted"]) for f in artifact["findings"] if f["severity"] != "note"
        }
        for artifact in document["artifacts"]
    }


# Every output of one run of the command, in a process of its own


@pytest.fixture(scope="module")
def outputs(template: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("gated") / "repository"
    shutil.copytree(template, folder)
    (folder / "out").mkdir()
    formats = plugins.names("bnaudit.reports")
    wanted = [f"--output={name}=out/{name}" for name in formats]
    code = "from bnaudit.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "gate", *wanted, "--show-accepted"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr == ""
    return {name: (folder / "out" / name).read_text(encoding="utf-8") for name in formats} | {"stdout": done.stdout}


def validate(document: Any, path: Path) -> None:
    schema = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validators.validator_for(schema)(schema).validate(document)


def terminal(text: str) -> None:
    words = " ".join(text.split())
    assert "exit 1: findings at or above warning" in words
    assert "1 error, 1 note, 2 accepted" in words
    assert "error BN107 negative-variance body.norm" in words
    assert "error BN103 virgin-statistics accepted (weights of the paper, retrained in spring)" in words
    assert "accepted until 2099-12-31 (the head was adapted for three steps, ticket 12): bnaudit.toml" in words
    assert "healthy.pt + + + + +" in words
    assert max(map(len, text.splitlines())) <= 80


def json_report(text: str) -> None:
    document = json.loads(text)
    validate(document, ROOT / "bnaudit" / "reports" / "report-1.schema.json")
    assert (document["exit_code"], document["gate"], document["unmatched"]) == (1, True, [])
    assert findings(document) == {
        "healthy.pt": set(),
        "accepted.pt": {("BN103", "stem.norm", True), ("BN105", "head.norm", True)},
        "new.pt": {("BN107", "body.norm", False)},
    }
    codes = {Path(artifact["path"]).name: artifact["exit_code"] for artifact in document["artifacts"]}
    assert codes == {"healthy.pt": 0, "accepted.pt": 0, "new.pt": 1}


def sarif(text: str) -> None:
    document = json.loads(text)
    validate(document, SCHEMAS / "sarif-2.1.0-rtm.5.json")
    (run,) = document["runs"]
    results = {result["ruleId"]: result for result in run["results"] if result.get("level") != "note"}
    assert {"BN103", "BN105", "BN107"} <= set(results)
    assert not results["BN107"].get("suppressions")
    for rule, reason in (("BN103", "retrained in spring"), ("BN105", "ticket 12")):
        (suppression,) = results[rule]["suppressions"]
        assert reason in suppression["justification"]
    assert "body.norm" in json.dumps(results["BN107"]["locations"])
    assert results["BN107"]["partialFingerprints"]
    assert not [result for result in run["results"] if "healthy.pt" in json.dumps(result)]


def junit(text: str) -> None:
    xmlschema.XMLSchema(SCHEMAS / "junit-10.xsd").validate(text)
    cases = list(ElementTree.fromstring(text).iter("testcase"))
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    assert failed and all("new.pt" in ElementTree.tostring(case, encoding="unicode") for case in failed)
    assert any("BN107" in (case.get("name") or "") for case in failed)
    assert any(case.find("skipped") is not None for case in cases)


def github(text: str) -> None:
    raised = [line for line in text.splitlines() if line.startswith(("::error", "::warning"))]
    assert raised and all("new.pt" in line for line in raised)
    assert any("BN107" in line for line in raised)


def markdown(text: str) -> None:
    assert "BN107" in text and "new.pt" in text
    assert "accepted" in text and "healthy.pt" in text


def html(text: str) -> None:
    shown = markup.unescape(text)
    assert text.lstrip().lower().startswith("<!doctype html>")
    assert all(name in shown for name in ("healthy.pt", "accepted.pt", "new.pt", "BN107", "ticket 12"))
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", text), "it opens offline"


def jsonl(text: str) -> None:
    lines = [json.loads(line) for line in text.splitlines()]
    named = {name for name in ("healthy.pt", "accepted.pt", "new.pt") for line in lines if name in json.dumps(line)}
    assert named == {"healthy.pt", "accepted.pt", "new.pt"}
    assert any("BN107" in json.dumps(line) for line in lines)


CHECKS = {
    "terminal": terminal,
    "json": json_report,
    "sarif": sarif,
    "junit": junit,
    "github": github,
    "markdown": markdown,
    "html": html,
    "jsonl": jsonl,
}


def test_every_output_is_checked_here() -> None:
    assert set(plugins.names("bnaudit.reports")) == set(CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_an_output_says_what_is_healthy_accepted_and_new(outputs: dict[str, str], name: str) -> None:
    CHECKS[name](outputs[name])


def test_the_terminal_report_stands_on_stdout_too(outputs: dict[str, str]) -> None:
    terminal(outputs["stdout"])


# What changes the answer


def test_after_mending_it_passes(repository: Path, gate: Callable[..., Gated]) -> None:
    sample_repositories.mend(repository)
    done = gate()
    assert (done.code, done.err) == (0, "")
    assert "1 note, 2 accepted · exit 0: nothing at or above warning" in done.words


def test_a_report_only_gate_exits_0(gate: Callable[..., Gated]) -> None:
    done = gate("--exit-zero")
    assert done.code == 0
    assert "exit 0: for information only, --exit-zero" in done.words


def test_accepted_findings_are_counted_and_listed_when_asked(repository: Path, gate: Callable[..., Gated]) -> None:
    counted = gate("models/accepted.pt")
    assert "2 accepted findings (--show-accepted lists them)" in counted.words
    assert "error BN103" not in counted.out
    done = gate("models/accepted.pt", "--show-accepted")
    assert done.code == 0
    assert "error BN103 virgin-statistics" in done.words and "warning BN105 immature-statistics" in done.words


@pytest.mark.parametrize("where", ["bnaudit.toml", ".bnaudit-baseline.json"])
def test_an_expired_entry_is_a_finding_again_and_says_so(
    repository: Path, gate: Callable[..., Gated], where: str
) -> None:
    if where == "bnaudit.toml":
        edit(repository / where, "2099-12-31", "2020-01-31")
    else:
        edit(repository / where, '"until": ""', '"until": "2020-01-31"')
    done = gate("models/accepted.pt")
    assert done.code == 1
    assert "was accepted until 2020-01-31" in done.words and where in done.words
    assert "1 accepted" in done.words


def test_entries_that_match_nothing_are_reported(repository: Path, gate: Callable[..., Gated]) -> None:
    shutil.copy(repository / "models" / "healthy.pt", repository / "models" / "accepted.pt")
    sample_repositories.mend(repository)
    done = gate("--output", "json")
    entries = json.loads(done.out)["unmatched"]
    assert done.code == 0, "what was accepted and is gone fails nothing"
    assert {entry["error"] for entry in entries} == {False}
    assert any("bnaudit.toml" in entry["key"] and "accept" in entry["key"] for entry in entries)
    assert any(".bnaudit-baseline.json" in entry["key"] for entry in entries)
    assert "stale" in gate().out


@pytest.mark.parametrize(
    ("before", "after", "place", "nearest"),
    [
        ("fail-on =", "fail-onn =", "bnaudit.toml: fail-onn", "fail-on"),
        ('require = ["buffers"]', 'require = ["buffer"]', "bnaudit.toml: require", "buffers"),
        ('rule = "BN105"', 'rule = "BN1055"', "bnaudit.toml: accept[0].rule", "BN105"),
        ("reason =", "raeson =", "bnaudit.toml: accept[0]", "reason"),
        ("max-gap =", "max_gap =", 'bnaudit.toml: files."models/healthy.pt".max_gap', "max-gap"),
        ('[files."models/healthy.pt"]', '[files."models/helthy.pt"]', "helthy.pt", "models/healthy.pt"),
        ('paths = ["models"]', 'paths = ["modles"]', "bnaudit.toml: paths", "models"),
        ("until = 2099-12-31", 'until = "next year"', "bnaudit.toml: accept[0].until", "2027-01-31"),
    ],
)
def test_what_is_mistyped_is_named_with_the_nearest(
    repository: Path, gate: Callable[..., Gated], before: str, after: str, place: str, nearest: str
) -> None:
    edit(repository / "bnaudit.toml", before, after)
    done = gate()
    assert (done.code, done.out) == (2, "")
    assert place in done.err and nearest in done.err
    assert len(done.err.splitlines()) == 1


def test_a_pattern_of_layers_that_fits_none_is_an_error(repository: Path, gate: Callable[..., Gated]) -> None:
    edit(repository / "bnaudit.toml", 'fail-on = "warning"', 'fail-on = "warning"\nintended = {BN302 = ["haed.*"]}')
    done = gate()
    assert done.code == 2
    assert "intended" in done.words and "haed.*" in done.words and "head" in done.words


@pytest.mark.parametrize("arguments", [("--select", "BN99"), ("--output", "sariff=x"), ("--require", "buffer")])
def test_what_is_mistyped_on_the_command_line_is_named(gate: Callable[..., Gated], arguments: tuple[str, str]) -> None:
    done = gate(*arguments)
    assert (done.code, done.out) == (2, "")
    assert arguments[0] in done.err or arguments[1] in done.err


# What was not looked at, or not decided


def test_a_required_verdict_that_is_not_decided_does_not_pass(gate: Callable[..., Gated]) -> None:
    done = gate("models/accepted.pt", "--require", "buffers,eval-mode")
    assert done.code == 3
    assert "exit 3: eval-mode required, and not decided" in done.words
    assert "--model file.py:factory" in done.words


def test_a_gate_that_looked_at_nothing_does_not_pass(repository: Path, gate: Callable[..., Gated]) -> None:
    (repository / "empty").mkdir()
    (repository / "empty" / "notes.txt").write_text("no model", encoding="utf-8")
    assert gate("empty").code == 3
    assert gate("empty", "--exit-zero").code == 3


def test_a_format_that_is_not_read_does_not_pass(repository: Path, gate: Callable[..., Gated]) -> None:
    (repository / "models" / "net.tflite").write_bytes(b"\x1c\x00\x00\x00TFL3" + bytes(64))
    sample_repositories.mend(repository)
    assert gate().code == 3


def test_what_cannot_be_read_exits_2(repository: Path, gate: Callable[..., Gated]) -> None:
    (repository / "models" / "new.pt").write_bytes((repository / "models" / "healthy.pt").read_bytes()[:3000])
    done = gate()
    assert done.code == 2
    assert "new.pt" in done.words
    assert gate("--exit-zero").code == 2
    assert gate("models/none.pt").code == 2


# Settings and baselines


def test_settings_are_shown_with_where_they_come_from(gate: Callable[..., Gated]) -> None:
    done = gate("--show-settings", "--fail-on", "error")
    assert done.code == 0
    lines = {line.partition("=")[0].strip(): line for line in done.out.splitlines() if "=" in line}
    assert lines["paths"].endswith("# bnaudit.toml")
    assert lines["fail-on"].startswith('fail-on = "error"') and lines["fail-on"].endswith("# command line")
    assert lines["seed"].endswith("# default")
    assert "max-gap; " not in lines["max-gap"] and 'files."models/healthy.pt"' in lines["max-gap"]


def test_a_baseline_made_anew_is_the_one_that_is_committed(repository: Path, bnaudit_run: Callable[..., Gated]) -> None:
    made = bnaudit_run("baseline", "create", "models/accepted.pt", "--overwrite")
    assert made.code == 0, made.err
    before = json.loads((sample_repositories.SOURCE / ".bnaudit-baseline.json").read_text(encoding="utf-8"))
    after = json.loads((repository / ".bnaudit-baseline.json").read_text(encoding="utf-8"))
    assert after["artifacts"] == before["artifacts"], "fingerprints survive, and so do reasons"


def test_what_a_new_baseline_accepts_passes(
    repository: Path, bnaudit_run: Callable[..., Gated], gate: Callable[..., Gated]
) -> None:
    assert bnaudit_run("baseline", "create", "--overwrite").code == 0
    assert gate().code == 0


def test_it_gates_the_same_from_a_folder_below(
    repository: Path, gate: Callable[..., Gated], monkeypatch: pytest.MonkeyPatch
) -> None:
    above = json.loads(gate("--output", "json").out)
    (repository / "sub").mkdir()
    monkeypatch.chdir(repository / "sub")
    below = json.loads(gate("--output", "json").out)
    assert findings(below) == findings(above)
    assert below["exit_code"] == 1
