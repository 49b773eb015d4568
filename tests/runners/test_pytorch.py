"""What the runner of PyTorch models asks for before it runs anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnaudit import describe
from bnaudit.run_options import RunOptions
from bnaudit.runners import Subject
from bnaudit.runners.pytorch import RUNNER
from bnaudit.session import Batch

SAMPLES = Path(__file__).parents[2] / "sample_models"
STATE_DICT, SCRIPT = SAMPLES / "healthy/state_dict.pt", SAMPLES / "healthy/torchscript_scripted.pt"
PROGRAM, MODULE = SAMPLES / "healthy/exported_program.pt2", SAMPLES / "healthy/pickled_module.pt"
GRAPH = SAMPLES / "healthy/norms_kept.onnx"
MODEL = "sample_models.digits:build"


def subject(path: Path | None, **options: Any) -> Subject:
    return Subject(path, describe(path) if path is not None else None, RunOptions(**options))


@pytest.mark.parametrize(
    ("path", "options", "asks"),
    [
        (STATE_DICT, {}, "--model"),
        (SCRIPT, {}, "--run"),
        (PROGRAM, {}, "--run"),
        (MODULE, {}, "--trust-pickle"),
        (MODULE, {"run": True}, "--trust-pickle"),
        (SCRIPT, {"model": MODEL}, "--run"),
        (STATE_DICT, {"model": MODEL, "static": True}, "--static was given"),
        (None, {"model": MODEL, "static": True}, "--static was given"),
    ],
)
def test_what_is_missing_is_asked_for(path: Path | None, options: dict[str, Any], asks: str) -> None:
    said = RUNNER.permits(subject(path, **options))
    assert said is not None and said.startswith(asks)


@pytest.mark.parametrize(
    ("path", "options"),
    [
        (STATE_DICT, {"model": MODEL}),
        (SCRIPT, {"run": True}),
        (PROGRAM, {"run": True}),
        (MODULE, {"trust_pickle": True}),
        (None, {"model": MODEL}),
    ],
)
def test_what_may_run_runs(path: Path | None, options: dict[str, Any]) -> None:
    given = subject(path, **options)
    assert RUNNER.permits(given) == ""
    images = np.zeros((2, 1, 8, 8), np.float32)
    with RUNNER.open(given) as session:
        assert len(session.part.layers) == 6
        trace = session.run(Batch(args=(images,), size=2, anchors=(0, 1)))
    assert trace.outputs[0].values.shape == (2, 10)
    assert len(trace.norm_calls) == 6


@pytest.mark.parametrize(("path", "options"), [(GRAPH, {}), (GRAPH, {"static": True}), (None, {})])
def test_what_is_another_runners(path: Path | None, options: dict[str, Any]) -> None:
    assert RUNNER.permits(subject(path, **options)) is None


def test_asking_imports_no_torch() -> None:
    code = (
        "import sys, bnaudit\n"
        "from bnaudit.run_options import RunOptions\n"
        "from bnaudit.runners import Subject, pytorch\n"
        f"pytorch.permits(Subject(None, bnaudit.describe({str(STATE_DICT)!r}), RunOptions()))\n"
        "print('torch' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "False"
