"""The command line as a user meets it: exit codes, streams, sentences."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bnaudit.run_flags import FLAGS

SAMPLES = Path(__file__).parent.parent / "sample_models"
HEALTHY = SAMPLES / "healthy" / "state_dict.pt"
FAULTY = SAMPLES / "defects" / "nan_variance.pt"


def bnaudit(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "COLUMNS")}
    return subprocess.run(
        [sys.executable, "-m", "bnaudit", *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**env, "PYTHONIOENCODING": "utf-8", **environment},
        check=False,
    )


@pytest.fixture
def truncated(tmp_path: Path) -> Path:
    path = tmp_path / "truncated.pt"
    path.write_bytes(HEALTHY.read_bytes()[:20_000])
    return path


@pytest.fixture
def keras(tmp_path: Path) -> Path:
    path = tmp_path / "net.tflite"
    path.write_bytes(b"\x1c\x00\x00\x00TFL3" + bytes(64))
    return path


def test_a_healthy_model_exits_0_and_writes_only_to_stdout() -> None:
    done = bnaudit("inspect", HEALTHY)
    assert (done.returncode, done.stderr) == (0, "")
    assert "buffers complete" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "\x1b" not in done.stdout


def test_findings_exit_1_and_the_threshold_moves() -> None:
    assert bnaudit("inspect", FAULTY).returncode == 1
    warned = SAMPLES / "defects" / "saved_in_training_mode.pt"
    assert bnaudit("inspect", warned).returncode == 0
    assert bnaudit("inspect", warned, "--fail-on", "warning").returncode == 1


def test_an_unreadable_file_exits_2_with_one_sentence_and_the_others_are_audited(truncated: Path) -> None:
    done = bnaudit("inspect", truncated, HEALTHY)
    assert done.returncode == 2
    assert "Traceback" not in done.stdout + done.stderr
    assert "truncated.pt" in done.stdout
    assert "state_dict.pt" in done.stdout


def test_a_missing_file_and_wrong_usage_exit_2() -> None:
    assert bnaudit("inspect", "nowhere.pt").returncode == 2
    assert bnaudit("inspect").returncode == 2
    assert bnaudit("inspect", HEALTHY, "--fail-on", "fatal").returncode == 2
    done = bnaudit("inspect", HEALTHY, "--select", "BN999")
    assert done.returncode == 2
    assert done.stderr.startswith("bnaudit: no rule has an id that starts with 'BN999'")
    done = bnaudit("inspect", HEALTHY, "--format", "pdf")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there are github, html, json, " in done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "bnaudit: there is nothing to audit: give model files or folders, or --model file.py:callable"),
        ([HEALTHY, "--static", "--run"], "bnaudit: --static runs nothing, and --run asks for a run"),
        ([HEALTHY, "--budget", "soon"], "bnaudit: a budget is a length of time above 0 (--budget soon): write 60s"),
        ([HEALTHY, "--intended", "BN999=bn1"], "bnaudit: no rule has an id that starts with 'BN999'"),
        ([HEALTHY, "--dim", "height"], "bnaudit: a dimension needs a name and a whole size (--dim height)"),
        ([HEALTHY, "--model", "nowhere.py:build"], "bnaudit: there is no file nowhere.py (--model nowhere.py:build)"),
        ([HEALTHY, "--inputs", "nowhere.npz"], "bnaudit: there is no such file of inputs (--inputs nowhere.npz)"),
    ],
)
def test_wrong_options_of_a_run_are_one_sentence(arguments: list[str | Path], sentence: str) -> None:
    done = bnaudit("inspect", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == 1


def test_a_graph_runs_unless_told_not_to() -> None:
    graph = SAMPLES / "healthy" / "norms_kept.onnx"
    (ran,) = json.loads(bnaudit("inspect", graph, "--format", "json").stdout)["artifacts"]
    assert ran["measured"]["runner"].startswith("onnxruntime ")
    assert ran["measured"]["synthetic"] is True
    for arguments in (("--format", "json", "--static"), ("--format=json", "--static")):
        (read,) = json.loads(bnaudit("inspect", graph, *arguments).stdout)["artifacts"]
        assert (read["measured"], read["run_failed"]) == (None, False)
        assert "--static" in read["not_run"]


def test_nothing_audited_exits_3(keras: Path, tmp_path: Path) -> None:
    done = bnaudit("inspect", keras)
    assert done.returncode == 3
    assert "not audited" in done.stdout
    (tmp_path / "empty").mkdir()
    assert bnaudit("inspect", tmp_path / "empty").returncode == 3


def test_a_folder_lists_models_and_counts_the_rest(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "model.pt").write_bytes(HEALTHY.read_bytes())
    (tmp_path / "notes.txt").write_text("hello", encoding="utf-8")
    (tmp_path / "page.pt").write_text("<!DOCTYPE html><html></html>", encoding="utf-8")
    document = json.loads(bnaudit("inspect", tmp_path, "--format", "json").stdout)
    assert [Path(a["path"]).name for a in document["artifacts"]] == ["model.pt"]
    assert [Path(a["path"]).name for a in document["not_audited"]] == ["page.pt"]
    assert document["other_files"] == 1


def test_patterns_are_expanded_by_bnaudit_too(tmp_path: Path) -> None:
    for name in ("a.pt", "b.pt"):
        (tmp_path / name).write_bytes(HEALTHY.read_bytes())
    document = json.loads(bnaudit("inspect", tmp_path / "*.pt", "--format", "json").stdout)
    assert [Path(a["path"]).name for a in document["artifacts"]] == ["a.pt", "b.pt"]
    assert bnaudit("inspect", tmp_path / "*.onnx").returncode == 2


def test_selection_leaves_the_verdict_of_what_was_left_out_open() -> None:
    document = json.loads(bnaudit("inspect", FAULTY, "--ignore", "BN106", "--format", "json").stdout)
    (artifact,) = document["artifacts"]
    assert "BN106" not in {finding["rule"] for finding in artifact["findings"]}
    (verdict,) = [v for v in artifact["verdicts"] if v["question"] == "buffers"]
    assert verdict["outcome"] == "not checked"
    assert "BN106" in verdict["reason"]


def test_layers_can_be_singled_out() -> None:
    document = json.loads(bnaudit("inspect", FAULTY, "--layer", "layer1.*", "--format", "json").stdout)
    (artifact,) = document["artifacts"]
    assert {name for row in artifact["ledger"] for name in row["layers"]} == {"layer1.0.bn1", "layer1.0.bn2"}
    assert all(finding["layer"] is None or finding["layer"].startswith("layer1.") for finding in artifact["findings"])
    assert artifact["verdicts"][0]["outcome"] == "failed", "the NaN in layer2 is still in the file"


def test_rules_and_explain_show_every_rule() -> None:
    table = bnaudit("rules").stdout
    for line in ("BN101", "BN211", "BN901", "missing-running-buffers"):
        assert line in table
    page = bnaudit("explain", "missing-running-buffers")
    assert page.returncode == 0
    assert page.stdout.startswith("# BN101 missing-running-buffers")
    assert bnaudit("explain", "bn101").stdout == page.stdout
    assert "4.61" in bnaudit("explain", "arithmetic").stdout
    wrong = bnaudit("explain", "missing-buffers")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "did you mean BN101?" in wrong.stderr


def test_help_names_every_option_with_examples() -> None:
    shown = bnaudit("inspect", "--help", COLUMNS="100").stdout
    options = (
        "--format",
        "--select",
        "--ignore",
        "--layer",
        "--all-layers",
        "--fail-on",
        "--min-confidence",
        "--static",
    )
    run_options = ["--" + name.replace("_", "-") for name in FLAGS]
    for text in (*options, *run_options, "--intended", "Running the model", "What is reported", "Examples", "130"):
        assert text in shown
    assert "bnaudit 0." in bnaudit("--version").stdout
    assert "bnaudit inspect model.pt" in bnaudit("--help").stdout


def test_an_ascii_terminal_is_no_reason_to_fail() -> None:
    done = bnaudit("inspect", HEALTHY, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "buffers complete" in done.stdout


def test_an_ascii_terminal_gets_help_too() -> None:
    done = bnaudit("gate", "--help", PYTHONIOENCODING="ascii", COLUMNS="200")
    assert (done.returncode, done.stderr) == (0, "")
    assert r"train\u2013eval gap" in done.stdout


def test_help_shows_brackets_as_they_are_and_breaks_paragraphs_where_the_terminal_ends() -> None:
    shown = bnaudit("gate", "--help", COLUMNS="80").stdout
    assert "[tool.bnaudit]" in shown
    text = shown[shown.index("Exit codes:") :].strip().splitlines()
    assert all(len(line.rstrip()) > 65 for line in text[:-1])


@pytest.mark.parametrize("command", ["gate", "baseline", "init", "inspect", ""])
def test_examples_stand_indented_below_their_heading(command: str) -> None:
    lines = bnaudit(*command.split(), "--help", COLUMNS="80").stdout.splitlines()
    heading = next(position for position, line in enumerate(lines) if line.strip() == "Examples:")
    example = lines[heading + 2]
    assert example.startswith(f"{lines[heading][: lines[heading].index('E')]}  bnaudit "), example


@pytest.mark.skipif(os.name == "nt", reason="streams are closed by the shell of POSIX")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_nobody_who_reads(closed: str, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    shell = f"{sys.executable} -m bnaudit gate {FAULTY} --output json={out} {closed}"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(out.read_text(encoding="utf-8"))["exit_code"] == 1
    for mistake in ("gate nowhere.pt", f"gate {FAULTY} --fail-on eror", "gate --no-such-option"):
        shell = f"{sys.executable} -m bnaudit {mistake} {closed}"
        assert subprocess.run(["sh", "-c", shell], capture_output=True, check=False).returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full is Linux")
@pytest.mark.parametrize("command", [f"inspect {FAULTY}", f"gate {FAULTY}", "gate --help", "explain BN105", "rules"])
def test_a_full_disk_behind_stdout_is_one_sentence(command: str) -> None:
    shell = f"{sys.executable} -m bnaudit {command} > /dev/full"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "bnaudit: stdout cannot be written (No space left on device): write to another place\n"


@pytest.mark.parametrize("columns", ["0", "1", "99999999999", "x", "-5", "²"])
def test_no_width_of_a_terminal_breaks_a_report(columns: str) -> None:
    done = bnaudit("inspect", FAULTY, COLUMNS=columns)
    assert (done.returncode, done.stderr) == (1, "")
    assert max(map(len, done.stdout.splitlines())) <= 1000


def test_colour_is_for_terminals_and_for_those_who_ask() -> None:
    assert "\x1b[" in bnaudit("inspect", FAULTY, FORCE_COLOR="1").stdout
    assert "\x1b[" not in bnaudit("inspect", FAULTY, FORCE_COLOR="1", NO_COLOR="1").stdout


@pytest.mark.skipif(os.name == "nt", reason="permissions and pipes are POSIX here")
def test_no_permission_and_a_closed_pipe_give_no_traceback(tmp_path: Path) -> None:
    locked = tmp_path / "locked.pt"
    locked.write_bytes(HEALTHY.read_bytes())
    locked.chmod(0)
    if not os.access(locked, os.R_OK):
        done = bnaudit("inspect", locked)
        assert done.returncode == 2
        assert "permission" in done.stdout.lower()
    shell = f"{sys.executable} -m bnaudit inspect {FAULTY} --format json | head -n 1"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=False)
    assert done.stdout == "{\n"
    assert done.stderr == ""


@pytest.mark.parametrize("format", ["terminal", "json"])
def test_the_everyday_command_line_says_the_same_as_the_full_one(format: str) -> None:
    plain = bnaudit("inspect", FAULTY, "--format", format)
    full = bnaudit("inspect", FAULTY, f"--format={format}", "--fail-on", "error")
    assert (plain.returncode, plain.stdout, plain.stderr) == (full.returncode, full.stdout, full.stderr)


@pytest.mark.parametrize(
    "line",
    [
        ["inspect", "--static", str(HEALTHY)],
        ["compare", str(SAMPLES / "compare" / "trained.pt"), str(SAMPLES / "compare" / "trained.onnx")],
        ["trace", str(SAMPLES / "compare" / "trained.pt"), "bn1", "--channel", "1"],
    ],
)
def test_the_everyday_command_line_loads_neither_typer_nor_a_framework(line: list[str]) -> None:
    code = f"""
import sys
sys.argv = ["bnaudit", *{line!r}]
from bnaudit.__main__ import main
try:
    main()
finally:
    heavy = {{"typer", "torch", "onnx", "onnxruntime", "safetensors"}}
    sys.stderr.write(str(sorted(heavy & set(sys.modules))))
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr == "[]"


def test_a_trace_loads_nothing_of_a_comparison() -> None:
    code = f"""
import sys
sys.argv = ["bnaudit", "trace", {str(SAMPLES / "compare" / "trained.pt")!r}, "bn1"]
from bnaudit.__main__ import main
try:
    main()
finally:
    sys.stderr.write(str([name for name in sys.modules if name.startswith(("bnaudit.matching", "bnaudit.folding"))]))
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr == "[]"


@pytest.mark.parametrize("format", ["terminal", "json"])
def test_the_everyday_trace_says_the_same_as_the_full_one(format: str) -> None:
    arguments = ("trace", SAMPLES / "compare" / "trained.pt", "bn1")
    plain, full = bnaudit(*arguments, "--format", format), bnaudit(*arguments, f"--format={format}")
    assert (plain.returncode, plain.stdout, plain.stderr) == (full.returncode, full.stdout, full.stderr)
    assert plain.returncode == 0 and plain.stdout


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("bnaudit in", "inspect"), ("bnaudit explain BN10", "BN105"), ("bnaudit inspect --fail", "--fail-on")],
)
def test_the_shell_completes_commands_rules_and_options(typed: str, offered: str) -> None:
    words = typed.split()
    environment = {"_BNAUDIT_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    code = "import sys; sys.argv = ['bnaudit']; from bnaudit.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    assert offered in done.stdout.split()


def test_comparing_two_files_ends_with_what_was_found() -> None:
    compared = SAMPLES / "compare"
    equal = bnaudit("compare", compared / "trained.pt", compared / "trained.onnx")
    assert (equal.returncode, equal.stderr) == (0, "")
    assert "equal: 2 norm layers, bit for bit" in equal.stdout
    assert max(map(len, equal.stdout.splitlines())) <= 80 and "\x1b" not in equal.stdout
    moved = bnaudit("compare", compared / "trained.pt", compared / "stray_forward.pt", "--select", "BN601,BN607")
    assert moved.returncode == 1 and "BN601 buffers-moved-weights-still" in moved.stdout
    meant = bnaudit("compare", compared / "trained.pt", compared / "stray_forward.pt", "--intended", "BN601=*")
    assert meant.returncode == 0 and "(intended)" in meant.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("gone.pt", HEALTHY), 2, "gone.pt does not exist: check the path"),
        ((HEALTHY, "gone.pt"), 2, "gone.pt does not exist: check the path"),
        ((HEALTHY, HEALTHY), 2, "state_dict.pt is compared with itself: give two files"),
        ((HEALTHY, SAMPLES), 2, "sample_models is a folder that is no model: name one model in it"),
        ((HEALTHY, SAMPLES / "digits.py"), 2, "this is a text file, not a model (digits.py)"),
        ((HEALTHY, f"{HEALTHY}#ema"), 2, "state_dict.pt has no parts with names (#ema)"),
        ((HEALTHY,), 2, "there is nothing to compare with: give a second path, or --model"),
        ((), 2, "there is nothing to compare with: give a path"),
        ((HEALTHY, FAULTY, "--roundtrip"), 2, "a round trip is of one model: give one path with --roundtrip"),
        ((HEALTHY, "--roundtrip", "--static"), 2, "a round trip runs the model, and --static runs nothing"),
        ((HEALTHY, "--roundtrip"), 3, "a state dict holds no code → the model: --model"),
        ((HEALTHY, FAULTY, "--select", "BN1,BN2", "--ignore", "BN108"), 2, "no rule about two artifacts is selected"),
        ((HEALTHY, SAMPLES / "controls" / "group_norm.pt"), 1, "mean and variance are in the baseline alone"),
        ((HEALTHY, SAMPLES / "defects" / "buffers_dropped_at_save.pt"), 1, "running statistics in 3"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(arguments: tuple[str | Path, ...], code: int, said: str) -> None:
    done = bnaudit("compare", *arguments, COLUMNS="300")
    assert done.returncode == code, done.stdout
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("command", ["inspect", "gate"])
@pytest.mark.parametrize("select", ["BN6", "BN601", "BN603,BN606"])
def test_rules_about_two_alone_let_nothing_pass(command: str, select: str) -> None:
    done = bnaudit(command, HEALTHY, "--select", select)
    assert done.returncode == 2 and done.stdout == ""
    assert "no rule about one artifact is selected" in done.stderr and "bnaudit compare" in done.stderr


def test_a_plain_audit_lists_no_rule_about_two_and_says_what_a_chosen_one_needs() -> None:
    assert "BN60" not in bnaudit("inspect", HEALTHY, "--all-layers").stdout
    asked = bnaudit("inspect", HEALTHY, "--select", "BN601,BN105")
    assert "BN601 buffers-moved-weights-still did not run" in asked.stdout
    assert "bnaudit compare baseline.pt model.pt" in " ".join(asked.stdout.split())
