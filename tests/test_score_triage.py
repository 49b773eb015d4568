"""`bnaudit triage` from its options to its exit code, on a real network and on logs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from request_logs import Requests, images, served

import bnaudit
from bnaudit.diagnosis import Conclusion, ScoreKind
from bnaudit.errors import UsageError
from bnaudit.run_options import RunOptions

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "sample_models"
STATE_DICT, GRAPH = SAMPLES / "healthy" / "state_dict.pt", SAMPLES / "healthy" / "norms_kept.onnx"
MODEL, INPUTS = f"{SAMPLES / 'digits.py'}:build", SAMPLES / "digits.npz"
SCHEMA = json.loads(files("bnaudit.reports").joinpath("diagnosis-1.schema.json").read_text(encoding="utf-8"))


def triage(*arguments: object, columns: int = 80) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bnaudit", "triage", *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1"},
        check=False,
    )


def test_a_log_alone_needs_no_framework() -> None:
    code = (
        "import sys\nfrom bnaudit.score_triage import diagnose\n"
        f"print(diagnose({str(SAMPLES / 'scores' / 'requests.csv')!r}).log.points_to)\n"
        "print([name for name in sys.modules if name in ('torch', 'onnx', 'onnxruntime', 'safetensors')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["('companions',)", "[]"]


def test_a_log_that_shows_nothing_ends_with_3(tmp_path: Path) -> None:
    healthy = Requests("healthy", 20)
    np.savez(tmp_path / "log.npz", logits=healthy.logits, input=healthy.inputs, request=healthy.requests)
    done = triage("--observed", tmp_path / "log.npz")
    assert done.returncode == 3, done.stderr
    assert "The log alone shows no difference" in done.stdout


def test_json_fits_the_schema_and_the_exit_code(tmp_path: Path) -> None:
    with np.load(SAMPLES / "scores" / "eval.npz") as held:
        np.savez(tmp_path / "few.npz", logits=held["logits"][:12])
    done = triage(GRAPH, "--inputs", INPUTS, "--observed", tmp_path / "few.npz", "--format", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    Draft202012Validator(SCHEMA).validate(document)
    assert document["conclusion"] == "the scores are those of the model in eval as saved"
    assert document["tried"][0]["hypothesis"]["name"] == "eval-as-saved"


def test_scores_in_another_order_are_put_in_place(tmp_path: Path) -> None:
    order = np.random.default_rng(0).permutation(40)[:16]
    net = served()
    net.get_submodule("bn1").train()
    scores = np.concatenate([scores_of(net, int(row)) for row in order])
    lines = [
        f"{row}," + ",".join(f"{value:.3f}" for value in each[[2, 5, 7]])
        for row, each in zip(order, scores, strict=True)
    ]
    (tmp_path / "log.csv").write_text("input,logit_2,logit_5,logit_7\n" + "\n".join(lines))
    found = bnaudit.diagnose(
        tmp_path / "log.csv", STATE_DICT, RunOptions(model=MODEL, inputs=INPUTS), kind=ScoreKind.LOGITS
    )
    assert found.conclusion in (Conclusion.EXPLAINED, Conclusion.SEVERAL)
    assert ("bn1",) in [tried.hypothesis.layers for tried in found.explanations]
    assert found.exit_code == 1


def scores_of(net: object, row: int) -> np.ndarray:
    import torch

    with torch.no_grad():
        return net(images()[row : row + 1]).numpy()  # type: ignore[operator,no-any-return]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "there is nothing to explain: give what production returned"),
        (("--observed", "absent.csv"), "there is no such file of observed scores"),
        ((STATE_DICT, "--observed", "absent.csv"), "the inputs that were scored are missing"),
        (("--observed", "absent.csv", "--inputs", INPUTS), "--inputs is for a replay, and there is no model"),
        (("--observed", "absent.csv", "--companions", INPUTS), "--companions is for a replay"),
        (("--observed", SAMPLES), "a folder holds no observed scores"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(arguments: tuple[object, ...], says: str) -> None:
    done = triage(*arguments, columns=300)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_scores_that_fit_neither_inputs_nor_outputs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text("input," + ",".join(f"logit_{i}" for i in range(11)) + "\n0" + ",1.5" * 11)
    (tmp_path / "far.csv").write_text("input,logit_0\n5000,1.5\n")
    (tmp_path / "named.csv").write_text("input,logit_0\nu1,1.5\n")
    for name in ("wide.csv", "far.csv", "named.csv"):
        done = triage(GRAPH, "--inputs", INPUTS, "--observed", tmp_path / name, columns=300)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr


def test_from_python_names_of_inputs_are_refused_with_a_model(tmp_path: Path) -> None:
    (tmp_path / "named.csv").write_text("input,logit_0\nu1,1.5\nu1,2.5\n")
    assert bnaudit.diagnose(tmp_path / "named.csv").log is not None
    with pytest.raises(UsageError, match="row numbers of the inputs"):
        bnaudit.diagnose(tmp_path / "named.csv", GRAPH, RunOptions(inputs=INPUTS))


@pytest.mark.parametrize(
    ("given", "options", "says"),
    [
        ((np.zeros((3, 4)),), {}, "class ndarray is no file of observed scores"),
        ((SAMPLES / "scores" / "eval.npz", 3), {}, "class int is neither a model nor the path of one"),
        ((SAMPLES / "scores" / "eval.npz", GRAPH, {"inputs": INPUTS}), {}, "options cannot be a dict"),
        ((SAMPLES / "scores" / "eval.npz",), {"kind": "logit"}, "no scores are called 'logit'"),
        ((SAMPLES / "scores" / "eval.npz", GRAPH), {}, "inputs"),
    ],
)
def test_from_python_what_cannot_be_asked_is_one_sentence(
    given: tuple[object, ...], options: dict[str, object], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        bnaudit.diagnose(*given, **options)  # type: ignore[arg-type]


def test_from_python_an_option_that_is_none_is_told_with_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"diagnose\(\) has no option 'input': did you mean inputs"):
        bnaudit.diagnose(SAMPLES / "scores" / "eval.npz", GRAPH, input=INPUTS)


def test_from_python_a_live_model_is_asked_about_with_options_by_name(tmp_path: Path) -> None:
    net = served()
    np.savez(tmp_path / "few.npz", logits=np.concatenate([scores_of(net, row) for row in range(12)]))
    found = bnaudit.diagnose(tmp_path / "few.npz", net, inputs=INPUTS, kind="logits", budget=60)
    assert found.conclusion is Conclusion.NOTHING_TO_EXPLAIN
    assert repr(found).startswith("<Diagnosis: the scores are those of the model in eval as saved")
    assert repr(found).endswith("exit 0>")


def test_help_shows_the_forms() -> None:
    shown = " ".join(triage("--help").stdout.split())
    for piece in (
        "bnaudit triage --observed log.csv",
        "--companions",
        "--precision",
        "Exit codes: 0 nothing to explain",
    ):
        assert piece in shown
