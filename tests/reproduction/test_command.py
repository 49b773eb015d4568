"""`bnaudit reproduce` from its options to its exit code, with and without observed scores."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bnaudit.cli import app

SAMPLES = Path(__file__).parent.parent.parent / "sample_models"
MODEL, INPUTS = f"{SAMPLES / 'digits.py'}:build", SAMPLES / "digits.npz"
RUN = ("healthy/state_dict.pt", "--model", MODEL, "--inputs", INPUTS)
OBSERVED = SAMPLES / "scores" / "one_layer_in_training.csv"


def reproduce(*arguments: object) -> tuple[int, str]:
    typed = ["reproduce", str(SAMPLES / str(arguments[0])), *map(str, arguments[1:])]
    done = CliRunner().invoke(app(typed), typed)
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (("healthy/norms_kept.onnx", "--inputs", INPUTS, "--observed", SAMPLES / "scores" / "eval.npz"), 0, "eval as"),
        ((*RUN, "--observed", OBSERVED), 1, "Explained: layer1.0.bn2"),
        (RUN, 0, "No defect showed"),
    ],
)
def test_a_case_is_written_where_there_is_one(given: tuple[object, ...], code: int, said: str, tmp_path: Path) -> None:
    folder = tmp_path / "repro"
    ended, output = reproduce(*given, "-o", folder)
    assert ended == code, output
    assert said in output
    assert (folder / "repro.py").exists() is (code == 1)
