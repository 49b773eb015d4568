"""The gate and the baseline as a whole, on samples copied into a folder of their own."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from subjects import SAMPLES

from bnaudit.errors import UsageError
from bnaudit.gating import Order, create_baseline, gate, show_settings

HEALTHY, NAN, VIRGIN = "healthy/state_dict.pt", "defects/nan_variance.pt", "defects/virgin_statistics.pt"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with `models/` in it: one healthy, one with NaN, and the code and data of both."""
    (tmp_path / "models").mkdir()
    for name in (HEALTHY, NAN):
        shutil.copy(Path(SAMPLES, name), tmp_path / "models")
    for name in ("digits.py", "digits.npz"):
        shutil.copy(Path(SAMPLES, name), tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def order(*paths: str, **fields: Any) -> Order:
    return Order(paths=paths, **fields)


def document(capsys: pytest.CaptureFixture[str], **fields: Any) -> dict[str, Any]:
    capsys.readouterr()
    code = gate(order("models", outputs=("json",), **fields))
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert shown["exit_code"] == code
    return shown


def test_a_baseline_accepts_today_and_not_tomorrow(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gate(order("models")) == 1
    assert create_baseline(order("models"), "base.json", overwrite=False, reason="known since May") == 0
    assert "accepted 1 finding in 1 of 2 artifacts: base.json" in capsys.readouterr().out
    accepted = document(capsys, typed={"baseline": "base.json"})
    assert accepted["exit_code"] == 0
    (finding,) = [f for artifact in accepted["artifacts"] for f in artifact["findings"]]
    assert (finding["accepted"], finding["acceptance"]["reason"]) == (True, "known since May")
    shutil.copy(Path(SAMPLES, VIRGIN), folder / "models")
    assert document(capsys, typed={"baseline": "base.json"})["exit_code"] == 1


def test_a_leak_that_fails_several_verdicts_can_be_accepted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(Path(SAMPLES, "defects/exported_in_training_mode.onnx"), folder)
    leaky = order("exported_in_training_mode.onnx", typed={"require": ["buffers", "eval-mode", "neighbours"]})
    assert gate(leaky) == 1
    assert create_baseline(leaky, "base.json", overwrite=False, reason="") == 0
    again = Order(paths=leaky.paths, typed={**leaky.typed, "baseline": "base.json"})
    capsys.readouterr()
    assert gate(again) == 0, capsys.readouterr().out


def test_a_baseline_is_made_anew_only_when_asked_and_keeps_reasons(folder: Path) -> None:
    create_baseline(order("models"), "base.json", overwrite=False, reason="known since May")
    with pytest.raises(UsageError, match="is there already"):
        create_baseline(order("models"), "base.json", overwrite=False, reason="")
    shutil.copy(Path(SAMPLES, VIRGIN), folder / "models")
    assert create_baseline(order("models"), "base.json", overwrite=True, reason="") == 0
    entries = json.loads((folder / "base.json").read_text(encoding="utf-8"))["artifacts"]
    assert {entry["reason"] for entry in entries["models/nan_variance.pt"]} == {"known since May"}
    assert {entry["reason"] for entry in entries["models/virgin_statistics.pt"]} == {""}


def test_what_cannot_be_read_is_told_and_nothing_is_accepted_of_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "models" / "cut.pt").write_bytes(b"PK\x03\x04cut")
    assert create_baseline(order("models"), "base.json", overwrite=False, reason="") == 2
    assert "cut.pt" in capsys.readouterr().err
    assert (folder / "base.json").exists()
    (folder / "empty").mkdir()
    assert create_baseline(order("empty"), "other.json", overwrite=False, reason="") == 3
    assert not (folder / "other.json").exists()


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    "output", ["models/state_dict.pt", "none/base.json", "", "models", "a" * 300, "digits.py", "link", "/dev/full"]
)
def test_a_baseline_is_not_written_where_it_does_not_belong(output: str, overwrite: bool, folder: Path) -> None:
    (folder / "link").symlink_to("link")
    before = (folder / "models" / "state_dict.pt").read_bytes()
    with pytest.raises(UsageError, match=rf"\(--output {output}\): (make it|name a|take it|give another path)"):
        create_baseline(order("models"), output, overwrite=overwrite, reason="")
    assert (folder / "models" / "state_dict.pt").read_bytes() == before


@pytest.mark.parametrize(
    ("output", "what"),
    [
        ("bnaudit.toml", "the settings"),
        ("base.json", "the baseline"),
        ("digits.py", "the model's code"),
        ("inputs.npz", "the inputs"),
        ("digits.npz", "a model"),
        ("models/nan_variance.pt", "a model"),
    ],
)
def test_a_report_never_overwrites_what_the_gate_reads(output: str, what: str, folder: Path) -> None:
    create_baseline(order("models"), "base.json", overwrite=False, reason="")
    shutil.copy(folder / "digits.npz", folder / "inputs.npz")
    settings = (
        'baseline = "base.json"\n[files."models/state_dict.pt"]\nmodel = "digits.py:build"\ninputs = "inputs.npz"\n'
    )
    (folder / "bnaudit.toml").write_text(settings, encoding="utf-8")
    before = (folder / output).read_bytes()
    for kind in ("json", "jsonl"):
        with pytest.raises(UsageError, match=f"would overwrite {what} "):
            gate(order("models/state_dict.pt", outputs=(f"{kind}={output}",)))
    assert (folder / output).read_bytes() == before


@pytest.mark.parametrize("option", ["show_accepted", "all_layers"])
def test_what_results_alone_cannot_show_is_refused(option: str, folder: Path) -> None:
    with pytest.raises(UsageError, match=rf"\(--{option.replace('_', '-')}\): leave it out, or add a report"):
        gate(order("models", outputs=("jsonl=results.jsonl",), **{option: True}))
    assert not (folder / "results.jsonl").exists()
    assert gate(order("models", outputs=("jsonl=results.jsonl", "json=all.json"), **{option: True})) == 1


def test_links_that_go_round_are_an_error_and_no_failure_of_ours(folder: Path) -> None:
    (folder / "link").symlink_to("link")
    assert gate(order("link", "models/state_dict.pt")) == 2
    assert create_baseline(order("link"), "base.json", overwrite=False, reason="") == 2


def test_a_gate_requires_what_it_was_given_the_means_to_decide(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(order("models/state_dict.pt")) == 0
    typed = {"model": "digits.py:build", "inputs": "digits.npz"}
    assert gate(order("models/state_dict.pt", typed=typed)) == 0
    assert "required: buffers, eval-mode, neighbours\n" in capsys.readouterr().out
    assert gate(order("models/state_dict.pt", typed={"require": ["neighbours"]})) == 3
    assert capsys.readouterr().out.splitlines()[-1].endswith("exit 3: neighbours required, and not decided")
    assert gate(order("models/state_dict.pt", typed={"require": ["neighbours"]}, exit_zero=True)) == 0


def test_a_live_model_passes_a_gate_without_a_file(folder: Path) -> None:
    assert gate(order(typed={"model": "digits.py:build_group_norm", "inputs": "digits.npz"})) == 0


def test_a_gate_that_looks_at_nothing_does_not_pass(folder: Path) -> None:
    (folder / "empty").mkdir()
    assert gate(order("empty")) == 3
    assert gate(order("empty", exit_zero=True)) == 3
    with pytest.raises(UsageError, match="nothing to audit"):
        gate(order())


def test_what_is_not_audited_does_not_pass_a_gate_unless_it_is_left_out(folder: Path) -> None:
    (folder / "models" / "nan_variance.pt").unlink()
    (folder / "models" / "net.tflite").write_bytes(b"\x1c\x00\x00\x00TFL3" + bytes(64))
    assert gate(order("models")) == 3
    assert gate(order("models", typed={"exclude": ["*.tflite"]})) == 0
    assert gate(order("models/net.tflite", typed={"exclude": ["*.tflite"]})) == 3, "what is named is not left out"


def test_settings_are_printed_and_nothing_is_audited(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "models" / "cut.pt").write_bytes(b"PK\x03\x04cut")
    assert show_settings(order("models", typed={"fail-on": "error"})) == 0
    shown = capsys.readouterr().out
    assert 'fail-on = "error"' in shown and "command line" in shown and "cut.pt" not in shown


def test_results_alone_are_streamed_and_resumed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ("jsonl=results.jsonl",)
    assert gate(order("models", outputs=lines)) == 1
    first = (folder / "results.jsonl").read_text(encoding="utf-8")
    assert len(first.splitlines()) == 2
    assert "2 artifacts audited" in capsys.readouterr().out
    with pytest.raises(UsageError, match="resume"):
        gate(order("models", outputs=lines))
    assert gate(order("models", outputs=lines, resume=True)) == 1
    assert (folder / "results.jsonl").read_text(encoding="utf-8") == first


def test_beside_another_report_results_are_written_at_the_end(folder: Path) -> None:
    both = ("jsonl=results.jsonl", "json=report.json")
    assert gate(order("models", outputs=both)) == 1
    assert len((folder / "results.jsonl").read_text(encoding="utf-8").splitlines()) == 2
    with pytest.raises(UsageError, match="--resume goes on with a file of results"):
        gate(order("models", outputs=both, resume=True))


def test_a_pattern_of_layers_that_nobody_checks_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="about all layers"):
        gate(order("models", outputs=("jsonl=results.jsonl",), typed={"layers": ["layer9.*"]}))
    assert not (folder / "results.jsonl").exists()


def test_a_baseline_holds_for_its_own_file_patterns_and_folders(folder: Path) -> None:
    create_baseline(order("models"), "base.json", overwrite=False, reason="")
    known = json.loads((folder / "base.json").read_text(encoding="utf-8"))
    entries = known["artifacts"].pop("models/nan_variance.pt")
    for pattern, code in [("models/nan_variance.pt", 0), ("models", 0), ("models/*.pt", 0), ("models/other.pt", 1)]:
        known["artifacts"] = {pattern: entries}
        (folder / "base.json").write_text(json.dumps(known), encoding="utf-8")
        for outputs in ((), ("jsonl=results.jsonl",)):
            (folder / "results.jsonl").unlink(missing_ok=True)
            assert gate(order("models", typed={"baseline": "base.json"}, outputs=outputs)) == code, pattern


LINKS = pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")


@LINKS
def test_a_model_whose_link_leads_nowhere_does_not_pass_because_a_section_names_it(folder: Path) -> None:
    (folder / "models" / "served.pt").symlink_to("gone.pt")
    (folder / "bnaudit.toml").write_text(
        '[files."models/state_dict.pt"]\n[files."models/served.pt"]\nrequire = "buffers"\n', encoding="utf-8"
    )
    assert gate(order()) == 2


@LINKS
@pytest.mark.parametrize("named", ["models/state_dict.pt", "latest.pt", "linked/state_dict.pt"])
def test_what_is_required_of_a_model_is_required_under_every_name_of_it(folder: Path, named: str) -> None:
    (folder / "latest.pt").symlink_to("models/state_dict.pt")
    (folder / "linked").symlink_to("models", target_is_directory=True)
    (folder / "bnaudit.toml").write_text('[files."models/state_dict.pt"]\nrequire = "all"\n', encoding="utf-8")
    assert gate(order(named)) == 3


@LINKS
@pytest.mark.parametrize("section", ["archive/old.pt", "models/served.pt"])
def test_of_two_names_of_a_model_neither_hides_what_is_required_of_the_other(folder: Path, section: str) -> None:
    (folder / "models" / "nan_variance.pt").unlink()
    (folder / "archive").mkdir()
    shutil.copy(Path(SAMPLES, HEALTHY), folder / "archive" / "old.pt")
    (folder / "models" / "served.pt").symlink_to("../archive/old.pt")
    settings = f'paths = ["archive", "models"]\n[files."{section}"]\nrequire = "all"\n'
    (folder / "bnaudit.toml").write_text(settings, encoding="utf-8")
    assert gate(order()) == 3


@LINKS
def test_a_model_that_is_left_out_under_one_name_is_audited_under_another(folder: Path) -> None:
    (folder / "archive").mkdir()
    (folder / "models" / "nan_variance.pt").rename(folder / "archive" / "old.pt")
    (folder / "models" / "served.pt").symlink_to("../archive/old.pt")
    (folder / "bnaudit.toml").write_text('paths = ["."]\nexclude = ["archive", "*.npz"]\n', encoding="utf-8")
    assert gate(order()) == 1


@LINKS
def test_an_accepted_finding_is_accepted_under_every_name_of_its_file(folder: Path) -> None:
    create_baseline(order("models"), "base.json", overwrite=False, reason="known")
    (folder / "latest.pt").symlink_to("models/nan_variance.pt")
    assert gate(order("latest.pt", typed={"baseline": "base.json"})) == 0
    (folder / "here").symlink_to(".", target_is_directory=True)
    assert gate(order("models", typed={"baseline": "here/base.json"})) == 0
    text = '[[accept]]\nrule = "BN106"\nfile = "models/*.pt"\nreason = "known"\n'
    (folder / "bnaudit.toml").write_text(text, encoding="utf-8")
    assert gate(order("latest.pt")) == 0


@pytest.mark.parametrize(
    "settings",
    ['paths = ["models"]\nexclude = ["models/*"]\n', '[files."models/*"]\nseed = 1\n', 'paths = ["empty"]\n'],
)
def test_a_live_model_does_not_stand_in_for_files_that_are_gone(folder: Path, settings: str) -> None:
    (folder / "empty").mkdir()
    if "files" in settings:
        shutil.rmtree(folder / "models")
        (folder / "models").mkdir()
        (folder / "models" / "readme.txt").write_text("none left", encoding="utf-8")
    (folder / "bnaudit.toml").write_text(settings, encoding="utf-8")
    asked = order(typed={"model": "digits.py:build_group_norm", "require": ["buffers"]})
    try:
        assert gate(asked) == 3
    except UsageError as error:
        assert "nothing to audit" in str(error)


def test_the_findings_of_a_live_model_are_accepted_by_a_baseline(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = (
        "from torch import nn\n\n\ndef build():\n    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4))\n"
        "    net[1].running_var.fill_(float('nan'))\n    return net\n"
    )
    (folder / "net.py").write_text(code, encoding="utf-8")
    live = {"model": "net.py:build", "require": ["buffers"]}
    assert gate(order(typed=live)) == 1
    create_baseline(order(typed=live), "base.json", overwrite=False, reason="known")
    capsys.readouterr()
    assert gate(order(typed={**live, "baseline": "base.json"})) == 0
    gate(order("models/state_dict.pt", typed={"baseline": "base.json"}))
    assert "fits no" not in capsys.readouterr().out


@pytest.mark.parametrize(("pattern", "code"), [("models/hf/*", 3), ("models/hf", 3), ("models/hf/*.safetensors", None)])
def test_a_section_about_the_files_of_a_model_folder_holds_for_it_or_is_refused(
    folder: Path, pattern: str, code: int | None
) -> None:
    (folder / "models" / "nan_variance.pt").unlink()
    shutil.copytree(Path(SAMPLES, "healthy", "hf_safetensors"), folder / "models" / "hf")
    settings = f'paths = ["models"]\n[files."{pattern}"]\nrequire = "all"\n'
    (folder / "bnaudit.toml").write_text(settings, encoding="utf-8")
    if code is None:
        with pytest.raises(UsageError, match="no model fits this pattern"):
            gate(order())
    else:
        assert gate(order()) == code
    assert gate(order("models/state_dict.pt")) == 0, "what is typed need not be what the sections are about"


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_fits_nothing_is_told_of_streamed_results_too(
    jobs: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create_baseline(order("models"), "base.json", overwrite=False, reason="")
    shutil.copy(Path(SAMPLES, HEALTHY), folder / "models" / "nan_variance.pt")
    mistyped = {"baseline": "base.json", "intended": ["BN106=lyaer1.*"]}
    capsys.readouterr()
    assert gate(order("models", outputs=("jsonl=results.jsonl",), typed=mistyped, jobs=jobs)) == 2
    shown = " ".join(capsys.readouterr().out.split())
    assert "error --intended BN106=lyaer1.*: 'lyaer1.*' fits no layer" in shown
    assert "did you mean layer1.*?" in shown
    assert "BN106 on layer2.0.bn2 in models/nan_variance.pt fits no finding" in shown


def test_what_may_fit_an_earlier_result_is_not_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    meant = {"intended": ["BN106=layer2.*"]}
    shutil.copy(Path(SAMPLES, "controls/group_norm.pt"), folder)
    lines = ("jsonl=results.jsonl",)
    assert gate(order("models", outputs=lines, typed=meant)) == 0
    capsys.readouterr()
    assert gate(order("models", "group_norm.pt", outputs=lines, typed=meant, resume=True)) == 0
    assert "2 of them before" in capsys.readouterr().out
